/* SPDX-License-Identifier: MIT
 *
 * The fields of a description, for the files that read its parts (description_*.c) and for build.c. Once it is read
 * nothing in it changes.
 */
#ifndef ORDITO_MODELS_DESCRIPTION_FIELDS_H
#define ORDITO_MODELS_DESCRIPTION_FIELDS_H

#include "models/description.h"
#include "models/field.h"
#include "models/pattern.h"

#define ORD_REPEAT "repeat" /* the key of an item that is neither an op nor a block */
#define ORD_ITEM_LIMIT 65536
#define ORD_PARAMETER_MAX 60

typedef struct ord_dim {
  const char *name;
  const ord_yaml_node *key;
  uint32_t number; /* among all dims */
  bool is_known;   /* false: its fault was told, or no size was chosen */
  bool is_set;     /* read so far: the dims below may use it */
  bool is_run;
  bool is_used;      /* by another part that is read; build.c adds its own uses */
  bool stands_alone; /* an axis of an input is this run-time dim */
  uint32_t run_number;
  int64_t min, max; /* of a run-time dim; a fixed one has its value in both */
  ord_size size;
  const char *text; /* as reports write it: "384", "1..1024" */
} ord_dim;

typedef struct ord_input {
  const char *name;
  const ord_yaml_node *key;
  bool is_known; /* false: a fault of it was told */
  ord_dtype dtype;
  uint32_t rank;
  ord_size dim[ORD_RANK_MAX];
  ord_fill fill;
  double fill_number;
} ord_input;

typedef struct ord_parameter {
  const char *name;
  const ord_yaml_node *key;
  bool is_int;
} ord_parameter;

typedef struct ord_block {
  const char *name;
  const ord_yaml_node *key;
  uint32_t number; /* it may call the blocks of lower numbers */
  bool is_known;
  ord_parameter *parameter;
  uint32_t parameter_count;
  const ord_yaml_node *gives, *body;
} ord_block;

struct ord_description {
  ord_arena arena;
  const ord_yaml_node *root;
  uint32_t item_limit;
  int64_t context; /* 0: as the file says */
  const char *name, *full_name, *about;

  /* A part failed so that nobody knows which names it gives: what is not found may be one of them, and is not told. */
  bool has_lost_dims, has_lost_names;

  ord_dim *dim; /* those of the size first */
  uint32_t dim_count;
  ord_names dim_of_name;
  uint32_t run_dim_count;

  ord_input *input;
  uint32_t input_count;
  ord_names input_of_name;

  ord_families weights, caches;
  const char **order; /* checkpoint.order, written out; NULL: none */
  const ord_yaml_node **order_place;
  uint32_t order_count;
  const char **ignore;
  uint32_t ignore_count;

  ord_block *block;
  uint32_t block_count;
  ord_names block_of_name;
  const ord_yaml_node *graph, *outputs;

  ord_tokenizer_rules tokenizer;
  ord_generate_rules generate;
  const ord_yaml_node *generate_logits, *embed_vector; /* their places */
};

/* What the readers of the parts share. */
typedef struct ord_reader {
  ord_description *description;
  const ord_description_options *options;
  ord_teller teller;
  ord_expression_scope fixed, any; /* over the dims; `any` allows run-time dims */
  bool is_hopeless;                /* a limit was passed: the graph is not looked at */
} ord_reader;

/* Each reads one part and tells its faults; parts that others build upon come first. */
void ord_description_read_sizes(ord_reader *reader, const ord_yaml_node *sizes, const ord_yaml_node *dims);
void ord_description_read_dims(ord_reader *reader, const ord_yaml_node *dims);
/* Once --context has bounded them. */
void ord_description_write_dims(ord_reader *reader);
void ord_description_read_inputs(ord_reader *reader, const ord_yaml_node *inputs);
void ord_description_read_weights(ord_reader *reader, const ord_yaml_node *weights);
void ord_description_read_caches(ord_reader *reader, const ord_yaml_node *caches);
void ord_description_read_checkpoint(ord_reader *reader, const ord_yaml_node *checkpoint);
void ord_description_read_blocks(ord_reader *reader, const ord_yaml_node *blocks);
void ord_description_read_tokenizer(ord_reader *reader, const ord_yaml_node *tokenizer);
void ord_description_read_generate(ord_reader *reader, const ord_yaml_node *generate);
void ord_description_read_embed(ord_reader *reader, const ord_yaml_node *embed);

/* Room for a new table of `count` elements; NULL, noted, when out of memory. */
void *ord_reader_take(ord_reader *reader, size_t count, size_t element_bytes);

/* The dim of a name as an expression sees it; false with a fault. */
bool ord_dim_find(const ord_description *description, const char *name, ord_size *out, ord_fault *fault);
/* An axis of an input or of a `shape`: 0 or more whatever the run-time dims are. */
ORD_MUST_CHECK bool ord_axis_read(ord_teller *teller, const ord_expression_scope *scope,
                                  const ord_description *description, const ord_yaml_node *axis, ord_size *out);
/* A weight of a family under `scope`, which knows the numbers in its holes. Texts are made in `arena`. */
ORD_MUST_CHECK bool ord_weight_resolve(ord_teller *teller, const ord_expression_scope *scope, const ord_family *family,
                                       ord_arena *arena, ord_graph_weight *out);
/* The length of a cache of a family, before --context. */
ORD_MUST_CHECK bool ord_cache_resolve(ord_teller *teller, const ord_expression_scope *scope, const ord_family *family,
                                      int64_t *out);

/* build.c: builds only to tell the faults of the graph too, where the description has some of its own. */
void ord_graph_check(const ord_description *description, ord_diagnostics *list);

#endif
