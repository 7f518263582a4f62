/* SPDX-License-Identifier: MIT
 *
 * What all tokenizers share: the tokens around a text, its cut, and bytes back to characters. Text may come in as any
 * bytes; it goes out as UTF-8 only.
 */
#include "models/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "models/tokenizer_kind.h"

/* By ord_tokenizer_kind; NULL: none of this version. */
static const struct {
  const ord_tokenizer_verbs *verbs;
  const char *refusal;
} kinds[] = {
    [ORD_TOKENIZER_NONE] = {NULL, "the model has no tokenizer; wanted token ids (--prompt-ids)"},
    [ORD_TOKENIZER_BYTES] = {&ord_tokenizer_bytes, NULL},
    [ORD_TOKENIZER_FILE] = {NULL, "tokenizer: kind file is not supported; wanted bytes, or token ids (--prompt-ids)"},
    [ORD_TOKENIZER_GGUF] = {NULL, "tokenizer: kind gguf is not supported; wanted bytes, or token ids (--prompt-ids)"},
};

bool ord_tokenizer_find(const ord_tokenizer *tokenizer, const ord_token_name *name, int32_t *out, ord_error *err) {
  if (name->text) {
    return tokenizer->verbs->find(tokenizer, name->text, out) ||
           ord_fail(err, ORD_INVALID, "'%s' is no token of the tokenizer; wanted %s", name->text,
                    tokenizer->verbs->wanted);
  }
  if (name->id < 0 || name->id >= tokenizer->vocab)
    return ord_fail(err, ORD_INVALID, "token id %lld is outside the vocabulary; wanted 0 to %d", (long long)name->id,
                    tokenizer->vocab - 1);
  *out = (int32_t)name->id;
  return true;
}

static bool find_around(ord_tokenizer *tokenizer, const ord_tokenizer_rules *rules, ord_error *err) {
  size_t count;
  if (!ord_size_add(rules->before_count, rules->after_count, &count)) return ord_fail_memory(err, "making a tokenizer");
  tokenizer->around = calloc(count + 1, sizeof *tokenizer->around);
  if (!tokenizer->around) return ord_fail_memory(err, "making a tokenizer");
  tokenizer->before_count = rules->before_count;
  tokenizer->after_count = rules->after_count;
  for (size_t i = 0; i < count; i++) {
    const ord_token_name *name = i < rules->before_count ? &rules->before[i] : &rules->after[i - rules->before_count];
    if (!ord_tokenizer_find(tokenizer, name, &tokenizer->around[i], err)) return ord_fail_prefix(err, "tokenizer");
  }
  if (rules->cut < 0 || (rules->cut && (uint64_t)rules->cut < count))
    return ord_fail(err, ORD_INVALID, "tokenizer: cut is %lld; wanted room for the %zu tokens around a text",
                    (long long)rules->cut, count);
  tokenizer->cut = (size_t)rules->cut;
  return true;
}

bool ord_tokenizer_create(const ord_tokenizer_rules *rules, int64_t vocab, ord_tokenizer **out, ord_error *err) {
  *out = NULL;
  const ord_tokenizer_verbs *verbs = kinds[rules->kind].verbs;
  if (!verbs) return ord_fail(err, ORD_UNSUPPORTED, "%s", kinds[rules->kind].refusal);
  if (vocab < 1 || vocab > INT32_MAX)
    return ord_fail(err, ORD_INVALID, "tokenizer: a vocabulary of %lld; wanted 1 to %d", (long long)vocab, INT32_MAX);
  ord_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
  if (!tokenizer) return ord_fail_memory(err, "making a tokenizer");
  tokenizer->verbs = verbs;
  tokenizer->vocab = (int32_t)vocab;
  if (!verbs->open(tokenizer, rules, err) || !find_around(tokenizer, rules, err)) {
    ord_tokenizer_destroy(tokenizer);
    return false;
  }
  *out = tokenizer;
  return true;
}

void ord_tokenizer_destroy(ord_tokenizer *tokenizer) {
  if (!tokenizer) return;
  free(tokenizer->around);
  free(tokenizer);
}

bool ord_tokenizer_encode(const ord_tokenizer *tokenizer, const char *text, size_t bytes, int32_t **out_id,
                          size_t *out_count, ord_error *err) {
  const size_t before = tokenizer->before_count, around = before + tokenizer->after_count;
  size_t room;
  *out_id = NULL;
  *out_count = 0;
  if (!ord_size_add(bytes, around + 1, &room) || !ord_size_multiply(room, sizeof **out_id, &room))
    return ord_fail_memory(err, "encoding a text");
  int32_t *id = malloc(room);
  if (!id) return ord_fail_memory(err, "encoding a text");
  memcpy(id, tokenizer->around, before * sizeof *id);
  size_t inner = bytes ? tokenizer->verbs->encode(tokenizer, text, bytes, id + before) : 0;
  if (tokenizer->cut && inner > tokenizer->cut - around) inner = tokenizer->cut - around;
  memcpy(id + before + inner, tokenizer->around + before, tokenizer->after_count * sizeof *id);
  *out_id = id;
  *out_count = around + inner;
  return true;
}

/* ---- bytes to characters --------------------------------------------------------------------------------------- */

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* First bytes of characters of several bytes, how many these have, and which second bytes may follow. */
static const struct {
  unsigned char first_low, first_high, bytes, second_low, second_high;
} lead[] = {{0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf}, {0xe1, 0xec, 3, 0x80, 0xbf},
            {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf}, {0xf0, 0xf0, 4, 0x90, 0xbf},
            {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f}};

/* The row of `lead` for a first byte, the number of rows if no character begins so. */
static size_t lead_find(unsigned char first) {
  size_t row = 0;
  while (row < sizeof lead / sizeof *lead && (first < lead[row].first_low || first > lead[row].first_high)) row++;
  return row;
}

static void drop_held(ord_decoder *decoder, ord_text *text) {
  if (decoder->held_count) ord_text_add_n(text, replacement, sizeof replacement - 1);
  decoder->held_count = 0;
}

/* Goes on with the held character, if there is one and `byte` fits behind it. */
static bool continue_held(ord_decoder *decoder, unsigned char byte, ord_text *text) {
  if (!decoder->held_count) return false;
  const size_t row = lead_find(decoder->held[0]);
  const bool is_second = decoder->held_count == 1;
  if (byte < (is_second ? lead[row].second_low : 0x80) || byte > (is_second ? lead[row].second_high : 0xbf))
    return false;
  decoder->held[decoder->held_count++] = byte;
  if (decoder->held_count == lead[row].bytes) {
    ord_text_add_n(text, (const char *)decoder->held, decoder->held_count);
    decoder->held_count = 0;
  }
  return true;
}

void ord_decoder_add(ord_decoder *decoder, const unsigned char *bytes, size_t count, ord_text *text) {
  for (size_t i = 0; i < count; i++) {
    if (continue_held(decoder, bytes[i], text)) continue;
    drop_held(decoder, text);
    if (bytes[i] < 0x80)
      ord_text_add_n(text, (const char *)&bytes[i], 1);
    else if (lead_find(bytes[i]) < sizeof lead / sizeof *lead)
      decoder->held[decoder->held_count++] = bytes[i];
    else
      ord_text_add_n(text, replacement, sizeof replacement - 1);
  }
}

void ord_tokenizer_decode(const ord_tokenizer *tokenizer, ord_decoder *decoder, int32_t id, ord_text *text) {
  tokenizer->verbs->decode(tokenizer, decoder, id, text);
}

void ord_tokenizer_decode_end(ord_decoder *decoder, ord_text *text) { drop_held(decoder, text); }
