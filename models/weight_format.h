/* SPDX-License-Identifier: MIT
 *
 * The inside of a weight file, for the readers of the formats, the mapping and the writer. A reader appends files,
 * tensors and metadata while the file is opened; afterwards nothing changes, so any thread may read.
 */
#ifndef ORDITO_MODELS_WEIGHT_FORMAT_H
#define ORDITO_MODELS_WEIGHT_FORMAT_H

#include <time.h>

#include "models/int8.h"
#include "models/weight_file.h"

#define ORD_ADAM_M ".adam_m"
#define ORD_ADAM_V ".adam_v"
#define ORD_SCALE ".scale"
#define ORD_STEP_KEY "step" /* of the metadata: the training step of a checkpoint */
#define ORD_LIST_MAX 8      /* names in a message before "and N more" */

/* One open file on disk, with what must stay as it was while it is read. */
typedef struct ord_weight_disk {
  const char *path;
  int descriptor;
  uint64_t bytes;
  struct timespec changed;
} ord_weight_disk;

typedef struct ord_weight_metadata {
  const char *key, *value;
} ord_weight_metadata;

struct ord_weight_file {
  ord_arena arena;
  ord_file_kind kind;
  const char *path;
  ord_weight_disk *disk;
  uint32_t disk_count, disk_capacity;
  ord_file_tensor *tensor;
  uint32_t tensor_count, tensor_capacity;
  uint32_t *by_name; /* the tensors in the order of their names */
  ord_weight_metadata *metadata;
  uint32_t metadata_count, metadata_capacity;
};

/* A reader of one format: opens what file->path names. On failure the caller closes the file. */
typedef bool (*ord_weight_open_fn)(ord_weight_file *file, const ord_description *description, const ord_graph *graph,
                                   ord_error *err);
ORD_MUST_CHECK bool ord_safetensors_open(ord_weight_file *file, const ord_description *description,
                                         const ord_graph *graph, ord_error *err);
ORD_MUST_CHECK bool ord_safetensors_index_open(ord_weight_file *file, const ord_description *description,
                                               const ord_graph *graph, ord_error *err);
ORD_MUST_CHECK bool ord_checkpoint_open(ord_weight_file *file, const ord_description *description,
                                        const ord_graph *graph, ord_error *err);

/* The weights of the graph in the order of checkpoint.order; *out_weight belongs to `arena`. */
ORD_MUST_CHECK bool ord_checkpoint_order(const ord_description *description, const ord_graph *graph, ord_arena *arena,
                                         uint32_t **out_weight, uint32_t *out_count, ord_error *err);

/* Opens one safetensors file and appends it with its tensors; a single file and each shard come through here. */
ORD_MUST_CHECK bool ord_safetensors_add(ord_weight_file *file, const char *path, ord_error *err);
/* How safetensors writes a type; NULL for one that it does not have. */
const char *ord_safetensors_type(ord_dtype dtype);

/* Opens `path`, which must be a regular file, and appends it. */
ORD_MUST_CHECK bool ord_weight_file_add_disk(ord_weight_file *file, const char *path, ord_error *err);
ORD_MUST_CHECK bool ord_weight_file_add_tensor(ord_weight_file *file, const ord_file_tensor *tensor, ord_error *err);
/* Both texts are copied. */
ORD_MUST_CHECK bool ord_weight_file_add_metadata(ord_weight_file *file, const char *key, const char *value,
                                                 ord_error *err);
/* A reader's last step: sorts the names, so that they can be found; one that is there twice is an error. */
ORD_MUST_CHECK bool ord_weight_file_index(ord_weight_file *file, ord_error *err);
/* NULL if there is none. */
const char *ord_weight_file_metadata(const ord_weight_file *file, const char *key);
/* ORD_NONE if there is none. */
uint32_t ord_weight_file_find_tensor(const ord_weight_file *file, const char *name);
/* The tensor whose name is these two texts one behind the other. */
uint32_t ord_weight_file_find_joined(const ord_weight_file *file, const char *first, const char *second);
/* The tensor NAME + suffix of tensor `index`, ORD_NONE if there is none. */
uint32_t ord_weight_file_find_companion(const ord_weight_file *file, uint32_t index, const char *suffix);
/* Reads all of a range; a file that is shorter or was written to meanwhile is an error. */
ORD_MUST_CHECK bool ord_weight_disk_read(const ord_weight_disk *disk, uint64_t offset, size_t bytes, void *into,
                                         ord_error *err);

/* weight_find.c: the weight file that `path` means, malloc'ed: itself, or the one in a folder. */
ORD_MUST_CHECK bool ord_weight_file_choose(const char *path, char **out, ord_error *err);

/* weight_guess.c: what a file that is not what it should be looks like, from its first bytes, as the end of a message:
 * "; it looks like a zip archive, ..", or "". */
const char *ord_weight_guess(const ord_weight_disk *disk);

/* A shape as messages write it, "[384, 1536]". */
typedef struct ord_dims_text {
  char bytes[ORD_FILE_RANK_MAX * 22 + 3];
} ord_dims_text;
ord_dims_text ord_dims_print(uint32_t rank, const int64_t *dim);

/* weight_span.c: where the part of a tensor that a weight reads lies: `outer` runs of `run` bytes, `stride` bytes from
 * start to start, the first at `base`. The runs one behind the other are the weight. */
typedef struct ord_weight_span {
  uint64_t outer, base, stride, run;
} ord_weight_span;
/* Of the whole tensor, if the file does not slice. The shapes must have been checked. */
ord_weight_span ord_weight_span_make(const ord_weight_file *file, uint32_t tensor, const ord_graph_weight *weight);
/* The rows of a tensor with these dims that a weight reads, as an i8 tensor has one scale for each. False if the weight
 * has no rows (rank below 2). */
ORD_MUST_CHECK bool ord_weight_rows_find(uint32_t rank, const int64_t *dim, const ord_graph_weight *weight,
                                         ord_weight_rows *out);
/* Of the scales of an i8 tensor, one f32 per row: *out_whole is how many the tensor has. False if the weight has no
 * rows (rank below 2). */
ORD_MUST_CHECK bool ord_weight_span_scale(const ord_file_tensor *tensor, const ord_graph_weight *weight,
                                          ord_weight_span *out, uint64_t *out_whole);
uint64_t ord_weight_span_bytes(const ord_weight_span *span);
/* Reads a range of the weight's bytes. */
ORD_MUST_CHECK bool ord_weight_span_read(const ord_weight_file *file, uint32_t tensor, const ord_weight_span *span,
                                         uint64_t offset, size_t bytes, void *into, ord_error *err);

/* Reads the scales of tensor `scale` that lie in `span`; one that is no finite number from 0 is an error. */
ORD_MUST_CHECK bool ord_weight_scales_read(const ord_weight_file *file, uint32_t scale, const ord_weight_span *span,
                                           float *into, ord_error *err);

/* weight_holes.c: warns (`weight-hole`) of slices of one tensor that overlap or leave a part of it unread. */
ORD_MUST_CHECK bool ord_weight_warn_holes(const ord_weight_file *file, const ord_graph *graph,
                                          const ord_mapping *mapping, ord_diagnostics *list, ord_error *err);

/* The tensor name under which `file` holds a weight: a checkpoint knows the weights of the model and no slices. */
const char *ord_weight_file_name_of(const ord_weight_file *file, const ord_graph_weight *weight);
/* Does `file` hold the weight as a part of a larger tensor? */
bool ord_weight_file_slices(const ord_weight_file *file, const ord_graph_weight *weight);

#endif
