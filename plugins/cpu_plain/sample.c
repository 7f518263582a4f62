/* SPDX-License-Identifier: MIT
 *
 * sample: the next token of each row. Which token it is must not depend on the kernel, so this follows ops/sample.c,
 * which spells the rule out step by step: candidates, order, top-k, double weights, top-p, one Philox number. Where
 * the reference sorts, this keeps heaps of the few tokens that may matter, and passes over blocks of the vocabulary
 * whose largest logit is too small.
 *
 * The order of its sums is part of the rule: weights are added one by one, in double, over ascending ids and, for
 * top-p, over candidates in order. Lanes or threads would round otherwise and now and then choose another token. So
 * where no top-k cuts the vocabulary first, the time goes into a weight and two dependent additions for each token;
 * top-p alone adds the heaps of those that hold its share.
 */
#include <float.h>
#include <math.h>

#include "plain.h"

enum { BLOCK = 256 }; /* tokens */

/* Memory of a row in `worker`, [vocab] each. What is kept stands in ascending order of the ids. */
typedef struct sample_row {
  const float *logit;
  int64_t vocab;
  int32_t best;   /* the first in order; -1: there is no candidate */
  int64_t count;  /* of what is kept */
  int32_t *kept;  /* ids */
  double *weight; /* by id, of what is kept */
  int32_t *heap;  /* ids */
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

static float clamped(float logit) { return logit > FLT_MAX ? FLT_MAX : logit; }

/* Greater logits come first, of equal ones the lower id. */
static bool comes_before(const sample_row *row, int32_t a, int32_t b) {
  const float x = clamped(row->logit[a]), y = clamped(row->logit[b]);
  return x > y || (x == y && a < b);
}

static int64_t block_end(const sample_row *row, int64_t first) {
  return row->vocab - first < BLOCK ? row->vocab : first + BLOCK;
}

/* The first of the greatest logits; NaN and -infinity are no candidates. */
static void find_best(sample_row *row) {
  float largest = -INFINITY;
  int64_t block = 0;
  for (int64_t first = 0; first < row->vocab; first += BLOCK) {
    const float found = clamped(plain_largest(row->logit + first, block_end(row, first) - first));
    if (!(found > largest)) continue;
    largest = found;
    block = first;
  }
  row->best = -1;
  if (largest == -INFINITY) return;
  while (clamped(row->logit[block]) != largest) block++;
  row->best = (int32_t)block;
}

/* Keeps the candidates up to `last` in order. */
static void keep_to(sample_row *row, int32_t last) {
  const float least = clamped(row->logit[last]);
  row->count = 0;
  for (int64_t first = 0; first < row->vocab; first += BLOCK) {
    const int64_t end = block_end(row, first);
    if (clamped(plain_largest(row->logit + first, end - first)) < least) continue;
    for (int64_t id = first; id < end; id++) {
      const float logit = clamped(row->logit[id]);
      if (logit > least || (logit == least && id <= last)) row->kept[row->count++] = (int32_t)id;
    }
  }
}

static void keep_all(sample_row *row) {
  row->count = 0;
  for (int64_t id = 0; id < row->vocab; id++) {
    row->kept[row->count] = (int32_t)id;
    row->count += row->logit[id] > -INFINITY;
  }
}

/* ---- heaps ---- */

/* Does `a` belong above `b` in a heap whose top is the first in order, or the last? */
static bool belongs_above(const sample_row *row, int32_t a, int32_t b, bool first_on_top) {
  return first_on_top ? comes_before(row, a, b) : comes_before(row, b, a);
}

static void sift_down(const sample_row *row, int64_t count, int64_t at, bool first_on_top) {
  int32_t *heap = row->heap;
  for (int64_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && belongs_above(row, heap[child + 1], heap[child], first_on_top)) child++;
    if (belongs_above(row, heap[at], heap[child], first_on_top)) return;
    const int32_t moved = heap[at];
    heap[at] = heap[child];
    heap[child] = moved;
  }
}

