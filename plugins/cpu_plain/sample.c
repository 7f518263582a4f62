/* SPDX-License-Identifier: MIT
 *
 * sample: the next token of each row. Which token it is must not depend on the kernel, so this follows ops/sample.c,
 * which spells the rule out step by step: candidates, order, top-k, double weights, top-p, one Philox number. Where
 * the reference sorts, this keeps a heap and takes no more from it than the cut needs.
 */
#include <float.h>
#include <math.h>

#include "plain.h"

/* Memory of a row in `worker`. A weight below 0 marks a token that is no candidate or was cut away. */
typedef struct sample_row {
  const float *logit;         // [vocab]
  double *weight;             // [vocab]
  int32_t *heap;              // [vocab]
  int64_t vocab, count, best; /* count: candidates */
} sample_row;

/* ---- the generator: Philox 4x32-10 ---- */

enum { PHILOX_ROUNDS = 10 };

static double uniform(uint64_t seed, uint64_t counter) {
  uint32_t word[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  for (int round = 0; round < PHILOX_ROUNDS; round++) {
    const uint64_t a = UINT64_C(0xD2511F53) * word[0], b = UINT64_C(0xCD9E8D57) * word[2];
    const uint32_t next[4] = {(uint32_t)(b >> 32) ^ word[1] ^ key[0], (uint32_t)b,
                              (uint32_t)(a >> 32) ^ word[3] ^ key[1], (uint32_t)a};
    memcpy(word, next, sizeof word);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return (double)(((uint64_t)word[1] << 32 | word[0]) >> 11) * 0x1p-53;
}

/* ---- candidates and their order ---- */

static double clamped(const sample_row *row, int32_t id) { return fmin((double)row->logit[id], (double)FLT_MAX); }

/* Greater logits come first, of equal ones the lower id. */
static bool comes_before(const sample_row *row, int32_t a, int32_t b) {
  const double x = clamped(row, a), y = clamped(row, b);
  return x > y || (x == y && a < b);
}

static void find_candidates(sample_row *row) {
  for (int32_t id = 0; id < row->vocab; id++) {
    if (isnan(row->logit[id]) || row->logit[id] == -INFINITY) continue;
    if (row->count == 0 || comes_before(row, id, (int32_t)row->best)) row->best = id;
    row->heap[row->count++] = id;
  }
}

static void weigh(sample_row *row, double temperature) {
  const double largest = clamped(row, (int32_t)row->best);
  for (int64_t id = 0; id < row->vocab; id++) row->weight[id] = -1;
  for (int64_t i = 0; i < row->count; i++) {
    const int32_t id = row->heap[i];
    row->weight[id] = exp((clamped(row, id) - largest) / temperature);
  }
}

static double kept_sum(const sample_row *row) {
  double sum = 0;
  for (int64_t id = 0; id < row->vocab; id++)
    if (row->weight[id] >= 0) sum += row->weight[id];
  return sum;
}

/* ---- cuts ---- */

/* The first in order stands on top. */
static void sift_down(const sample_row *row, int64_t count, int64_t at) {
  for (int64_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && comes_before(row, row->heap[child + 1], row->heap[child])) child++;
    if (comes_before(row, row->heap[at], row->heap[child])) return;
    const int32_t moved = row->heap[at];
    row->heap[at] = row->heap[child];
    row->heap[child] = moved;
  }
}

/* Takes the first token in order from the heap of `*count`. */
static int32_t take_first(const sample_row *row, int64_t *count) {
  const int32_t first = row->heap[0];
  row->heap[0] = row->heap[--*count];
  sift_down(row, *count, 0);
  return first;
}

/* Drops every candidate behind `last`. */
static void drop_behind(const sample_row *row, int32_t last) {
  for (int32_t id = 0; id < row->vocab; id++)
    if (row->weight[id] >= 0 && comes_before(row, last, id)) row->weight[id] = -1;
}

static void build_heap(sample_row *row) {
  row->count = 0;
  for (int32_t id = 0; id < row->vocab; id++)
    if (row->weight[id] >= 0) row->heap[row->count++] = id;
  for (int64_t at = row->count / 2; at-- > 0;) sift_down(row, row->count, at);
}

static void keep_first(sample_row *row, int64_t wanted) {
  build_heap(row);
  int32_t last = (int32_t)row->best;
  for (int64_t kept = 0, count = row->count; kept < wanted; kept++) last = take_first(row, &count);
  drop_behind(row, last);
}

static void keep_mass(sample_row *row, double share) {
  const double wanted = share * kept_sum(row);
  build_heap(row);
  int64_t count = row->count;
  int32_t last = take_first(row, &count);
  for (double sum = row->weight[last]; count > 0 && sum < wanted; sum += row->weight[last])
    last = take_first(row, &count);
  drop_behind(row, last);
}

/* ---- the kernel ---- */

static int64_t draw(const sample_row *row, double u) {
  const double wanted = u * kept_sum(row);
  double sum = 0;
  int64_t last = row->best;
  for (int64_t id = 0; id < row->vocab; id++) {
    if (row->weight[id] < 0) continue;
    sum += row->weight[id];
    if (sum > wanted) return id;
    last = id;
  }
  return last;
}

/* What the caller asks of a row. */
typedef struct sample_request {
  float temperature, top_p;
  int32_t top_k;
  uint64_t seed, counter;
} sample_request;

static int64_t choose(sample_row *row, const sample_request *request) {
  find_candidates(row);
  if (row->count == 0 || !(request->temperature > 0)) return row->best;
  weigh(row, (double)request->temperature);
  if (request->top_k > 0 && request->top_k < row->count) keep_first(row, request->top_k);
  if (request->top_p < 1) keep_mass(row, (double)request->top_p);
  return draw(row, uniform(request->seed, request->counter));
}

static ord_status sample_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const plain_rule rules[] = {
      {"in", PLAIN_F32, PLAIN_UNIT}, {"temperature", PLAIN_F32, 0}, {"top_k", PLAIN_I32, 0}, {"top_p", PLAIN_F32, 0},
      {"seed", PLAIN_I64, 0},        {"counter", PLAIN_I64, 0},     {"out", PLAIN_I32, 0},   {NULL, 0, 0}};
  (void)kernel;
  const ord_operand *in = &node->operand[ord_node_find(node, "in")]; // [batch, vocab]
  if (in->dim[1] > INT32_MAX)
    return plain_refuse(answer, "in has %lld columns; wanted at most 2^31 - 1", (long long)in->dim[1]);
  answer->worker_bytes = (uint64_t)plain_multiply(in->dim[1], sizeof(double) + sizeof(int32_t));
  return plain_check(node, rules, in->dim[0], answer);
}

