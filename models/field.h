/* SPDX-License-Identifier: MIT
 *
 * Reading the nodes of a YAML tree as fields: what kind a node has, which keys a mapping may hold, and telling faults
 * with their place and path. A node that was refused before is passed over in silence.
 */
#ifndef ORDITO_MODELS_FIELD_H
#define ORDITO_MODELS_FIELD_H

#include "models/expression.h"
#include "models/names.h"
#include "models/yaml.h"

/* How faults are told. With `told` a fault at one place is told once: for the first pass of a repeat that has it (the
 * same place, reached by the same `calls`), and once if the words are the same. */
typedef struct ord_teller {
  ord_diagnostics *list;
  const char *path;  /* "layer.0", put behind the message; "": none */
  const char *calls; /* the block calls that led here, by their places */
  ord_names *told;   /* NULL: tell everything */
  ord_arena *arena;  /* of `told` */
} ord_teller;

void ord_tell_at(ord_teller *teller, uint32_t line, uint32_t column, const char *format, ...) ORD_PRINTF(4, 5);
void ord_tell(ord_teller *teller, const ord_yaml_node *node, const char *format, ...) ORD_PRINTF(3, 4);
/* A fault inside a scalar, at its offset. */
void ord_tell_fault(ord_teller *teller, const ord_yaml_node *scalar, const ord_fault *fault);
/* False if the fault of this node was told already, so that nobody needs to look for words. */
bool ord_tell_is_new(ord_teller *teller, const ord_yaml_node *node);
/* Notes that memory ran out. Returns false. */
bool ord_tell_memory(ord_teller *teller);

/* True if the node has the kind; else tells "<what>: found ..; wanted <wanted>". */
bool ord_field_is_map(ord_teller *teller, const ord_yaml_node *node, const char *what, const char *wanted);
bool ord_field_is_list(ord_teller *teller, const ord_yaml_node *node, const char *what, const char *wanted);
bool ord_field_is_scalar(ord_teller *teller, const ord_yaml_node *node, const char *what, const char *wanted);
/* What a message says was found: "nothing", "a list", "'text'". Writes into `buffer` where it must. */
const char *ord_field_found(const ord_yaml_node *node, char *buffer, size_t bytes);

/* One key of a mapping with a fixed set of keys. */
typedef struct ord_key {
  const char *name;
  const char *wanted; /* of a required key, the end of "<what> lacks '<name>'; wanted .."; NULL: may be left out */
} ord_key;

/* Tells unknown keys (with the nearest known one) and required ones that are missing. A missing key that is near to an
 * unknown one is the same fault and not told. */
bool ord_field_check_keys(ord_teller *teller, const ord_yaml_node *map, const char *what, const ord_key *key,
                          uint32_t key_count);

/* A whole number: a fixed expression of at least `least`. False after a fault (told, or silent). */
bool ord_field_whole(ord_teller *teller, const ord_expression_scope *scope, const ord_yaml_node *node, const char *what,
                     int64_t least, int64_t *out);
/* An axis: an expression whose fixed value is at least `least`. */
bool ord_field_size(ord_teller *teller, const ord_expression_scope *scope, const ord_yaml_node *node, const char *what,
                    int64_t least, ord_size *out);

#endif