static void build_heap(const sample_row *row, int64_t count, bool first_on_top) {
  for (int64_t at = count / 2; at-- > 0;) sift_down(row, count, at, first_on_top);
}

/* ---- cuts ---- */

/* Fills the heap with the first candidates in ascending order of the ids; returns the id behind the last one seen. */
static int64_t fill_heap(const sample_row *row, int64_t wanted, int64_t *count) {
  int64_t id = 0;
  for (*count = 0; id < row->vocab && *count < wanted; id++)
    if (row->logit[id] > -INFINITY) row->heap[(*count)++] = (int32_t)id;
  build_heap(row, *count, false);
  return id;
}

/* Keeps the first `wanted` in order: a heap of so many holds the best that were seen, the last of them on top. Of equal
 * logits the earlier one stays, so that only a greater one displaces the top. */
static void keep_first(sample_row *row, int64_t wanted) {
  int64_t count;
  int64_t id = fill_heap(row, wanted, &count);
  while (id < row->vocab) {
    const int64_t end = block_end(row, id);
    const bool may_matter = plain_largest(row->logit + id, end - id) > clamped(row->logit[row->heap[0]]);
    for (; may_matter && id < end; id++) {
      if (!(clamped(row->logit[id]) > clamped(row->logit[row->heap[0]]))) continue;
      row->heap[0] = (int32_t)id;
      sift_down(row, count, 0, false);
    }
    id = end;
  }
  keep_to(row, row->heap[0]);
}

/* ---- weights ---- */

static void weigh(const sample_row *row, double temperature) {
  enum { MANY = 64 };
  const double largest = (double)clamped(row->logit[row->best]);
  double block[MANY];
  for (int64_t first = 0; first < row->count; first += MANY) {
    const int64_t count = row->count - first < MANY ? row->count - first : MANY;
    const int32_t *id = row->kept + first;
    for (int64_t i = 0; i < count; i++) block[i] = ((double)clamped(row->logit[id[i]]) - largest) / temperature;
    plain_exp_falling(block, count);
    for (int64_t i = 0; i < count; i++) row->weight[id[i]] = block[i];
  }
}

static double kept_sum(const sample_row *row) {
  double sum = 0;
  for (int64_t i = 0; i < row->count; i++) sum += row->weight[row->kept[i]];
  return sum;
}

/* Takes the first token in order from the heap of `*count`. */
static int32_t take_first(const sample_row *row, int64_t *count) {
  const int32_t first = row->heap[0];
  row->heap[0] = row->heap[--*count];
  sift_down(row, *count, 0, true);
  return first;
}

/* A heap of what is kept and weighs at least `least` and less than `limit`; returns its count. */
static int64_t heap_between(const sample_row *row, double least, double limit) {
  int64_t count = 0;
  for (int64_t i = 0; i < row->count; i++) {
    const double weight = row->weight[row->kept[i]];
    row->heap[count] = row->kept[i];
    count += weight >= least && weight < limit;
  }
  build_heap(row, count, true);
  return count;
}

/* Adds weights in order until they reach the share, and keeps what was added. Few tokens hold most of it, so they are
 * taken from a heap of the heavy ones first, then from one of the lighter, and so on. */
static void keep_mass(sample_row *row, double share) {
  const double wanted = share * kept_sum(row);
  double sum = 0, limit = INFINITY;
  int32_t last = row->best;
  for (double least = 0x1p-3;; least *= least) {
    int64_t count = heap_between(row, least, limit);
    for (; count > 0 && !(sum > 0 && sum >= wanted); sum += row->weight[last]) last = take_first(row, &count);
    if (sum >= wanted || least == 0) break;
    limit = least;
  }
  keep_to(row, last);
}

/* ---- the kernel ---- */

static int32_t draw(const sample_row *row, double u) {
  const double wanted = u * kept_sum(row);
  double sum = 0;
  int32_t last = row->best;
  for (int64_t i = 0; i < row->count; i++) {
    last = row->kept[i];
    sum += row->weight[last];
    if (sum > wanted) return last;
  }
  return last;
}

