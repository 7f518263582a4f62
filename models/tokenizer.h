/* SPDX-License-Identifier: MIT
 *
 * Text to token ids and back. One table of functions per kind; `bytes` is the only kind so far. Immutable after
 * creation; any thread.
 */
#ifndef ORDITO_MODELS_TOKENIZER_H
#define ORDITO_MODELS_TOKENIZER_H

#include "models/description.h"

typedef struct ord_tokenizer ord_tokenizer;

/* `vocab`: rows of the logits; ids outside are refused. ORD_TOKENIZER_NONE gives an error that names --prompt-ids. */
ORD_MUST_CHECK bool ord_tokenizer_create(const ord_tokenizer_rules *rules, int64_t vocab, ord_tokenizer **out,
                                         ord_error *err);
void ord_tokenizer_destroy(ord_tokenizer *tokenizer);

/* The ids of a text with the tokens around it (`before`, `after`), malloc'ed. Any bytes are text for `bytes`. */
ORD_MUST_CHECK bool ord_tokenizer_encode(const ord_tokenizer *tokenizer, const char *text, size_t bytes,
                                         int32_t **out_id, size_t *out_count, ord_error *err);

/* A stream of ids back to text, split characters held back until they are whole. Zero-initialise. */
typedef struct ord_decoder {
  unsigned char held[4];
  uint32_t held_count;
} ord_decoder;

/* Appends the text that is complete after `id` to `text`; bytes that can be no UTF-8 become U+FFFD. Tokens without
 * text (a start token) add nothing. */
void ord_tokenizer_decode(const ord_tokenizer *tokenizer, ord_decoder *decoder, int32_t id, ord_text *text);
/* What is still held at the end, as U+FFFD. */
void ord_tokenizer_decode_end(ord_decoder *decoder, ord_text *text);

/* The id of a token written as text or number in the model file; false with an error that names it. */
ORD_MUST_CHECK bool ord_tokenizer_find(const ord_tokenizer *tokenizer, const ord_token_name *name, int32_t *out,
                                       ord_error *err);

#endif
