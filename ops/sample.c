/* SPDX-License-Identifier: MIT
 *
 * sample: the next token of each row. Appended by `generate`, never written in a model file.
 *
 * Every kernel of this op must choose the same token, so the rule is spelled out. For a row of logits x[0 .. vocab):
 *
 *  1. A logit that is NaN or -inf is no candidate; +inf counts as FLT_MAX. Without any candidate the token is 0.
 *  2. Order: greater x first, of equal ones the lower id first. best is the first candidate.
 *  3. temperature not above 0: the token is best.
 *  4. top_k from 1 to count - 1 keeps the first top_k candidates; any other top_k keeps all.
 *  5. w[i] = exp((x[i] - x[best]) / temperature), in double, x and temperature widened from f32 before the subtraction.
 *  6. top_p below 1: let S be the sum of w over what is kept, added in ascending id. Walk in the order of 2 and add w;
 *     keep up to and including the first token at which that sum is at least top_p * S (so at least one).
 *  7. u = ((r1 << 32 | r0) >> 11) * 2^-53 with r0 .. r3 from Philox 4x32-10 under key {low, high half of seed} and
 *     counter {low, high half of counter, 0, 0}. (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as
 *     1, 2, 3. SC'11.)
 *  8. Let T be the sum of w over what is kept now, in ascending id. The token is the first kept id, ascending, at which
 *     the running sum exceeds u * T; if rounding leaves none, the last kept id.
 *
 * All sums are in double. The row's number plays no part, so a batch draws what each row draws alone. Only 6 needs an
 * order among more tokens than top_k; without top_k and top_p nothing is sorted.
 */
#include <float.h>

#include "ops/op_check.h"
#include "ops/reference.h"

/* ---- the generator ------------------------------------------------------------------------------------------- */

static void philox_4x32_10(uint64_t key, uint64_t counter, uint32_t out[4]) {
  uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    const uint64_t product0 = (uint64_t)0xD2511F53u * c0, product2 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(product2 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)product2;
    c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)product0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* A number in [0, 1) with 53 random bits. */
static double uniform(uint64_t seed, uint64_t counter) {
  uint32_t random[4];
  philox_4x32_10(seed, counter, random);
  return (double)(((uint64_t)random[1] << 32 | random[0]) >> 11) * 0x1p-53;
}

/* ---- the rule ------------------------------------------------------------------------------------------------ */

typedef struct {
  const ord_reference_tensor *in; // [batch, vocab]
  int64_t number, best;
  double temperature;
  int64_t cut; /* the last token in order that is kept; -1: all candidates are */
} sampled_row;

/* -infinity: no candidate. */
static double logit(const sampled_row *row, int64_t id) {
  assert(row->in->rank == 2);
  const double value = ord_reference_read(row->in, (int64_t[]){row->number, id});
  return isnan(value) ? -(double)INFINITY : value > FLT_MAX ? FLT_MAX : value;
}

/* Both are candidates. */
static bool comes_before(const sampled_row *row, int64_t a, int64_t b) {
  const double x = logit(row, a), y = logit(row, b);
  return x > y || (x == y && a < b);
}

static double weight(const sampled_row *row, int64_t id) {
  return exp((logit(row, id) - logit(row, row->best)) / row->temperature);
}

static bool is_kept(const sampled_row *row, int64_t id) {
  if (isinf(logit(row, id))) return false;
  return row->cut < 0 || !comes_before(row, row->cut, id);
}

static double kept_sum(const sampled_row *row) {
  double sum = 0;
  for (int64_t id = 0; id < row->in->dim[1]; id++)
    if (is_kept(row, id)) sum += weight(row, id);
  return sum;
}

/* Moves the token at `at` down until none behind it comes after it: the last in order stands on top. */
static void sift_down(const sampled_row *row, int32_t *id, int64_t count, int64_t at) {
  for (int64_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && comes_before(row, id[child], id[child + 1])) child++;
    if (comes_before(row, id[child], id[at])) return;
    const int32_t moved = id[at];
    id[at] = id[child];
    id[child] = moved;
  }
}

/* Heap sort, so that no memory but `id` is needed. */
static void sort(const sampled_row *row, int32_t *id, int64_t count) {
  for (int64_t at = count / 2; at-- > 0;) sift_down(row, id, count, at);
  for (int64_t last = count - 1; last > 0; last--) {
    const int32_t moved = id[0];
    id[0] = id[last];
    id[last] = moved;
    sift_down(row, id, last, 0);
  }
}

