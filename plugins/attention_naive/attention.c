/* SPDX-License-Identifier: MIT
 *
 * attention: each query mixes the values of the keys that it sees.
 *
 * One query at a time: scores of all its keys into the thread's own memory, their largest, e to the difference, the
 * sum, the mix. A key that is hidden is not read. Numbers are f32; keys and values of a cache may be bf16. A query
 * gives the same bits in whatever chunk or batch it comes, alone or behind others.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "attention.h"

enum { OP_VERSION = 1, ROWS_PER_UNIT = 16, CHUNKS_MAX = 1024, LANES = 8 };

typedef struct attention_state {
  const ord_node *node;
  const ord_host *host;
  bool is_causal;
  int64_t align, window_before, window_after; /* windows: -1 = no limit */
  float scale, soft_cap;                      /* soft_cap: 0 = none */
} attention_state;

/* ---- query ---- */

/* What is wanted of the operands of each name. */
static const struct rule {
  const char *name;
  uint32_t types; /* bits 1 << ORD_.. */
  bool is_unit;   /* the elements of the last axis follow one another */
} rules[] = {
    {"q", 1 << ORD_F32, true},
    {"k", 1 << ORD_F32, true},
    {"v", 1 << ORD_F32, true},
    {"cache_k", 1 << ORD_F32 | 1 << ORD_BF16, true},
    {"cache_v", 1 << ORD_F32 | 1 << ORD_BF16, true},
    {"mask", 1 << ORD_F32 | 1 << ORD_BOOL, false},
    {"lengths", 1 << ORD_I32, false},
    {"past", 1 << ORD_I32, false},
    {"out", 1 << ORD_F32, true},
};

static const struct rule *find_rule(const ord_operand *operand) {
  const char *name = operand->role == ORD_OUTPUT ? "out" : operand->name;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (strcmp(rules[i].name, name) == 0) return &rules[i];
  return NULL;
}

static const char *type_name(uint32_t type) {
  static const char *const names[] = {[ORD_F32] = "f32", [ORD_F16] = "f16", [ORD_BF16] = "bf16", [ORD_I8] = "i8",
                                      [ORD_I32] = "i32", [ORD_I64] = "i64", [ORD_BOOL] = "bool"};
  return type >= ORD_F32 && type <= ORD_BOOL ? names[type] : "a block type";
}

static bool accepts(const ord_operand *operand, const struct rule *rule, ord_answer *answer) {
  if (operand->dtype >= 32 || !(rule->types & 1u << operand->dtype)) {
    char wanted[32];
    size_t used = 0;
    for (uint32_t type = ORD_F32; type <= ORD_BOOL; type++)
      if (rule->types & 1u << type)
        used += (size_t)snprintf(wanted + used, sizeof wanted - used, "%s%s", used ? " or " : "", type_name(type));
    snprintf(answer->reason, sizeof answer->reason, "%s is %s; wanted %s", operand->name, type_name(operand->dtype),
             wanted);
    return false;
  }
  const uint32_t last = operand->rank - 1;
  if (!rule->is_unit || operand->dim[last] <= 1 || operand->stride[last] == operand->block_bytes) return true;
  snprintf(answer->reason, sizeof answer->reason, "elements of the last axis of %s lie %lld bytes apart; wanted %u",
           operand->name, (long long)operand->stride[last], operand->block_bytes);
  return false;
}

static const ord_operand *find_keys(const ord_node *node) {
  const uint32_t cache = ord_node_find(node, "cache_k");
  return &node->operand[cache == ORD_NONE ? ord_node_find(node, "k") : cache];
}

/* Units of at most 16 queries of one head. */
static int64_t unit_count(int64_t batch, int64_t heads, int64_t queries) {
  return batch * heads * ((queries + ROWS_PER_UNIT - 1) / ROWS_PER_UNIT);
}