static void read_entry(const plain_state *state, const ord_exec *exec, const char *slot, int64_t number, void *into,
                       size_t bytes) {
  const plain_view view = plain_view_slot(state, exec, slot);
  memcpy(into, view.data + number * view.stride[0], bytes);
}

static ord_status sample_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const plain_view in = plain_view_slot(state, exec, "in"), out = plain_view_output(state, exec, 0);
  const plain_range range = plain_chunk_range(exec, in.dim[0]);
  for (int64_t i = range.first; i < range.end; i++) {
    sample_request request;
    read_entry(state, exec, "temperature", i, &request.temperature, sizeof request.temperature);
    read_entry(state, exec, "top_k", i, &request.top_k, sizeof request.top_k);
    read_entry(state, exec, "top_p", i, &request.top_p, sizeof request.top_p);
    read_entry(state, exec, "seed", i, &request.seed, sizeof request.seed);
    read_entry(state, exec, "counter", i, &request.counter, sizeof request.counter);
    double *weight = exec->worker;
    sample_row row = {.logit = (const float *)(in.data + i * in.stride[0]),
                      .weight = weight,
                      .heap = (int32_t *)(weight + in.dim[1]),
                      .vocab = in.dim[1]};
    const int32_t token = (int32_t)choose(&row, &request);
    memcpy(out.data + i * out.stride[0], &token, sizeof token);
  }
  return ORD_OK;
}

const ord_kernel plain_sample = {
    .struct_size = sizeof plain_sample,
    .name = "sample_plain",
    .op = "sample",
    .query = sample_query,
    .prepare = plain_prepare,
    .launch = sample_launch,
    .retire = plain_retire,
};