/* Steps 4 to 6: sets the cut. `id` holds the candidates, `count` at least 1. */
static void cut(sampled_row *row, int32_t *id, int64_t count, int64_t top_k, double top_p) {
  const bool cuts_number = top_k > 0 && top_k < count, cuts_mass = top_p < 1;
  if (!cuts_number && !cuts_mass) return;
  sort(row, id, count);
  if (cuts_number) count = top_k;
  row->cut = id[count - 1];
  if (!cuts_mass) return;
  const double wanted = top_p * kept_sum(row);
  int64_t kept = 0;
  for (double sum = 0; kept < count && (kept == 0 || sum < wanted); kept++) sum += weight(row, id[kept]);
  row->cut = id[kept - 1];
}

/* Step 8. */
static int64_t draw(const sampled_row *row, double u) {
  const double wanted = u * kept_sum(row);
  int64_t last = row->best;
  double sum = 0;
  for (int64_t id = 0; id < row->in->dim[1]; id++) {
    if (!is_kept(row, id)) continue;
    sum += weight(row, id);
    if (sum > wanted) return id;
    last = id;
  }
  return last;
}

/* ---- the kernel ---------------------------------------------------------------------------------------------- */

static double read_row(const ord_reference_tensor *tensor, int64_t row) {
  assert(tensor->rank == 1);
  return ord_reference_read(tensor, (int64_t[]){row});
}

/* All 64 bits, which a double would not hold. */
static uint64_t read_bits(const ord_reference_tensor *tensor, int64_t row) {
  assert(tensor->rank == 1);
  uint64_t bits;
  memcpy(&bits, ord_reference_at(tensor, (int64_t[]){row}), sizeof bits);
  return bits;
}

static ord_status sample_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in");
  const ord_reference_tensor temperature = ord_reference_slot(node, exec, "temperature");
  const ord_reference_tensor top_k = ord_reference_slot(node, exec, "top_k");
  const ord_reference_tensor top_p = ord_reference_slot(node, exec, "top_p");
  const ord_reference_tensor seed = ord_reference_slot(node, exec, "seed");
  const ord_reference_tensor counter = ord_reference_slot(node, exec, "counter");
  const ord_reference_tensor out = ord_reference_output(node, exec, 0);
  int32_t *id = exec->scratch; // [vocab]
  for (int64_t number = 0; number < in.dim[0]; number++) {
    sampled_row row = {
        .in = &in, .number = number, .best = 0, .temperature = read_row(&temperature, number), .cut = -1};
    int64_t count = 0;
    for (int64_t candidate = 0; candidate < in.dim[1]; candidate++) {
      if (isinf(logit(&row, candidate))) continue;
      if (count == 0 || comes_before(&row, candidate, row.best)) row.best = candidate;
      id[count++] = (int32_t)candidate;
    }
    int64_t token = row.best;
    if (count > 0 && row.temperature > 0) {
      cut(&row, id, count, (int64_t)read_row(&top_k, number), read_row(&top_p, number));
      token = draw(&row, uniform(read_bits(&seed, number), read_bits(&counter, number)));
    }
    ord_reference_write(&out, (int64_t[]){number}, (double)token);
  }
  return ORD_OK;
}

static ord_status sample_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  const ord_status status = ord_reference_query(kernel, node, answer);
  answer->scratch_bytes = (uint64_t)node->operand[ord_node_find(node, "in")].dim[1] * sizeof(int32_t);
  return status;
}

static const ord_kernel sample_reference = {
    .struct_size = sizeof sample_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "sample_reference",
    .op = "sample",
    .query = sample_query,
    .prepare = ord_reference_prepare,
    .launch = sample_launch,
    .retire = ord_reference_retire,
};

/* ---- the op -------------------------------------------------------------------------------------------------- */

static bool sample_infer(ord_infer *infer) {
  static const struct {
    const char *name;
    ord_dtype dtype;
  } per_row[] = {
      {"temperature", ORD_F32}, {"top_k", ORD_I32}, {"top_p", ORD_F32}, {"seed", ORD_I64}, {"counter", ORD_I64}};
  const ord_infer_operand *in = ord_infer_slot(infer, "in");
  if (!ord_infer_check_float(infer, in) || !ord_infer_check_rank(infer, in, 2, "[batch, vocab]")) return false;
  for (size_t i = 0; i < sizeof per_row / sizeof *per_row; i++) {
    const ord_infer_operand *operand = ord_infer_slot(infer, per_row[i].name);
    if (!ord_infer_check_dtype(infer, operand, per_row[i].dtype)) return false;
    if (!ord_infer_check_rank(infer, operand, 1, "[batch]")) return false;
    if (!ord_infer_check_equal(infer, (ord_axis){in, 0, "batch"}, (ord_axis){operand, 0, "batch"})) return false;
  }
  ord_infer_set_result(infer, 0, ORD_I32, 1, in->dim);
  return true;
}

