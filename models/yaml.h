/* SPDX-License-Identifier: MIT
 *
 * YAML text as a tree of nodes with places, and nothing more: every scalar stays the text that it is, the field that
 * reads it decides its type. Read event by event with limits on bytes, depth and nodes; what the format does not know
 * (anchors, aliases, tags, merge keys, a second document) is told as a fault of its own.
 */
#ifndef ORDITO_MODELS_YAML_H
#define ORDITO_MODELS_YAML_H

#include "runtime/arena.h"
#include "runtime/diagnostics.h"

#define ORD_YAML_BYTE_LIMIT ((size_t)1 << 20)
#define ORD_YAML_DEPTH_LIMIT 32
#define ORD_YAML_NODE_LIMIT 100000

typedef enum {
  ORD_YAML_SCALAR,
  ORD_YAML_LIST,
  ORD_YAML_MAP,
  ORD_YAML_REFUSED /* a node whose fault was told; whoever meets it stays silent */
} ord_yaml_kind;

typedef struct ord_yaml_node ord_yaml_node;
struct ord_yaml_node {
  ord_yaml_kind kind;
  bool is_nothing;       /* a scalar that was not written: "key:" */
  bool is_verbatim;      /* the scalar stands in the file as it is, so that places inside it can be told */
  uint32_t line, column; /* 1-based, in characters */
  uint32_t text_column;  /* where the first character of a verbatim scalar stands, behind its quote */
  const char *text;      /* of a scalar, UTF-8 without NUL */
  size_t bytes;
  uint32_t count;             /* entries of a list, pairs of a map */
  const ord_yaml_node *first; /* the entries of a list, the keys of a map (scalars, each once) */
  const ord_yaml_node *next;
  const ord_yaml_node *value; /* of a key */
};

/* Reads one document into `arena`. Faults go to `list`. *out is the root, NULL where the text could not be read to its
 * end (a syntax error, a limit, out of memory): then nothing more can be said about it. */
void ord_yaml_read(const char *text, size_t bytes, size_t byte_limit, ord_arena *arena, ord_diagnostics *list,
                   const ord_yaml_node **out);

/* The value of a key, NULL if the map has none. */
const ord_yaml_node *ord_yaml_find(const ord_yaml_node *map, const char *key);
/* The column of byte `offset` of a scalar's text; the scalar's own where that cannot be told. */
uint32_t ord_yaml_column(const ord_yaml_node *scalar, size_t offset);

/* yaml_text.c: checks on the raw text (bytes, UTF-8, control characters, tabs in indentation), before libyaml sees it.
 * False if it told a fault. */
bool ord_yaml_check_text(const char *text, size_t bytes, size_t byte_limit, ord_diagnostics *list);
/* Bytes of the byte order mark at the start: 3 or 0. */
size_t ord_yaml_mark_bytes(const char *text, size_t bytes);
/* A line of the text without its end, *out_bytes long; NULL past the end. */
const char *ord_yaml_line(const char *text, size_t bytes, uint32_t line, size_t *out_bytes);
/* Bytes of the character at `at`, at least 1 and not beyond `end`. */
size_t ord_yaml_character(const char *at, const char *end);

/* Where libyaml stopped, and where the thing began that it could not finish (line 0: nothing). */
typedef struct ord_yaml_stop {
  const char *problem; /* in libyaml's words */
  uint32_t line, column;
  uint32_t begin_line, begin_column;
} ord_yaml_stop;

/* yaml_fault.c: tells a syntax error in our words. */
void ord_yaml_tell_syntax(const char *text, size_t bytes, const ord_yaml_stop *stop, ord_diagnostics *list);

#endif
