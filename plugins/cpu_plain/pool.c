/* SPDX-License-Identifier: MIT
 *
 * pool: one row for each text, the mean of its tokens, its first or its last. Tokens beyond the length are not read.
 */
#include "plain.h"

enum { BLOCK = 256 };

typedef struct pool_state {
  plain_state base;
  bool is_mean, is_last;
} pool_state;

static ord_status pool_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const plain_rule rules[] = {
      {"in", PLAIN_F32, 0}, {"lengths", PLAIN_I32, 0}, {"out", PLAIN_F32, 0}, {NULL, 0, 0}};
  (void)kernel;
  return plain_check(node, rules, plain_chunks(PLAIN_HERE, plain_count(&node->operand[0])), answer);
}

static ord_status pool_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                               const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  pool_state *made = plain_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  made->is_mean = plain_word_is(node, "kind", "mean");
  made->is_last = plain_word_is(node, "kind", "last");
  *state = made;
  return ORD_OK;
}

/* The tokens of text `text` that count. */
static plain_range find_tokens(const pool_state *state, const plain_view *lengths, int64_t text, int64_t tokens) {
  int64_t valid = tokens;
  if (lengths->data) {
    int32_t length;
    memcpy(&length, lengths->data + text * lengths->stride[0], sizeof length);
    valid = length < 0 ? 0 : length < tokens ? length : tokens;
  }
  if (state->is_mean || valid == 0) return (plain_range){0, valid};
  const int64_t token = state->is_last ? valid - 1 : 0;
  return (plain_range){token, token + 1};
}

/* `count` columns, at most BLOCK, from `column` on. */
static void pool_columns(const plain_view *in, const plain_view *out, int64_t text, int64_t column, int64_t count,
                         plain_range token) {
  double sum[BLOCK] = {0};
  float row[BLOCK];
  const double tokens = token.first < token.end ? (double)(token.end - token.first) : 1;
  for (int64_t i = token.first; i < token.end; i++) {
    const char *from = in->data + text * in->stride[0] + i * in->stride[1] + column * in->stride[2];
    plain_reader(ORD_F32)(row, from, in->stride[2], count);
    for (int64_t c = 0; c < count; c++) sum[c] += (double)row[c];
  }
  for (int64_t c = 0; c < count; c++) row[c] = (float)(sum[c] / tokens);
  plain_writer(ORD_F32)(out->data + text * out->stride[0] + column * out->stride[1], out->stride[1], row, count);
}

static ord_status pool_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const pool_state *made = state;
  const plain_view in = plain_view_slot(&made->base, exec, "in"), out = plain_view_output(&made->base, exec, 0);
  const plain_view lengths = plain_view_slot(&made->base, exec, "lengths");
  const int64_t width = out.dim[1];
  const plain_range range = plain_chunk_range(exec, out.dim[0] * width);
  for (int64_t i = range.first; i < range.end;) {
    const int64_t text = i / width, column = i % width;
    int64_t count = width - column < BLOCK ? width - column : BLOCK;
    if (count > range.end - i) count = range.end - i;
    pool_columns(&in, &out, text, column, count, find_tokens(made, &lengths, text, in.dim[1]));
    i += count;
  }
  return ORD_OK;
}

PLAIN_KERNEL(pool, pool_query, .prepare = pool_prepare, .launch = pool_launch);
