/* SPDX-License-Identifier: MIT
 *
 * The byte tokenizer: id = byte + first. Any bytes are text, valid UTF-8 or not.
 */
#include <string.h>

#include "models/tokenizer_kind.h"

enum { BYTE_COUNT = 256 };

static bool bytes_open(ord_tokenizer *tokenizer, const ord_tokenizer_rules *rules, ord_error *err) {
  if (rules->first < 0 || rules->first > (int64_t)tokenizer->vocab - BYTE_COUNT)
    return ord_fail(err, ORD_INVALID, "tokenizer: byte 0 is id %lld; wanted %d ids from there on in a vocabulary of %d",
                    (long long)rules->first, BYTE_COUNT, tokenizer->vocab);
  tokenizer->first = (int32_t)rules->first;
  return true;
}

static size_t bytes_encode(const ord_tokenizer *tokenizer, const char *text, size_t bytes, int32_t *out_id) {
  for (size_t i = 0; i < bytes; i++) out_id[i] = tokenizer->first + (unsigned char)text[i];
  return bytes;
}

static void bytes_decode(const ord_tokenizer *tokenizer, ord_decoder *decoder, int32_t id, ord_text *text) {
  const int64_t byte = (int64_t)id - tokenizer->first;
  if (byte < 0 || byte >= BYTE_COUNT) return;
  ord_decoder_add(decoder, &(unsigned char){(unsigned char)byte}, 1, text);
}

static bool bytes_find(const ord_tokenizer *tokenizer, const char *text, int32_t *out_id) {
  if (strlen(text) != 1) return false;
  *out_id = tokenizer->first + (unsigned char)text[0];
  return true;
}

const ord_tokenizer_verbs ord_tokenizer_bytes = {.open = bytes_open,
                                                 .encode = bytes_encode,
                                                 .decode = bytes_decode,
                                                 .find = bytes_find,
                                                 .wanted = "one byte or an id"};
