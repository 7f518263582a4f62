/* SPDX-License-Identifier: MIT
 *
 * Names with holes: "h.<layer>.wq". As a key of weights or caches a hole stands for any whole number and the key is a
 * family; where the name is used, the hole is an expression that is written out: "h.3.wq".
 */
#ifndef ORDITO_MODELS_PATTERN_H
#define ORDITO_MODELS_PATTERN_H

#include "models/expression.h"
#include "models/names.h"
#include "models/yaml.h"

#define ORD_HOLE_MAX 8
#define ORD_FAMILY_MAX 256

/* A key of weights or caches. */
typedef struct ord_family ord_family;
struct ord_family {
  const char *name;               /* as written */
  const ord_yaml_node *key;       /* its place; key->value is what is said about it */
  const char *hole[ORD_HOLE_MAX]; /* names of its holes, each once */
  uint32_t hole_count;
  bool is_known;    /* false: a fault of it was told */
  uint32_t number;  /* its place among the keys */
  ord_family *next; /* of the same skeleton */
  uint32_t behind;  /* how many stand behind `next` and it */
};

typedef struct ord_families {
  ord_family *item;
  uint32_t count;
  ord_names by_name;     /* those without holes */
  ord_names by_skeleton; /* those with holes; every number and hole replaced by '#': what may match stands together */
} ord_families;

/* Letters, digits, '_', '.', '-' and <..>. */
ORD_MUST_CHECK bool ord_pattern_check(const char *what, const char *text, ord_fault *fault);
/* Takes the holes of `text` into `family`: each a name between characters that are no digits. */
ORD_MUST_CHECK bool ord_pattern_read_holes(const char *text, ord_arena *arena, ord_family *family, ord_fault *fault);
/* Writes `text` with its holes evaluated into `arena`; at most ORD_NAME_BYTES_MAX bytes. */
ORD_MUST_CHECK bool ord_pattern_expand(const ord_expression_scope *scope, const char *text, ord_arena *arena,
                                       const char **out, ord_fault *fault);
/* Does `name` belong to the family? value[i] receives the number in hole i. */
bool ord_pattern_matches(const ord_family *family, const char *name, int64_t *value);

/* Makes the tables once all keys are there. *out_crowded is a family of whose skeleton there are more than
 * ORD_FAMILY_MAX, which would make each look-up long; else NULL. */
ORD_MUST_CHECK bool ord_families_index(ord_families *families, ord_arena *arena, const ord_family **out_crowded);
/* A family that `name` belongs to, NULL if there is none; *out_second is another one, else NULL. */
const ord_family *ord_families_find(const ord_families *families, const char *name, int64_t *value,
                                    const ord_family **out_second);

#endif
