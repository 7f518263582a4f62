/* SPDX-License-Identifier: MIT
 *
 * What the files build_*.c share: the state while a description becomes an op graph. Names are bound in order in
 * scopes; whatever failed binds *unknown*, and what reads an unknown stays silent, so that each message is a fault of
 * its own.
 */
#ifndef ORDITO_MODELS_BUILDER_H
#define ORDITO_MODELS_BUILDER_H

#include "models/description_fields.h"

#define ORD_CALL_DEPTH_LIMIT 32
#define ORD_PATH_BYTES_MAX 500
#define ORD_RESULT_MAX 256 /* and values in the list of a slot */
/* What the items may hold in all, in names and numbers (long ones count more), for each item of the limit: a list of a
 * hundred names in a body that is written out costs as much as a few items. */
#define ORD_WORK_PER_ITEM 32

typedef enum { ORD_BOUND_VALUE, ORD_BOUND_UNKNOWN, ORD_BOUND_INDEX, ORD_BOUND_INT } ord_bound_kind;

/* A place in the file that binds a name, over all passes and calls. */
typedef struct ord_place_use {
  const ord_yaml_node *place;
  const char *warning; /* told if nobody reads what is bound here; NULL: none */
  bool is_read;
} ord_place_use;

typedef struct ord_binding {
  const char *name;
  ord_bound_kind kind;
  uint32_t value;      /* VALUE: of the graph */
  ord_size number;     /* INDEX, INT */
  bool is_unknown_int; /* an INT whose expression failed */
  ord_place_use *use;
} ord_binding;

/* A name of an outer scope that a pass of a repeat has bound again. */
typedef struct ord_carried {
  ord_binding *binding;
  uint32_t entering; /* the value on entering the pass; ORD_NONE: unknown */
} ord_carried;

/* The names of a graph, a block's body or one pass of a repeat. */
typedef struct ord_scope ord_scope;
struct ord_scope {
  ord_scope *outer;  /* of a pass: where its names are looked up too; NULL: a body sees nothing outside */
  ord_scope *caller; /* of a block's body, for hints */
  ord_names bound;   /* ord_binding */
  ord_names ended;   /* names that ended with a repeat: its node */
  ord_names carried; /* ord_carried */
  ord_names parts;   /* of paths: how often each was used, a uint32_t */
};

/* A weight or cache that the graph has, or one that failed. */
typedef struct ord_member {
  uint32_t number; /* weight: its value; cache: graph->cache; ORD_NONE: its fault was told */
  uint32_t line;   /* cache: where it was used first */
  const char *path;
} ord_member;

typedef struct ord_builder {
  const ord_description *description;
  ord_graph *graph;
  ord_arena scratch;
  ord_teller teller;
  ord_names told;
  ord_scope *scope;
  ord_text path, calls; /* of the scope */
  /* An item failed so that nobody knows what it binds: a name that is not found may be one of its. */
  bool has_lost_names, has_lost_numbers;
  uint32_t block_limit; /* blocks of lower numbers may be called here */
  uint32_t call_depth, item_count;
  uint64_t work;
  bool has_stopped; /* at a limit or out of memory */
  uint32_t weight_capacity, cache_capacity;
  ord_names weight_of_name, cache_of_name; /* ord_member */
  ord_names use_of_place;
  ord_names unknown_numbers; /* names in expressions that are none: what is said about them */
  bool *dim_is_used, *weight_is_used, *cache_is_used, *block_is_used;
  ord_expression_scope fixed, any; /* over dims, indices and int parameters; results live in the graph */
  uint32_t lengths_value;          /* of the input with fill: lengths; ORD_NONE: none */
} ord_builder;

/* Memory of the building; NULL, noted, and building stops. */
void *ord_builder_take(ord_builder *builder, size_t count, size_t element_bytes);
bool ord_builder_fail_memory(ord_builder *builder);
/* Copies a size of the description into the graph, which outlives it. */
ORD_MUST_CHECK bool ord_builder_copy_size(ord_builder *builder, ord_size size, ord_size *out);
/* Counts an item; false, told, at the limit. */
bool ord_builder_count_item(ord_builder *builder, const ord_yaml_node *place);
/* Counts what an item holds: a scalar by its bytes. False, told, at the limit. */
bool ord_builder_spend(ord_builder *builder, const ord_yaml_node *node);

/* ---- build_scope.c: paths and bindings ------------------------------------------------------------------------- */

/* Enters a part of the path ("layer", "self_attention"): returns the length to leave it with. */
size_t ord_path_enter(ord_builder *builder, const ord_yaml_node *place, const char *part);
void ord_path_add(ord_builder *builder, const char *part);
void ord_path_leave(ord_builder *builder, size_t length);
/* The path of an op or value in this scope, "layer.0.q#2"; NULL when out of memory. */
const char *ord_path_of(ord_builder *builder, const char *part);

ord_place_use *ord_use_of(ord_builder *builder, const ord_yaml_node *place, const char *warning);
/* Looks through the scope and those around it. */
ord_binding *ord_binding_find(const ord_builder *builder, const char *name);
/* A new name of this very scope. */
ord_binding *ord_binding_add(ord_builder *builder, const char *name, ord_bound_kind kind, ord_place_use *use);
/* Binds a result: anew, or again in the scope that has the name. value ORD_NONE: unknown. */
void ord_bind_result(ord_builder *builder, const ord_yaml_node *name, uint32_t value);
/* May `name` be bound to a result? Tells why not. */
bool ord_name_is_free(ord_builder *builder, const ord_yaml_node *name);
/* A new name: an index. */
bool ord_name_is_new(ord_builder *builder, const ord_yaml_node *name);
/* Ends a pass: what was carried must have kept its type, what was bound first ends with `repeat`. */
void ord_pass_end(ord_builder *builder, ord_scope *pass, const ord_yaml_node *body, const ord_yaml_node *repeat);

/* The names a reader may have meant, for ord_nearest_name; from the scratch arena, *out_count of them. */
const char **ord_builder_candidates(ord_builder *builder, uint32_t *out_count);

/* ---- build_name.c: what a name stands for ----------------------------------------------------------------------- */

/* The value of a slot or of a block's parameter: a bound value or a weight. False, with ORD_NONE, after a fault and
 * for what is unknown. */
bool ord_read_value(ord_builder *builder, const ord_yaml_node *node, const char *slot, uint32_t *out);
/* The cache of an attention at `path`, each used once. */
bool ord_read_cache(ord_builder *builder, const ord_yaml_node *node, const char *path, uint32_t *out);
bool ord_builder_find_number(void *context, const char *name, ord_size *out, ord_fault *fault);

/* ---- build_item.c --------------------------------------------------------------------------------------------------
 */

void ord_build_items(ord_builder *builder, const ord_yaml_node *list);

/* ---- build_end.c: what is checked once the graph stands ------------------------------------------------------------
 */

void ord_build_outputs(ord_builder *builder);
void ord_check_text(ord_builder *builder);
void ord_check_order(ord_builder *builder);
/* Only where there is no error: a failed item reads nothing. */
void ord_warn_unused(ord_builder *builder);

#endif
