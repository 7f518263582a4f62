/* SPDX-License-Identifier: MIT
 *
 * Attention in two phases: phase 0 lets each chunk mix one split of the keys and leaves largest score, sum and mix in
 * scratch; phase 1 combines the splits of a head. It exists to prove phases, scratch and the barrier between them.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "ordito_plugin.h"

enum { KEYS_PER_SPLIT = 16, PHASE_SPLITS = 0, PHASE_COMBINE = 1, Q = 0, K = 1, V = 2 };

typedef struct split_state {
  const ord_node *node;
  const ord_host *host;
  float scale;
  bool is_causal;
  int64_t splits;
} split_state;

/* What a split leaves for one query, followed by its mix [value width]. */
typedef struct partial {
  float largest, sum;
} partial;

static int64_t split_count(const ord_node *node) {
  return (node->operand[K].dim[2] + KEYS_PER_SPLIT - 1) / KEYS_PER_SPLIT;
}

static int64_t partial_floats(const ord_node *node) { return 2 + node->operand[V].dim[3]; }

static const char *find_refusal(const ord_node *node) {
  static const char *const unserved[] = {"mask", "lengths", "past"};
  for (size_t i = 0; i < sizeof unserved / sizeof *unserved; i++)
    if (ord_node_find(node, unserved[i]) != ORD_NONE) return "there is a mask, lengths or a cache; wanted none of them";
  for (uint32_t i = Q; i <= V; i++)
    if (node->operand[i].dtype != ORD_F32 || node->operand[i].stride[3] != (int64_t)sizeof(float))
      return "q, k or v is not f32 with dense rows; wanted that";
  if (node->operand[Q].dim[1] != node->operand[K].dim[1]) return "heads are grouped; wanted a key head for each head";
  if (ord_node_output(node, 1) != ORD_NONE) return "probabilities are asked for; wanted one result";
  return NULL;
}

static ord_status split_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  const char *refusal = find_refusal(node);
  if (refusal) {
    snprintf(answer->reason, sizeof answer->reason, "%s", refusal);
    return ORD_NO;
  }
  const ord_operand *q = &node->operand[Q]; // [batch, heads, queries, width]
  const int64_t heads = q->dim[0] * q->dim[1], splits = split_count(node);
  answer->phase_count = 2;
  answer->chunk_limit[PHASE_SPLITS] = (uint32_t)(heads * splits);
  answer->chunk_limit[PHASE_COMBINE] = (uint32_t)heads;
  answer->scratch_bytes = (uint64_t)(heads * splits * q->dim[2] * partial_floats(node)) * sizeof(float);
  answer->epilogue_served = 0;
  snprintf(answer->variant, sizeof answer->variant, "%lld splits", (long long)splits);
  return ORD_OK;
}

static ord_status split_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel, (void)answer;
  split_state *made = host->allocate(host->context, sizeof *made, _Alignof(split_state));
  if (!made) {
    snprintf(err->text, sizeof err->text, "out of memory");
    return ORD_NO_MEMORY;
  }
  *made = (split_state){.node = node,
                        .host = host,
                        .scale = (float)ord_node_attr(node, "scale")->value.f,
                        .is_causal = ord_node_attr(node, "causal")->value.i != 0,
                        .splits = split_count(node)};
  *state = made;
  return ORD_OK;
}

/* Row `token` of head `head` (batch and head in one number) of operand `which`. */
static float *find_row(const ord_node *node, const ord_exec *exec, uint32_t which, int64_t head, int64_t token) {
  const ord_operand *operand = &node->operand[which];
  return (float *)((char *)exec->operand[which] + head / operand->dim[1] * operand->stride[0] +
                   head % operand->dim[1] * operand->stride[1] + token * operand->stride[2]);
}

static float *find_partial(const split_state *state, const ord_exec *exec, int64_t head, int64_t split, int64_t query) {
  const int64_t number = (head * state->splits + split) * state->node->operand[Q].dim[2] + query;
  return (float *)exec->scratch + number * partial_floats(state->node);
}

