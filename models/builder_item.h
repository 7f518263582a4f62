/* SPDX-License-Identifier: MIT
 *
 * The items of a graph or body while they are built: an op, a repeat, the call of a block, and the names behind `out`
 * that the first and the last have in common.
 */
#ifndef ORDITO_MODELS_BUILDER_ITEM_H
#define ORDITO_MODELS_BUILDER_ITEM_H

#include "models/builder.h"

void ord_build_repeat(ord_builder *builder, const ord_yaml_node *key);
void ord_build_call(ord_builder *builder, const ord_yaml_node *key, const ord_block *block);
void ord_build_op(ord_builder *builder, const ord_yaml_node *key, const ord_op *op);

/* The names behind `out`, each free to be bound; NULL entries for `_`. Faults are told and make the list unusable. */
typedef struct ord_results {
  const ord_yaml_node **name;
  uint32_t count;
  bool is_good;
} ord_results;
void ord_read_results(ord_builder *builder, const ord_yaml_node *map, const char *what, uint32_t min, uint32_t max,
                      ord_results *out);
void ord_bind_unknown(ord_builder *builder, const ord_results *results);

/* An op while its item is read. */
typedef struct ord_op_item {
  const ord_op *op;
  const ord_yaml_node *key, *map;
  bool is_usable; /* nothing in it failed, now or before */
  ord_results results;
  const char **out_name, **out_path;
  const char *path; /* of the op */
  uint32_t *in;
  double *number;
  bool *has_number;
  uint32_t in_count;
  ord_attr *attr;
  uint32_t attr_count;
  ord_size *shape;
  uint32_t shape_rank;
  uint32_t cache;
} ord_op_item;

/* build_attribute.c */
void ord_read_attributes(ord_builder *builder, ord_op_item *item);

#endif
