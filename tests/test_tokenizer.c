/* SPDX-License-Identifier: MIT */
#include "models/tokenizer.h"

#include "fixture.h"
#include "runtime/text.h"

enum { FIRST = 3, VOCAB = 260 };
static const ord_token_name start = {.id = 259}, stop = {.id = 0}, newline = {.text = "\n"};
static const ord_tokenizer_rules plain = {.kind = ORD_TOKENIZER_BYTES, .first = FIRST};
static const ord_tokenizer_rules framed = {
    .kind = ORD_TOKENIZER_BYTES, .first = FIRST, .before = &start, .before_count = 1, .after = &stop, .after_count = 1};

static ord_tokenizer *make(const ord_tokenizer_rules *rules) {
  ord_error err;
  ord_tokenizer *tokenizer = NULL;
  MUST(ord_tokenizer_create(rules, VOCAB, &tokenizer, &err));
  return tokenizer;
}

static void test_texts_become_ids(void **state) {
  (void)state;
  ord_tokenizer_rules cut = framed;
  cut.cut = 4;
  static const struct {
    int rules; /* 0 plain, 1 framed, 2 cut to 4 */
    const char *text;
    size_t bytes;
    int32_t id[6];
    size_t count;
  } row[] = {
      {0, "", 0, {0}, 0},
      {0, NULL, 0, {0}, 0},
      {0, "Az", 2, {68, 125}, 2},
      {0, "\xe6\xad", 2, {233, 176}, 2}, /* the first two thirds of a character */
      {0, "\xff\x00\x80", 3, {258, 3, 131}, 3},
      {1, "", 0, {259, 0}, 2},
      {1, "A", 1, {259, 68, 0}, 3},
      {2, "AB", 2, {259, 68, 69, 0}, 4},
      {2, "ABC", 3, {259, 68, 69, 0}, 4},
  };
  const ord_tokenizer_rules *const rules[] = {&plain, &framed, &cut};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_tokenizer *tokenizer = make(rules[row[i].rules]);
    int32_t *id = NULL;
    size_t count = 99;
    MUST(ord_tokenizer_encode(tokenizer, row[i].text, row[i].bytes, &id, &count, &err));
    assert_int_equal(count, row[i].count);
    for (size_t n = 0; n < count; n++) assert_int_equal(id[n], row[i].id[n]);
    free(id);
    ord_tokenizer_destroy(tokenizer);
  }
}

static void test_a_text_too_long_for_memory(void **state) {
  (void)state;
  ord_error err;
  ord_tokenizer *tokenizer = make(&framed);
  int32_t *id = NULL;
  size_t count;
  MUST_FAIL(ord_tokenizer_encode(tokenizer, "x", SIZE_MAX, &id, &count, &err), "out of memory");
  MUST_FAIL(ord_tokenizer_encode(tokenizer, "x", SIZE_MAX / 4, &id, &count, &err), "out of memory");
  assert_null(id);
  ord_tokenizer_destroy(tokenizer);
  ord_tokenizer_destroy(NULL);
}

static void test_bytes_become_characters(void **state) {
  (void)state;
#define LOST "\xef\xbf\xbd"
  static const struct {
    const char *bytes, *text;
  } row[] = {
      {"plain", "plain"},
      {"\xc3\xa4", "\xc3\xa4"},
      {"\xe6\xad\xb4 x", "\xe6\xad\xb4 x"},
      {"\xf0\x9f\x99\x82", "\xf0\x9f\x99\x82"},
      {"\xe6\xad", LOST}, /* held to the end */
      {"\xe6\xad"
       "A",
       LOST "A"},
      {"\xe6\xe6\xad\xb4", LOST "\xe6\xad\xb4"},
      {"\x80", LOST},
      {"\xff\xfe", LOST LOST},
      {"\xc0\x80", LOST LOST},                   /* overlong */
      {"\xe0\x80\x80", LOST LOST LOST},          /* overlong */
      {"\xed\xa0\x80", LOST LOST LOST},          /* a surrogate */
      {"\xf4\x90\x80\x80", LOST LOST LOST LOST}, /* beyond U+10FFFF */
      {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
      {"\xf0\x9f\x99"
       "A",
       LOST "A"},
      {"\xf0\x9f\x99\xf0\x9f\x99\x82", LOST "\xf0\x9f\x99\x82"},
  };
  ord_tokenizer *tokenizer = make(&plain);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_decoder decoder = {0};
    ord_text text = {0};
    for (const char *at = row[i].bytes; *at; at++)
      ord_tokenizer_decode(tokenizer, &decoder, FIRST + (unsigned char)*at, &text);
    ord_tokenizer_decode_end(&decoder, &text);
    assert_string_equal(text.bytes, row[i].text);
    ord_text_finish(&text);
  }
  ord_tokenizer_destroy(tokenizer);
}