/* Keys [first, end) for one query. */
static void mix_keys(const split_state *state, const ord_exec *exec, int64_t head, int64_t query, int64_t first,
                     int64_t end, float *left) {
  const ord_node *node = state->node;
  const int64_t width = node->operand[Q].dim[3], value_width = node->operand[V].dim[3];
  const float *q = find_row(node, exec, Q, head, query);
  partial found = {-INFINITY, 0};
  float *mix = left + 2;
  for (int64_t e = 0; e < value_width; e++) mix[e] = 0;
  for (int64_t key = first; key < end; key++) {
    const float *k = find_row(node, exec, K, head, key), *v = find_row(node, exec, V, head, key);
    float score = 0;
    for (int64_t d = 0; d < width; d++) score += q[d] * k[d];
    score *= state->scale;
    const float largest = fmaxf(found.largest, score), shrink = expf(found.largest - largest);
    const float weight = expf(score - largest);
    found = (partial){largest, found.sum * shrink + weight};
    for (int64_t e = 0; e < value_width; e++) mix[e] = mix[e] * shrink + weight * v[e];
  }
  memcpy(left, &found, sizeof found);
}

static void run_split(const split_state *state, const ord_exec *exec) {
  const int64_t head = exec->chunk / state->splits, split = exec->chunk % state->splits;
  const ord_node *node = state->node;
  const int64_t queries = ord_exec_dim(node, exec, Q, 2), keys = ord_exec_dim(node, exec, K, 2);
  const int64_t first = split * KEYS_PER_SPLIT;
  for (int64_t query = 0; query < queries; query++) {
    const int64_t seen = state->is_causal ? keys - queries + query + 1 : keys;
    const int64_t limit = seen < first + KEYS_PER_SPLIT ? seen : first + KEYS_PER_SPLIT;
    mix_keys(state, exec, head, query, first, limit, find_partial(state, exec, head, split, query));
  }
}

static void combine_query(const split_state *state, const ord_exec *exec, int64_t head, int64_t query) {
  const ord_node *node = state->node;
  float *out = find_row(node, exec, ord_node_output(node, 0), head, query);
  float largest = -INFINITY, sum = 0;
  for (int64_t split = 0; split < state->splits; split++)
    largest = fmaxf(largest, find_partial(state, exec, head, split, query)[0]);
  for (int64_t e = 0; e < node->operand[V].dim[3]; e++) out[e] = 0;
  if (largest == -INFINITY) return;
  for (int64_t split = 0; split < state->splits; split++) {
    const float *left = find_partial(state, exec, head, split, query);
    const float share = expf(left[0] - largest);
    sum += left[1] * share;
    for (int64_t e = 0; e < node->operand[V].dim[3]; e++) out[e] += left[2 + e] * share;
  }
  for (int64_t e = 0; e < node->operand[V].dim[3]; e++) out[e] /= sum;
}

static ord_status split_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const split_state *made = state;
  if (exec->phase == PHASE_SPLITS) {
    run_split(made, exec);
    return ORD_OK;
  }
  for (int64_t query = 0; query < ord_exec_dim(made->node, exec, Q, 2); query++)
    combine_query(made, exec, exec->chunk, query);
  return ORD_OK;
}

static void split_retire(void *state) {
  const split_state *made = state;
  if (made) made->host->release(made->host->context, state);
}

static const ord_kernel two_phase_attention = {
    .struct_size = sizeof two_phase_attention,
    .name = "two_phase_attention",
    .op = "attention",
    .query = split_query,
    .prepare = split_prepare,
    .launch = split_launch,
    .retire = split_retire,
};

static const ord_kernel *const kernels[] = {&two_phase_attention};
static const ord_plugin plugin_table = {.struct_size = sizeof plugin_table, .kernel_count = 1, .kernel = kernels};

const ord_manifest ord_plugin_manifest = {
    ORD_MANIFEST_HEAD,
    .flags = ORD_PLUGIN_UNLOADABLE,
    .name = "two_phase_attention",
    .version = "0.1.0",
};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err) {
  (void)host, (void)err;
  *plugin = &plugin_table;
  return ORD_OK;
}
