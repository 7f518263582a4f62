/* SPDX-License-Identifier: MIT
 *
 * cache_append: new keys and values go behind each row's past. Nothing is written outside the cache, whatever past and
 * lengths hold.
 */
#include "plain.h"

static ord_status cache_append_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const plain_rule rules[] = {{"k", PLAIN_F32, PLAIN_UNIT},
                                     {"v", PLAIN_F32, PLAIN_UNIT},
                                     {"lengths", PLAIN_I32, 0},
                                     {"past", PLAIN_I32, 0},
                                     {"cache_k", PLAIN_FLOATS, PLAIN_UNIT},
                                     {"cache_v", PLAIN_FLOATS, PLAIN_UNIT},
                                     {NULL, 0, 0}};
  (void)kernel;
  const int64_t count = plain_count(&node->operand[ord_node_find(node, "k")]);
  return plain_check(node, rules, plain_chunks(count), answer);
}

static int64_t read_number(const plain_view *numbers, int64_t row) {
  int32_t number;
  memcpy(&number, numbers->data + row * numbers->stride[0], sizeof number);
  return number;
}

/* Token `number` of `from` [batch, heads, tokens, width], counted over all of them. */
static void append_token(const plain_state *state, const ord_exec *exec, const plain_view *from, const char *cache_name,
                         int64_t number) {
  const uint32_t which = ord_node_find(state->node, cache_name);
  const plain_view cache = plain_view_of(state, exec, which), lengths = plain_view_slot(state, exec, "lengths");
  const plain_view past = plain_view_slot(state, exec, "past");
  const int64_t tokens = from->dim[2], token = number % tokens, head = number / tokens % from->dim[1];
  const int64_t row = number / tokens / from->dim[1], place = read_number(&past, row) + token;
  if (lengths.data && token >= read_number(&lengths, row)) return;
  if (place < 0 || place >= cache.dim[2]) return;
  const char *data = from->data + row * from->stride[0] + head * from->stride[1] + token * from->stride[2];
  char *into = cache.data + row * cache.stride[0] + head * cache.stride[1] + place * cache.stride[2];
  plain_writer(state->node->operand[which].dtype)(into, cache.stride[3], (const float *)data, from->dim[3]);
}

static ord_status cache_append_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const plain_view k = plain_view_slot(state, exec, "k"), v = plain_view_slot(state, exec, "v");
  const plain_range range = plain_chunk_range(exec, k.dim[0] * k.dim[1] * k.dim[2]);
  for (int64_t i = range.first; i < range.end; i++) {
    append_token(state, exec, &k, "cache_k", i);
    append_token(state, exec, &v, "cache_v", i);
  }
  return ORD_OK;
}

const ord_kernel plain_cache_append = {
    .struct_size = sizeof plain_cache_append,
    .name = "cache_append_plain",
    .op = "cache_append",
    .query = cache_append_query,
    .prepare = plain_prepare,
    .launch = cache_append_launch,
    .retire = plain_retire,
};