/* Text streams: what is whole comes out at once, what is not waits. */
static void test_split_characters_are_held_back(void **state) {
  (void)state;
  static const size_t length_after[] = {0, 0, 3, 4};
  ord_tokenizer *tokenizer = make(&plain);
  ord_decoder decoder = {0};
  ord_text text = {0};
  for (int i = 0; i < 4; i++) {
    ord_tokenizer_decode(tokenizer, &decoder, FIRST + (unsigned char)"\xe6\xad\xb4!"[i], &text);
    assert_int_equal(text.length, length_after[i]);
  }
  ord_tokenizer_decode_end(&decoder, &text);
  assert_int_equal(text.length, 4);
  ord_text_finish(&text);
  ord_tokenizer_destroy(tokenizer);
}

static void test_tokens_without_text_add_nothing(void **state) {
  (void)state;
  static const int32_t without[] = {0, 2, 259, -1, INT32_MAX, INT32_MIN};
  ord_tokenizer *tokenizer = make(&plain);
  ord_decoder decoder = {0};
  ord_text text = {0};
  for (size_t i = 0; i < sizeof without / sizeof *without; i++)
    ord_tokenizer_decode(tokenizer, &decoder, without[i], &text);
  ord_tokenizer_decode(tokenizer, &decoder, FIRST, &text); /* byte 0 is a byte */
  assert_int_equal(text.length, 1);
  ord_text_finish(&text);
  ord_tokenizer_destroy(tokenizer);
}

static void test_tokens_by_name(void **state) {
  (void)state;
  static const struct {
    ord_token_name name;
    int32_t id;
    const char *wanted; /* NULL: found */
  } row[] = {
      {{.text = "A"}, 68, NULL},
      {{.text = "\n"}, 13, NULL},
      {{.id = 259}, 259, NULL},
      {{.text = "AB"}, 0, "'AB' is no token of the tokenizer; wanted one byte or an id"},
      {{.text = ""}, 0, "'' is no token"},
      {{.id = 260}, 0, "token id 260 is outside the vocabulary; wanted 0 to 259"},
      {{.id = 4294967294}, 0, "token id 4294967294 is outside the vocabulary; wanted 0 to 259"},
      {{.id = -1}, 0, "token id -1 is outside the vocabulary"},
  };
  ord_tokenizer *tokenizer = make(&plain);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    int32_t id = -1;
    if (row[i].wanted) {
      MUST_FAIL(ord_tokenizer_find(tokenizer, &row[i].name, &id, &err), row[i].wanted);
    } else {
      MUST(ord_tokenizer_find(tokenizer, &row[i].name, &id, &err));
      assert_int_equal(id, row[i].id);
    }
  }
  ord_tokenizer_destroy(tokenizer);
}

static void test_rules_that_are_refused(void **state) {
  (void)state;
  static const ord_token_name beyond = {.id = 4294967294};
  static const struct {
    ord_tokenizer_rules rules;
    int64_t vocab;
    const char *wanted;
  } row[] = {
      {{.kind = ORD_TOKENIZER_NONE}, VOCAB, "--prompt-ids"},
      {{.kind = ORD_TOKENIZER_FILE}, VOCAB, "kind file is not supported"},
      {{.kind = ORD_TOKENIZER_GGUF}, VOCAB, "kind gguf is not supported"},
      {{.kind = ORD_TOKENIZER_BYTES}, 0, "a vocabulary of 0"},
      {{.kind = ORD_TOKENIZER_BYTES}, INT64_MAX, "a vocabulary of 9223372036854775807"},
      {{.kind = ORD_TOKENIZER_BYTES}, 255, "byte 0 is id 0; wanted 256 ids from there on in a vocabulary of 255"},
      {{.kind = ORD_TOKENIZER_BYTES, .first = 5}, VOCAB, "byte 0 is id 5; wanted 256 ids"},
      {{.kind = ORD_TOKENIZER_BYTES, .first = -1}, VOCAB, "byte 0 is id -1"},
      {{.kind = ORD_TOKENIZER_BYTES, .first = INT64_MAX}, VOCAB, "byte 0 is id 9223372036854775807"},
      {{.kind = ORD_TOKENIZER_BYTES, .before = &beyond, .before_count = 1},
       VOCAB,
       "tokenizer: token id 4294967294 is outside the vocabulary; wanted 0 to 259"},
      {{.kind = ORD_TOKENIZER_BYTES, .before = &newline, .before_count = 1, .after = &stop, .after_count = 1, .cut = 1},
       VOCAB,
       "cut is 1; wanted room for the 2 tokens around a text"},
      {{.kind = ORD_TOKENIZER_BYTES, .cut = -4}, VOCAB, "cut is -4"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_tokenizer *tokenizer = NULL;
    MUST_FAIL(ord_tokenizer_create(&row[i].rules, row[i].vocab, &tokenizer, &err), row[i].wanted);
    assert_null(tokenizer);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_texts_become_ids),
      cmocka_unit_test(test_a_text_too_long_for_memory),
      cmocka_unit_test(test_bytes_become_characters),
      cmocka_unit_test(test_split_characters_are_held_back),
      cmocka_unit_test(test_tokens_without_text_add_nothing),
      cmocka_unit_test(test_tokens_by_name),
      cmocka_unit_test(test_rules_that_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
