/* SPDX-License-Identifier: MIT
 *
 * cache_append: new keys and values go behind each row's past.
 */
#include "cache.h"
#include "core.h"

typedef struct cache_state {
  core_state base;
  core_work work;
  uint32_t from[2], cache[2], past, lengths; /* operands; ORD_NONE: absent */
  uint32_t is_vector[2];
} cache_state;

static ord_status cache_append_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const core_rule rules[] = {{"k", CORE_FLOATS}, {"v", CORE_FLOATS},       {"lengths", CORE_I32},
                                    {"past", CORE_I32}, {"cache_k", CORE_FLOATS}, {"cache_v", CORE_FLOATS},
                                    {NULL, 0}};
  (void)kernel;
  return core_check(node, rules, answer);
}

static bool has_vectors(const ord_node *node, uint32_t which) {
  const core_view view = core_view_of(node, which);
  return core_view_has_groups(&view, CACHE_VECTOR);
}

static ord_status cache_append_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                       const ord_host *host, void **state, ord_plugin_error *err) {
  static const char *const names[2][2] = {{"k", "cache_k"}, {"v", "cache_v"}};
  (void)kernel;
  cache_state *made = core_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  made->past = ord_node_find(node, "past");
  made->lengths = ord_node_find(node, "lengths");
  int64_t largest = 0;
  for (int i = 0; i < 2; i++) {
    made->from[i] = ord_node_find(node, names[i][0]);
    made->cache[i] = ord_node_find(node, names[i][1]);
    made->is_vector[i] = has_vectors(node, made->from[i]) && has_vectors(node, made->cache[i]);
    const int64_t count = core_count(&node->operand[made->from[i]]) / (made->is_vector[i] ? CACHE_VECTOR : 1);
    if (count > largest) largest = count;
  }
  core_work_spread(&made->work, largest, CACHE_THREADS);
  made->work.blocks[1] = 2;
  const ord_status status = core_work_prepare(&made->base, "cache", "cache_append", 0, &made->work, err);
  return core_state_prepared(made, status, state);
}

static ord_status cache_append_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const cache_state *made = state;
  cache_arguments arguments = {.past = core_tensor_of(&made->base, exec, made->past),
                               .lengths = core_tensor_of(&made->base, exec, made->lengths)};
  for (int i = 0; i < 2; i++)
    arguments.side[i] = (cache_side){.from = core_tensor_of(&made->base, exec, made->from[i]),
                                     .cache = core_tensor_of(&made->base, exec, made->cache[i]),
                                     .is_vector = made->is_vector[i]};
  return core_work_launch(&made->base, exec, &made->work, &arguments, sizeof arguments, err);
}

CORE_KERNEL(cache_append, .query = cache_append_query, .prepare = cache_append_prepare, .launch = cache_append_launch);