static ord_status attention_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  if (node->device->kind != ORD_DEVICE_CPU || node->op_version != OP_VERSION) {
    snprintf(answer->reason, sizeof answer->reason, "device kind %u, op version %u; wanted a CPU (%d) and version %d",
             node->device->kind, node->op_version, ORD_DEVICE_CPU, OP_VERSION);
    return ORD_NO;
  }
  for (uint32_t i = 0; i < node->operand_count; i++) {
    const ord_operand *operand = &node->operand[i];
    const struct rule *rule = operand->role == ORD_ABSENT ? NULL : find_rule(operand);
    if (rule && !accepts(operand, rule, answer)) return ORD_NO;
  }
  const ord_operand *q = &node->operand[ord_node_find(node, "q")], *v = &node->operand[ord_node_find(node, "v")];
  const int64_t units = unit_count(q->dim[0], q->dim[1], q->dim[2]);
  answer->phase_count = 1;
  answer->chunk_limit[0] = (uint32_t)(units < 1 ? 1 : units < CHUNKS_MAX ? units : CHUNKS_MAX);
  answer->epilogue_served = 0;
  /* A score per key, a mixed value, and a key or value that is widened. */
  const int64_t widest = q->dim[3] > v->dim[3] ? q->dim[3] : v->dim[3];
  answer->worker_bytes = (uint64_t)(find_keys(node)->dim[2] + v->dim[3] + widest) * sizeof(float);
  snprintf(answer->variant, sizeof answer->variant, "naive");
  return ORD_OK;
}

/* ---- prepare ---- */

static ord_status attention_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                    const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel, (void)answer;
  attention_state *made = host->allocate(host->context, sizeof *made, _Alignof(attention_state));
  if (!made) {
    snprintf(err->text, sizeof err->text, "out of memory: %zu bytes for the state of attention", sizeof *made);
    return ORD_NO_MEMORY;
  }
  *made = (attention_state){
      .node = node,
      .host = host,
      .is_causal = ord_node_int(node, "causal", 0) != 0,
      .align = ord_node_int(node, "align", ORD_LAST),
      .window_before = ord_node_int(node, "window_before", -1),
      .window_after = ord_node_int(node, "window_after", -1),
      .scale = (float)ord_node_number(node, "scale", 1),
      .soft_cap = (float)ord_node_number(node, "soft_cap", 0),
  };
  *state = made;
  return ORD_OK;
}

static void attention_retire(void *state) {
  const attention_state *made = state;
  if (made) made->host->release(made->host->context, state);
}

/* ---- operands in a run ---- */

typedef struct view {
  const char *data; /* NULL: absent */
  uint32_t dtype;
  int64_t dim[4], stride[4]; /* stride: bytes; 0 along an axis that repeats */
} view;

typedef struct attention {
  const attention_state *state;
  view q;                      // [batch, heads, queries, width]
  view key;                    // [batch, key heads, keys, width], operand or cache
  view value;                  // [batch, key heads, keys, value width]
  view mask;                   // [batch, heads, queries, keys] by strides
  view lengths, past;          // [batch]
  view out;                    // [batch, heads, queries, value width]
  view probabilities;          // [batch, heads, queries, keys]
  int64_t given_keys;          /* of operand k: all keys, or those that the cache just got */
  float *score, *mixed, *wide; /* this thread's own: [keys], [value width], [widest row] */
} attention;

/* Axes that the operand lacks in front, and those of size 1, repeat. */
static view open_view(const ord_node *node, const ord_exec *exec, uint32_t which, uint32_t rank) {
  view made = {0};
  if (which == ORD_NONE || node->operand[which].role == ORD_ABSENT) return made;
  const ord_operand *operand = &node->operand[which];
  made.data = exec->operand[which];
  made.dtype = operand->dtype;
  for (uint32_t axis = 0; axis < rank; axis++) made.dim[axis] = 1;
  for (uint32_t axis = 0; axis < operand->rank; axis++) {
    const uint32_t at = axis + rank - operand->rank;
    made.dim[at] = ord_exec_dim(node, exec, which, axis);
    made.stride[at] = made.dim[at] == 1 ? 0 : operand->stride[axis];
  }
  return made;
}

