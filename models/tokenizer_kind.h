/* SPDX-License-Identifier: MIT
 *
 * What a kind of tokenizer provides, and the inside of an ord_tokenizer, for tokenizer.c and the kinds.
 */
#ifndef ORDITO_MODELS_TOKENIZER_KIND_H
#define ORDITO_MODELS_TOKENIZER_KIND_H

#include "models/tokenizer.h"
#include "runtime/text.h"

typedef struct ord_tokenizer_verbs {
  /* Reads what the kind needs from the rules; `vocab` is set. */
  bool (*open)(ord_tokenizer *tokenizer, const ord_tokenizer_rules *rules, ord_error *err);
  /* Writes the ids of a text, without the tokens around it, and returns how many: at most one a byte. */
  size_t (*encode)(const ord_tokenizer *tokenizer, const char *text, size_t bytes, int32_t *out_id);
  /* Gives the bytes of a token, if it has any, to ord_decoder_add. */
  void (*decode)(const ord_tokenizer *tokenizer, ord_decoder *decoder, int32_t id, ord_text *text);
  /* The token that is exactly this text; false if there is none. */
  bool (*find)(const ord_tokenizer *tokenizer, const char *text, int32_t *out_id);
  const char *wanted; /* what `find` takes, for the message */
} ord_tokenizer_verbs;

struct ord_tokenizer {
  const ord_tokenizer_verbs *verbs;
  int32_t vocab;
  int32_t first;   /* bytes: the id of byte 0 */
  int32_t *around; /* the tokens before a text, then those after it */
  uint32_t before_count, after_count;
  size_t cut; /* 0: no limit */
};

extern const ord_tokenizer_verbs ord_tokenizer_bytes;

/* Appends the characters that `bytes` complete to `text` and holds back the beginning of the next. */
void ord_decoder_add(ord_decoder *decoder, const unsigned char *bytes, size_t count, ord_text *text);

#endif
