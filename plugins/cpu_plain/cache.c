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
  return plain_check(node, rules, plain_chunks(PLAIN_HERE, count), answer);
}

/* Keys or values and where they go. */
typedef struct append_side {
  uint32_t from, cache; /* operands */
  plain_write_fn write;
} append_side;

typedef struct append_state {
  plain_state base;
  uint32_t past, lengths;
  append_side side[2];
} append_state;

static ord_status cache_append_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                       const ord_host *host, void **state, ord_plugin_error *err) {
  static const char *const names[2][2] = {{"k", "cache_k"}, {"v", "cache_v"}};
  (void)kernel;
  append_state *made = plain_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  made->past = ord_node_find(node, "past");
  made->lengths = ord_node_find(node, "lengths");
  for (int i = 0; i < 2; i++) {
    append_side *side = &made->side[i];
    side->from = ord_node_find(node, names[i][0]);
    side->cache = ord_node_find(node, names[i][1]);
    side->write = plain_writer(node->operand[side->cache].dtype);
  }
  *state = made;
  return ORD_OK;
}

static int64_t read_number(const plain_view *numbers, int64_t row) {
  int32_t number;
  memcpy(&number, numbers->data + row * numbers->stride[0], sizeof number);
  return number;
}

/* This chunk's tokens of k or v [batch, heads, tokens, width], counted over all of them. */
static void append_tokens(const append_state *state, const ord_exec *exec, const append_side *side) {
  const plain_view from = plain_view_of(&state->base, exec, side->from);
  const plain_view cache = plain_view_of(&state->base, exec, side->cache);
  const plain_view past = plain_view_of(&state->base, exec, state->past);
  const plain_view lengths = plain_view_of(&state->base, exec, state->lengths);
  const int64_t heads = from.dim[1], tokens = from.dim[2];
  const plain_range range = plain_chunk_range(exec, from.dim[0] * heads * tokens);
  for (int64_t i = range.first; i < range.end; i++) {
    const int64_t token = i % tokens, head = i / tokens % heads, row = i / tokens / heads;
    const int64_t place = read_number(&past, row) + token;
    if (lengths.data && token >= read_number(&lengths, row)) continue;
    if (place < 0 || place >= cache.dim[2]) continue;
    const char *data = from.data + row * from.stride[0] + head * from.stride[1] + token * from.stride[2];
    char *into = cache.data + row * cache.stride[0] + head * cache.stride[1] + place * cache.stride[2];
    side->write(into, cache.stride[3], (const float *)data, from.dim[3]);
  }
}

static ord_status cache_append_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const append_state *made = state;
  for (int i = 0; i < 2; i++) append_tokens(made, exec, &made->side[i]);
  return ORD_OK;
}

PLAIN_KERNEL(cache_append, cache_append_query, .prepare = cache_append_prepare, .launch = cache_append_launch);