static attention open_attention(const attention_state *state, const ord_exec *exec) {
  const ord_node *node = state->node;
  attention made = {.state = state};
  made.q = open_view(node, exec, ord_node_find(node, "q"), 4);
  made.key = open_view(node, exec, ord_node_find(node, "k"), 4);
  made.value = open_view(node, exec, ord_node_find(node, "v"), 4);
  made.given_keys = made.key.dim[2];
  made.past = open_view(node, exec, ord_node_find(node, "past"), 1);
  if (made.past.data) {
    made.key = open_view(node, exec, ord_node_find(node, "cache_k"), 4);
    made.value = open_view(node, exec, ord_node_find(node, "cache_v"), 4);
  }
  made.mask = open_view(node, exec, ord_node_find(node, "mask"), 4);
  made.lengths = open_view(node, exec, ord_node_find(node, "lengths"), 1);
  made.out = open_view(node, exec, ord_node_output(node, 0), 4);
  made.probabilities = open_view(node, exec, ord_node_output(node, 1), 4);
  made.score = exec->worker;
  made.mixed = made.score + made.key.dim[2];
  made.wide = made.mixed + made.value.dim[3];
  return made;
}

static const char *place(const view *tensor, int64_t a, int64_t b, int64_t c) {
  return tensor->data + a * tensor->stride[0] + b * tensor->stride[1] + c * tensor->stride[2];
}

static int64_t number_of(const view *tensor, int64_t row) {
  int32_t number;
  memcpy(&number, tensor->data + row * tensor->stride[0], sizeof number);
  return number;
}

/* `count` numbers of a row, in place if they are f32, else widened into `wide`. */
static const float *read_row(const view *tensor, const char *row, int64_t count, float *wide) {
  if (tensor->dtype == ORD_F32) return (const float *)row;
  for (int64_t i = 0; i < count; i++) {
    uint16_t half;
    memcpy(&half, row + i * (int64_t)sizeof half, sizeof half);
    const uint32_t bits = (uint32_t)half << 16;
    memcpy(&wide[i], &bits, sizeof bits);
  }
  return wide;
}

/* ---- one query ---- */

typedef struct query_row {
  int64_t row, head, key_head, number; /* number: among the queries of the row */
} query_row;

/* Keys [first, end) that lengths, causal and windows let the query see. */
typedef struct span {
  int64_t first, end;
} span;

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

/* A sum of positions; so far away that no key lies there where it does not fit. */
static int64_t plus(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? INT64_MIN : INT64_MAX;
}

static span find_span(const attention *a, const query_row *query) {
  const attention_state *state = a->state;
  const bool has_cache = a->past.data != NULL;
  const int64_t past = has_cache ? number_of(&a->past, query->row) : 0;
  const int64_t length = a->lengths.data ? number_of(&a->lengths, query->row) : a->given_keys;
  const int64_t valid = clamp(past + clamp(length, 0, a->given_keys), 0, a->key.dim[2]);
  const int64_t start = has_cache ? past : state->align == ORD_LAST ? valid - a->q.dim[2] : state->align;
  const int64_t after = plus(plus(query->number, start), 1); /* what a causal query does not see */
  span seen = {0, valid};
  if (state->window_before >= 0) seen.first = clamp(plus(query->number, plus(start, -state->window_before)), 0, valid);
  if (state->window_after >= 0) seen.end = clamp(plus(after, state->window_after), 0, seen.end);
  if (state->is_causal) seen.end = clamp(after, 0, seen.end);
  return seen;
}

