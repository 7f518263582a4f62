/* SPDX-License-Identifier: MIT
 *
 * Weight files: finding them, listing their tensors, mapping them to the weights of a graph, and the table of
 * functions through which the store reads (runtime/weights.h). A file is opened, fully checked against its size
 * (counts, offsets, overlaps, names) before anything is allocated for it, and read with pread, never mapped.
 */
#ifndef ORDITO_MODELS_WEIGHT_FILE_H
#define ORDITO_MODELS_WEIGHT_FILE_H

#include "models/description.h"
#include "runtime/weights.h"

#define ORD_FILE_RANK_MAX 8

/* A tensor of a file: a dense row-major block. */
typedef struct ord_file_tensor {
  const char *name;
  const char *type_name; /* as the file writes it, "BF16", "F64" */
  ord_dtype dtype;       /* 0: a type that is listed but never read as a weight */
  uint32_t rank;
  int64_t dim[ORD_FILE_RANK_MAX];
  uint32_t file;   /* which file (shard) */
  uint64_t offset; /* bytes in it */
  uint64_t bytes;
} ord_file_tensor;

typedef struct ord_weight_file ord_weight_file;

/* Opens a file, a shard index (*.index.json) or a folder that holds exactly one of model.safetensors,
 * model.safetensors.index.json, *.gguf, *.bin. A checkpoint needs the description (its order) and the graph (its
 * shapes); its tensors are NAME, then all NAME.adam_m, then all NAME.adam_v. Both may be NULL for other files. */
ORD_MUST_CHECK bool ord_weight_file_open(const char *path, const ord_description *description, const ord_graph *graph,
                                         ord_weight_file **out, ord_error *err);
void ord_weight_file_close(ord_weight_file *file);
const char *ord_weight_file_path(const ord_weight_file *file);
uint32_t ord_weight_file_count(const ord_weight_file *file);
const ord_file_tensor *ord_weight_file_tensor(const ord_weight_file *file, uint32_t index);
/* Reads a range of a tensor's bytes. Any thread. A file that became shorter is an error. */
ORD_MUST_CHECK bool ord_weight_file_read(const ord_weight_file *file, uint32_t tensor, uint64_t offset, size_t bytes,
                                         void *into, ord_error *err);

/* Where the weights of a model are looked for: `given` (--weights), NAME/ beside the model file, ORDITO_MODELS; NAME is
 * the full name, then the name. The error lists the places. The result is malloc'ed text. */
ORD_MUST_CHECK bool ord_weight_file_find(const char *given, const char *model_file, const ord_description *description,
                                         char **out_path, ord_error *err);

/* What maps where: one row per weight of the graph and one per unused tensor. */
typedef enum { ORD_MAPS, ORD_MISSING, ORD_WRONG_SHAPE, ORD_WRONG_DTYPE, ORD_UNUSED, ORD_IGNORED } ord_mapping_state;
typedef struct ord_mapping_row {
  ord_mapping_state state;
  uint32_t weight;  /* ORD_NONE for UNUSED and IGNORED */
  uint32_t tensor;  /* ORD_NONE for MISSING */
  const char *text; /* the fault with found, wanted and the closest match; NULL for MAPS */
  uint32_t place;   /* where in the text of a fault "line N" begins: a message writes FILE:N there */
} ord_mapping_row;
typedef struct ord_mapping {
  ord_arena arena;
  ord_mapping_row *row;
  uint32_t row_count;
  uint32_t fault_count; /* missing, wrong shape, wrong dtype */
  const char *note;     /* what all missing names have in common, a prefix; NULL: nothing */
} ord_mapping;

/* Fills `mapping` (zeroed by the caller, freed with ord_mapping_finish); faults are rows, not failures. A NULL
 * description ignores no tensor. Adam moments of a tensor that is read count as IGNORED. Overlapping
 * slices and holes become `weight-hole` warnings, unused tensors `unused-tensor` warnings, in `list` (may be NULL). */
ORD_MUST_CHECK bool ord_mapping_make(const ord_weight_file *file, const ord_description *description,
                                     const ord_graph *graph, ord_mapping *mapping, ord_diagnostics *list,
                                     ord_error *err);
void ord_mapping_finish(ord_mapping *mapping);
/* All faults in one message: "w.safetensors: 2 faults for m.yaml: missing ..; .. is [..], wanted [..] (m.yaml:21)". */
bool ord_mapping_fail(const ord_mapping *mapping, const ord_weight_file *file, const char *model_file, ord_error *err);

/* A source for the store; takes the file over. Fails (and closes the file) if the mapping has faults. */
ORD_MUST_CHECK bool ord_weight_file_source(ord_weight_file *file, const ord_description *description,
                                           const ord_graph *graph, const char *model_file, ord_diagnostics *list,
                                           ord_weight_source *out, ord_error *err);

/* weight_random.c: f32 weights from a seed, normal, 0.02 wide (vectors: ones for weights of norms are not known, so
 * 1 + 0.02 * normal for rank 1); the same numbers for the same seed, name and place on every machine. */
ORD_MUST_CHECK bool ord_random_source(const ord_graph *graph, uint64_t seed, ord_weight_source *out, ord_error *err);

/* convert.c: writes all tensors as safetensors, or the graph's weights in their order as a checkpoint; from a
 * checkpoint, the graph's weights under their file names. The file is whole or absent: written beside, synced, renamed.
 * A checkpoint source keeps its Adam moments (tensors NAME.adam_m, NAME.adam_v, always f32) and step (metadata), and
 * gets them back when written as one.
 *
 * dtype 0: as they are. ORD_I8: the tensors that a matmul multiplies, with their scales as NAME.scale; the others stay
 * as they are. A float type: the floats, and the i8 tensors that a weight reads, multiplied by their scales.
 *
 * With a graph the file must serve it: faults end the conversion before anything is written, warnings go to `list`.
 * Only where neither file is a checkpoint and dtype is not ORD_I8, description and graph may be NULL. */
typedef struct ord_convert_options {
  ord_file_kind kind;
  ord_dtype dtype; /* ORD_F32, ORD_F16, ORD_BF16, ORD_I8 or 0 */
  ord_progress_fn progress;
  void *progress_context;
  const char *model_file; /* for messages; may be NULL */
  ord_diagnostics *list;  /* may be NULL */
} ord_convert_options;
ORD_MUST_CHECK bool ord_weight_file_convert(const ord_weight_file *file, const ord_description *description,
                                            const ord_graph *graph, const char *to, const ord_convert_options *options,
                                            ord_error *err);

#endif