static const ord_slot sample_slots[] = {
    {"in", 0, 0, "[b, vocab]"}, {"temperature", 0, 0, "[b]"}, {"top_k", 0, 0, "i32 [b]"},
    {"top_p", 0, 0, "[b]"},     {"seed", 0, 0, "i64 [b]"},    {"counter", 0, 0, "i64 [b]"},
};

/* in, then temperature, top_k, top_p, seed, counter */
static const ord_case sample_cases[] = {
    {"in[3,65] temperature[3]=0 top_k:i32[3]=0 top_p[3]=1 seed:i64[3]<100 counter:i64[3]<100", ""},
    {"in[2,5]=1,2,2,0,2 temperature[2]=0 top_k:i32[2]=3 top_p[2]=0.5 seed:i64[2]=1 counter:i64[2]=2", ""},
    {"in[1,2]=1,2 temperature[1]=0 top_k:i32[1]=0 top_p[1]=1 seed:i64[1]=0 counter:i64[1]=0", ""},
    {"in[4,3]=nan,nan,nan,-inf,-inf,-inf,nan,-inf,nan,nan,-5,nan temperature[4]=0 top_k:i32[4]=0 top_p[4]=1 "
     "seed:i64[4]=1 counter:i64[4]=1",
     ""},
    {"in[4,3]=nan,nan,nan,-inf,-inf,-inf,nan,-inf,nan,nan,-5,nan temperature[4]=1 top_k:i32[4]=2 top_p[4]=0.5 "
     "seed:i64[4]=1 counter:i64[4]=1",
     ""},
    {"in[2,4]=inf,1,inf,2 temperature[2]=0,1 top_k:i32[2]=0 top_p[2]=1 seed:i64[2]=7 counter:i64[2]=$", "$=1..8"},
    {"in[3,$] temperature[3]=0.7 top_k:i32[3]=0 top_p[3]=1 seed:i64[3]<1000 counter:i64[3]<1000",
     "$=1,2,3,63,64,65,127,128,129,1000"},
    {"in[3,$] temperature[3]=1 top_k:i32[3]=1,5,100 top_p[3]=1 seed:i64[3]<1000 counter:i64[3]<1000",
     "$=1,2,5,6,64,99,100,101,257"},
    {"in[4,$] temperature[4]=0.5,1,2,100 top_k:i32[4]=0 top_p[4]=0.001,0.3,0.9,0.999 seed:i64[4]<1000 "
     "counter:i64[4]<1000",
     "$=1,2,5,64,130,1000"},
    {"in[4,130] temperature[4]=0.8 top_k:i32[4]=40,3,0,200 top_p[4]=0.95,0.5,0.2,1 seed:i64[4]=42 counter:i64[4]=$",
     "$=0..20"},
    {"in[1,16]=0 temperature[1]=1 top_k:i32[1]=0 top_p[1]=1 seed:i64[1]=-1 counter:i64[1]=$", "$=0..20"},
    {"in[1,9]=1,1,2,2,3,3,1,2,3 temperature[1]=1 top_k:i32[1]=4 top_p[1]=1 seed:i64[1]=5 counter:i64[1]=$", "$=0..20"},
    {"in+[3/8,33] temperature[3/8]=1 top_k:i32[3/8]=7 top_p[3/8]=0.9 seed:i64[3/8]<50 counter:i64[3/8]<50", ""},
    {"in^[3,33] temperature[3]=1 top_k:i32[3]=7 top_p[3]=0.9 seed:i64[3]<50 counter:i64[3]<50", ""},
    {"in:f16[2,40] temperature[2]=1 top_k:i32[2]=0 top_p[2]=0.9 seed:i64[2]<50 counter:i64[2]<50", ""},
    {NULL, NULL}};

const ord_op ord_op_sample = {
    .name = "sample",
    .version = 1,
    .flags = ORD_OP_HOST,
    .slot = sample_slots,
    .slot_count = sizeof sample_slots / sizeof *sample_slots,
    .result_min = 1,
    .result_max = 1,
    .about = "[batch], the next token of each row; appended by `generate`, not written in a file",
    .infer = sample_infer,
    .reference = &sample_reference,
    .cases = sample_cases,
};