/* What the caller asks of a row. */
typedef struct sample_request {
  float temperature, top_p;
  int32_t top_k;
  uint64_t seed, counter;
} sample_request;

static int32_t choose(sample_row *row, const sample_request *request) {
  find_best(row);
  if (row->best < 0) return 0;
  if (!(request->temperature > 0)) return row->best;
  if (request->top_k > 0 && request->top_k < row->vocab)
    keep_first(row, request->top_k);
  else
    keep_all(row);
  weigh(row, (double)request->temperature);
  if (request->top_p < 1) keep_mass(row, (double)request->top_p);
  return draw(row, uniform(request->seed, request->counter));
}

/* The operands. */
typedef struct sample_state {
  plain_state base;
  uint32_t in, temperature, top_k, top_p, seed, counter, out;
} sample_state;

static ord_status sample_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const plain_rule rules[] = {
      {"in", PLAIN_F32, PLAIN_UNIT}, {"temperature", PLAIN_F32, 0}, {"top_k", PLAIN_I32, 0}, {"top_p", PLAIN_F32, 0},
      {"seed", PLAIN_I64, 0},        {"counter", PLAIN_I64, 0},     {"out", PLAIN_I32, 0},   {NULL, 0, 0}};
  (void)kernel;
  const ord_operand *in = &node->operand[ord_node_find(node, "in")]; // [batch, vocab]
  if (in->dim[1] > INT32_MAX)
    return plain_refuse(answer, "in has %lld columns; wanted at most 2^31 - 1", (long long)in->dim[1]);
  answer->worker_bytes = (uint64_t)plain_multiply(in->dim[1], sizeof(double) + 2 * sizeof(int32_t));
  return plain_check(node, rules, in->dim[0], answer);
}

static ord_status sample_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                 const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  sample_state *made = plain_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  made->in = ord_node_find(node, "in");
  made->temperature = ord_node_find(node, "temperature");
  made->top_k = ord_node_find(node, "top_k");
  made->top_p = ord_node_find(node, "top_p");
  made->seed = ord_node_find(node, "seed");
  made->counter = ord_node_find(node, "counter");
  made->out = ord_node_output(node, 0);
  *state = made;
  return ORD_OK;
}

/* Entry `number` of an operand of one axis. */
static void read_entry(const plain_state *state, const ord_exec *exec, uint32_t which, int64_t number, void *into,
                       size_t bytes) {
  const char *data = exec->operand[which];
  memcpy(into, data + number * state->node->operand[which].stride[0], bytes);
}

static ord_status sample_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const sample_state *made = state;
  const plain_view in = plain_view_of(&made->base, exec, made->in), out = plain_view_of(&made->base, exec, made->out);
  const plain_range range = plain_chunk_range(exec, in.dim[0]);
  for (int64_t i = range.first; i < range.end; i++) {
    sample_request request;
    read_entry(&made->base, exec, made->temperature, i, &request.temperature, sizeof request.temperature);
    read_entry(&made->base, exec, made->top_k, i, &request.top_k, sizeof request.top_k);
    read_entry(&made->base, exec, made->top_p, i, &request.top_p, sizeof request.top_p);
    read_entry(&made->base, exec, made->seed, i, &request.seed, sizeof request.seed);
    read_entry(&made->base, exec, made->counter, i, &request.counter, sizeof request.counter);
    double *weight = exec->worker;
    int32_t *kept = (int32_t *)(weight + in.dim[1]);
    sample_row row = {.logit = (const float *)(in.data + i * in.stride[0]),
                      .vocab = in.dim[1],
                      .weight = weight,
                      .kept = kept,
                      .heap = kept + in.dim[1]};
    const int32_t token = choose(&row, &request);
    memcpy(out.data + i * out.stride[0], &token, sizeof token);
  }
  return ORD_OK;
}

PLAIN_KERNEL(sample, sample_query, .prepare = sample_prepare, .launch = sample_launch);
