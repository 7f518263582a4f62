/* SPDX-License-Identifier: MIT
 *
 * A model file, read: everything that docs/model_format.md describes, with the size chosen and every number resolved,
 * but for the graph items, which stay as they are written until build.c turns them into an op graph. Immutable.
 * Reading needs no weights, no kernel and no device.
 */
#ifndef ORDITO_MODELS_DESCRIPTION_H
#define ORDITO_MODELS_DESCRIPTION_H

#include "graphs/graph.h"
#include "runtime/diagnostics.h"

typedef struct ord_description ord_description;

typedef struct ord_description_options {
  const char *size;    /* --size; NULL: none */
  size_t byte_limit;   /* 0: 1 MiB */
  uint32_t item_limit; /* 0: 65,536 */
  int64_t context;     /* --context: bounds caches and the token axis; 0: as the file says */
} ord_description_options;

/* A token named in the file: by number, or by its text. */
typedef struct ord_token_name {
  const char *text; /* NULL: `id` counts */
  int64_t id;
  uint32_t line, column; /* where the file says it */
} ord_token_name;

typedef enum { ORD_TOKENIZER_NONE, ORD_TOKENIZER_BYTES, ORD_TOKENIZER_FILE, ORD_TOKENIZER_GGUF } ord_tokenizer_kind;

typedef struct ord_tokenizer_rules {
  ord_tokenizer_kind kind;
  int64_t first; /* bytes: the id of byte 0 */
  const ord_token_name *before, *after;
  uint32_t before_count, after_count;
  int64_t cut; /* 0: a text that is too long is an error */
} ord_tokenizer_rules;

typedef struct ord_generate_rules {
  bool is_given;
  const char *logits; /* an output [batch, vocab] */
  const ord_token_name *stop;
  uint32_t stop_count;
} ord_generate_rules;

/* Reads `text` (borrowed until the description is destroyed). Every fault goes to `list`, 20 errors at most. Returns
 * false if there is an error; *out is then NULL. */
ORD_MUST_CHECK bool ord_description_read(const char *file, const char *text, size_t bytes,
                                         const ord_description_options *options, ord_diagnostics *list,
                                         ord_description **out);
void ord_description_destroy(ord_description *description);

const char *ord_description_name(const ord_description *description);      /* without the size */
const char *ord_description_full_name(const ord_description *description); /* name-size, or the name */
const char *ord_description_about(const ord_description *description);     /* NULL: none */
const ord_tokenizer_rules *ord_description_tokenizer(const ord_description *description);
const ord_generate_rules *ord_description_generate(const ord_description *description);
/* The dims as resolved, for `show`: "d_model", "384" or "1..1024"; NULL past the end. */
const char *ord_description_dim(const ord_description *description, uint32_t index, const char **out_value);

/* checkpoint.order, written out: weight names in file order; 0: none. */
uint32_t ord_description_order(const ord_description *description, const char *const **out_name);
/* Is the tensor of this name one that checkpoint.ignore covers? */
bool ord_description_ignores(const ord_description *description, const char *tensor);

/* message.c: all entries as text, each with its line of the source and a caret, and how many errors were not kept. */
void ord_diagnostics_print(const ord_diagnostics *list, ord_text *text);

/* build.c: the op graph. Warnings and faults go to `list`; false if there was an error. */
ORD_MUST_CHECK bool ord_graph_build(const ord_description *description, ord_diagnostics *list, ord_graph **out);

#endif