/* In eight lanes, so that the compiler vectorises a sum whose order is fixed. */
static float dot(const float *restrict a, const float *restrict b, int64_t count) {
  float lane[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int l = 0; l < LANES; l++) lane[l] += a[i + l] * b[i + l];
  for (; i < count; i++) lane[i % LANES] += a[i] * b[i];
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* What the mask adds to the score of key `key`; -infinity hides. */
static float mask_of(const attention *a, const query_row *query, int64_t key) {
  if (!a->mask.data) return 0;
  const char *at = place(&a->mask, query->row, query->head, query->number) + key * a->mask.stride[3];
  float added;
  if (a->mask.dtype == ORD_BOOL) return *at ? 0 : -INFINITY;
  memcpy(&added, at, sizeof added);
  return added;
}

static void score_keys(const attention *a, const query_row *query, span seen) {
  const float *q = (const float *)place(&a->q, query->row, query->head, query->number);
  const int64_t width = a->q.dim[3];
  const float scale = a->state->scale, soft_cap = a->state->soft_cap;
  for (int64_t key = seen.first; key < seen.end; key++) {
    const float mask = mask_of(a, query, key);
    a->score[key] = -INFINITY;
    if (mask == -INFINITY) continue;
    const float *k = read_row(&a->key, place(&a->key, query->row, query->key_head, key), width, a->wide);
    const float score = dot(q, k, width) * scale;
    a->score[key] = (soft_cap > 0 ? soft_cap * tanhf(score / soft_cap) : score) + mask;
  }
}

/* Scores become weights, hidden keys 0; returns their sum, 0 if the query sees nothing. */
static float weigh_keys(const attention *a, span seen) {
  float largest = -INFINITY, sum = 0;
  for (int64_t key = seen.first; key < seen.end; key++) largest = fmaxf(largest, a->score[key]);
  for (int64_t key = seen.first; key < seen.end; key++) {
    a->score[key] = a->score[key] == -INFINITY ? 0 : expf(a->score[key] - largest);
    sum += a->score[key];
  }
  return sum;
}

static void mix_values(const attention *a, const query_row *query, span seen, float sum) {
  const int64_t width = a->value.dim[3];
  float *restrict mixed = a->mixed;
  for (int64_t i = 0; i < width; i++) mixed[i] = 0;
  for (int64_t key = seen.first; key < seen.end; key++) {
    const float weight = a->score[key];
    if (weight == 0) continue;
    const float *v = read_row(&a->value, place(&a->value, query->row, query->key_head, key), width, a->wide);
    for (int64_t i = 0; i < width; i++) mixed[i] += weight * v[i];
  }
  float *out = (float *)(uintptr_t)place(&a->out, query->row, query->head, query->number);
  for (int64_t i = 0; i < width; i++) out[i] = sum == 0 ? 0 : mixed[i] / sum;
}

static void write_probabilities(const attention *a, const query_row *query, span seen, float sum) {
  float *out = (float *)(uintptr_t)place(&a->probabilities, query->row, query->head, query->number);
  for (int64_t key = 0; key < a->key.dim[2]; key++) {
    const bool is_seen = key >= seen.first && key < seen.end && a->score[key] != 0;
    out[key] = is_seen ? a->score[key] / sum : 0;
  }
}

static void answer_query(const attention *a, const query_row *query) {
  const span seen = find_span(a, query);
  score_keys(a, query, seen);
  const float sum = weigh_keys(a, seen);
  mix_values(a, query, seen, sum);
  if (a->probabilities.data) write_probabilities(a, query, seen, sum);
}

/* ---- launch ---- */

static ord_status attention_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const attention a = open_attention(state, exec);
  const int64_t heads = a.q.dim[1], queries = a.q.dim[2], key_heads = a.key.dim[1];
  const int64_t units = unit_count(a.q.dim[0], heads, queries), blocks = unit_count(1, 1, queries);
  const int64_t end = units * (exec->chunk + 1) / exec->chunk_count;
  for (int64_t unit = units * exec->chunk / exec->chunk_count; unit < end; unit++) {
    const int64_t head = unit / blocks % heads, first = unit % blocks * ROWS_PER_UNIT;
    for (int64_t i = first; i < first + ROWS_PER_UNIT && i < queries; i++)
      answer_query(&a, &(query_row){unit / blocks / heads, head, head * key_heads / heads, i});
  }
  return ORD_OK;
}

const ord_kernel attention_naive = {
    .struct_size = sizeof attention_naive,
    .name = "attention_naive",
    .op = "attention",
    .query = attention_query,
    .prepare = attention_prepare,
    .launch = attention_launch,
    .retire = attention_retire,
};
