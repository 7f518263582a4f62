/* SPDX-License-Identifier: MIT
 *
 * attention: each query mixes the values of the keys that it sees.
 *
 * Head i reads key head i / (h / g). score = q . k * scale; then soft_cap * tanh(score / soft_cap); then a float mask
 * is added. Key j is seen by query i of row n if j < valid(n), the mask does not hide it (false or -inf), and j lies
 * within causal and window limits around at = i + start(n). A query that sees nothing gives zeros. With a cache, keys
 * and values are read from it; they were appended before, by a cache_append node.
 */
#include "ops/op_check.h"
#include "ops/reference.h"

/* ---- the reference: one chunk per row and head ----------------------------------------------------------------- */

/* The node in this run. Without a cache `key` and `value` are the operands k and v, with it the states. */
typedef struct {
  ord_reference_tensor q;             // [batch, heads, queries, width]
  ord_reference_tensor key;           // [batch, key heads, keys, width]
  ord_reference_tensor value;         // [batch, key heads, keys, value width]
  ord_reference_tensor mask;          // broadcast to [batch, heads, queries, keys]
  ord_reference_tensor lengths, past; // i32 [batch]
  ord_reference_tensor out;           // [batch, heads, queries, value width]
  ord_reference_tensor probabilities; // [batch, heads, queries, keys]
  int64_t appended;                   // keys of operand k: all of them, or those that the cache got
  bool is_causal;
  int64_t align, window_before, window_after;
  double scale, soft_cap;
} attention;

/* The keys that a query may see. */
typedef struct {
  int64_t first, last; // both included; empty if last < first
} span;

static attention attention_open(const ord_node *node, const ord_exec *exec) {
  attention made = {
      .q = ord_reference_slot(node, exec, "q"),
      .key = ord_reference_slot(node, exec, "cache_k"),
      .value = ord_reference_slot(node, exec, "cache_v"),
      .mask = ord_reference_slot(node, exec, "mask"),
      .lengths = ord_reference_slot(node, exec, "lengths"),
      .past = ord_reference_slot(node, exec, "past"),
      .out = ord_reference_output(node, exec, 0),
      .probabilities = ord_reference_output(node, exec, 1),
      .is_causal = ord_reference_int(node, "causal", 0) != 0,
      .align = ord_reference_int(node, "align", ORD_LAST),
      .window_before = ord_reference_int(node, "window_before", -1),
      .window_after = ord_reference_int(node, "window_after", -1),
      .scale = ord_reference_float(node, "scale", 1),
      .soft_cap = ord_reference_float(node, "soft_cap", 0),
  };
  const ord_reference_tensor k = ord_reference_slot(node, exec, "k");
  made.appended = k.dim[2];
  if (!made.key.data) made.key = k;
  if (!made.value.data) made.value = ord_reference_slot(node, exec, "v");
  return made;
}

static int64_t clamp(int64_t value, int64_t high) { return value < 0 ? 0 : value > high ? high : value; }

/* A sum of positions; so far away that no key lies there where it does not fit. */
static int64_t plus(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? INT64_MIN : INT64_MAX;
}

/* What limits the view of query `i` of row `n`, but for the mask. */
static span attention_span(const attention *a, int64_t n, int64_t i) {
  const bool has_cache = a->past.data != NULL;
  const int64_t past = has_cache ? (int64_t)ord_reference_read(&a->past, &n) : 0;
  const int64_t length = a->lengths.data ? (int64_t)ord_reference_read(&a->lengths, &n) : a->appended;
  const int64_t valid = clamp(past + clamp(length, a->appended), a->key.dim[2]);
  const int64_t start = has_cache ? past : a->align == ORD_LAST ? valid - a->q.dim[2] : a->align;
  const int64_t at = plus(i, start), first = plus(i, plus(start, -a->window_before)), last = plus(at, a->window_after);
  span seen = {0, valid - 1};
  if (a->window_before >= 0 && first > seen.first) seen.first = first;
  if (a->is_causal && at < seen.last) seen.last = at;
  if (a->window_after >= 0 && last < seen.last) seen.last = last;
  return seen;
}

/* The score of key index[3] for query index[0 .. 2], before the mask. */
static double attention_score(const attention *a, const int64_t *index, int64_t key_head) {
  int64_t q_at[] = {index[0], index[1], index[2], 0}, k_at[] = {index[0], key_head, index[3], 0};
  double sum = 0;
  for (int64_t d = 0; d < a->q.dim[3]; d++) {
    q_at[3] = k_at[3] = d;
    sum += ord_reference_read(&a->q, q_at) * ord_reference_read(&a->key, k_at);
  }
  const double score = sum * a->scale;
  return a->soft_cap > 0 ? a->soft_cap * tanh(score / a->soft_cap) : score;
}

/* What the mask adds to the score at `index`; -infinity hides. */
static double attention_mask(const attention *a, const int64_t *index) {
  if (!a->mask.data) return 0;
  int64_t at[ORD_RANK_MAX] = {0};
  ord_reference_broadcast(&a->mask, index, 4, at);
  const double mask = ord_reference_read(&a->mask, at);
  if (a->mask.dtype != ORD_BOOL) return mask;
  return mask != 0 ? 0 : -(double)INFINITY;
}

/* Fills weight[0 .. keys) with probabilities, 0 exactly where a key is hidden, and returns the span to sum over. A
 * hidden key is never read: padding may hold anything. */
static span attention_softmax(const attention *a, int64_t *index, int64_t key_head, double *weight) {
  const int64_t keys = a->key.dim[2];
  const span seen = attention_span(a, index[0], index[2]);
  double highest = -(double)INFINITY, sum = 0;
  for (int64_t j = 0; j < keys; j++) {
    index[3] = j;
    weight[j] = -(double)INFINITY;
    if (j < seen.first || j > seen.last) continue;
    const double mask = attention_mask(a, index);
    if (mask == -(double)INFINITY) continue;
    weight[j] = attention_score(a, index, key_head) + mask;
    highest = fmax(highest, weight[j]);
  }
  for (int64_t j = 0; j < keys; j++) {
    weight[j] = weight[j] == -(double)INFINITY ? 0 : exp(weight[j] - highest);
    sum += weight[j];
  }
  for (int64_t j = 0; j < keys; j++)
    if (weight[j] != 0) weight[j] /= sum;
  return seen;
}

static void attention_query_row(const attention *a, int64_t *index, double *weight) {
  const int64_t key_head = index[1] / (a->q.dim[1] / a->key.dim[1]);
  const span seen = attention_softmax(a, index, key_head, weight);
  for (int64_t e = 0; e < a->out.dim[3]; e++) {
    double sum = 0;
    for (int64_t j = seen.first; j <= seen.last; j++)
      if (weight[j] != 0) sum += weight[j] * ord_reference_read(&a->value, (int64_t[]){index[0], key_head, j, e});
    index[3] = e;
    ord_reference_write(&a->out, index, sum);
  }
  if (!a->probabilities.data) return;
  for (index[3] = 0; index[3] < a->key.dim[2]; index[3]++)
    ord_reference_write(&a->probabilities, index, weight[index[3]]);
}

static ord_status attention_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const attention a = attention_open(state, exec);
  const int64_t heads = a.q.dim[1], count = a.q.dim[0] * heads;
  const int64_t begin = count * exec->chunk / exec->chunk_count, end = count * (exec->chunk + 1) / exec->chunk_count;
  for (int64_t number = begin; number < end; number++)
    for (int64_t i = 0; i < a.q.dim[2]; i++) {
      int64_t index[ORD_RANK_MAX] = {number / heads, number % heads, i};
      attention_query_row(&a, index, exec->worker);
    }
  return ORD_OK;
}

static ord_status attention_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  const ord_status status = ord_reference_query(kernel, node, answer);
  const ord_operand *q = &node->operand[ord_node_find(node, "q")];
  const uint32_t cache = ord_node_find(node, "cache_k");
  const ord_operand *key = &node->operand[cache == ORD_NONE ? ord_node_find(node, "k") : cache];
  const int64_t count = q->dim[0] * q->dim[1];
  answer->chunk_limit[0] = (uint32_t)(count < 1 ? 1 : count > UINT16_MAX ? UINT16_MAX : count);
  answer->worker_bytes = (uint64_t)key->dim[2] * sizeof(double); // one weight per key
  return status;
}

static const ord_kernel attention_reference = {
    .struct_size = sizeof attention_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "attention_reference",
    .op = "attention",
    .query = attention_query,
    .prepare = ord_reference_prepare,
    .launch = attention_launch,
    .retire = ord_reference_retire,
};

/* ---- the shape rule -------------------------------------------------------------------------------------------- */

typedef struct {
  const ord_infer_operand *q, *k, *v, *mask, *lengths;
} attention_operands;

static bool check_operands(ord_infer *infer, const attention_operands *in) {
  const ord_infer_operand *tensor[] = {in->q, in->k, in->v};
  for (size_t i = 0; i < sizeof tensor / sizeof *tensor; i++) {
    if (!ord_infer_check_float(infer, tensor[i])) return false;
    if (!ord_infer_check_rank(infer, tensor[i], 4, "[batch, heads, tokens, width]")) return false;
  }
  const ord_infer_operand *q = in->q, *k = in->k, *v = in->v, *lengths = in->lengths;
  return ord_infer_check_equal(infer, (ord_axis){q, 0, "batch"}, (ord_axis){k, 0, "batch"}) &&
         ord_infer_check_equal(infer, (ord_axis){q, 0, "batch"}, (ord_axis){v, 0, "batch"}) &&
         ord_infer_check_equal(infer, (ord_axis){q, 3, "width"}, (ord_axis){k, 3, "width"}) &&
         ord_infer_check_equal(infer, (ord_axis){k, 1, "heads"}, (ord_axis){v, 1, "heads"}) &&
         ord_infer_check_equal(infer, (ord_axis){k, 2, "tokens"}, (ord_axis){v, 2, "tokens"}) &&
         ord_infer_check_dtype(infer, lengths, ORD_I32) && ord_infer_check_rank(infer, lengths, 1, "[batch]") &&
         ord_infer_check_equal(infer, (ord_axis){q, 0, "batch"}, (ord_axis){lengths, 0, "batch"});
}

static bool check_heads(ord_infer *infer, const attention_operands *in) {
  int64_t heads, key_heads;
  if (!ord_infer_check_fixed(infer, (ord_axis){in->q, 1, "heads"}, &heads)) return false;
  if (!ord_infer_check_fixed(infer, (ord_axis){in->k, 1, "heads"}, &key_heads)) return false;
  if (key_heads > 0 && heads % key_heads == 0) return true;
  return ord_infer_fail(infer, "k", 0, "%s has heads = %lld, %s has heads = %lld; wanted a multiple of the key heads",
                        ord_infer_operand_text(infer, in->q), (long long)heads, ord_infer_operand_text(infer, in->k),
                        (long long)key_heads);
}

/* `full`: [batch, heads, queries, keys] */
static bool check_mask(ord_infer *infer, const ord_infer_operand *mask, const ord_size *full) {
  static const char *const name[] = {"batch", "heads", "queries", "keys"};
  if (!mask) return true;
  if (mask->dtype != ORD_BOOL && !ord_infer_check_float(infer, mask)) return false;
  if (mask->rank > 4)
    return ord_infer_fail(infer, "mask", 0, "%s has %u axes; wanted at most [batch, heads, queries, keys]",
                          ord_infer_operand_text(infer, mask), (unsigned)mask->rank);
  for (uint32_t axis = 0; axis < mask->rank; axis++) {
    const uint32_t at = axis + 4 - mask->rank;
    int64_t size;
    if (ord_size_equal(mask->dim[axis], full[at])) continue;
    if (ord_size_is_constant(mask->dim[axis], &size) && size == 1) continue;
    return ord_infer_fail(infer, "mask", 0, "%s has %s = %s; wanted 1 or %s%s", ord_infer_operand_text(infer, mask),
                          name[at], ord_infer_size_text(infer, mask->dim[axis]), ord_infer_size_text(infer, full[at]),
                          at == 3 && infer->has_cache ? " (the cache's length)" : "");
  }
  return true;
}

/* Sets align. Where it would be a guess it must be written; where it says nothing it must not. */
static bool resolve_align(ord_infer *infer, bool is_causal, bool has_window) {
  const ord_attr *align = ord_infer_attr(infer, "align");
  if (align && infer->has_cache)
    return ord_infer_fail(infer, "align", 0,
                          "align with a cache; queries stand behind their row's past; wanted no align");
  if (align && !is_causal && !has_window)
    return ord_infer_fail(infer, "align", 0, "align without causal or a window has no effect; wanted no align");
  if (align && align->value.i < 0)
    return ord_infer_fail(infer, "align", 0, "align: found %lld; wanted last, first or a key's number, from 0",
                          (long long)align->value.i);
  if (!align && (is_causal || has_window) && ord_infer_slot(infer, "lengths") && !infer->has_cache)
    return ord_infer_fail(infer, NULL, 0,
                          "%s with lengths lacks align; wanted first (padded prompts) or last (new tokens against old "
                          "keys)",
                          is_causal ? "causal" : "a window");
  return align || ord_infer_set_int(infer, "align", ORD_LAST);
}

/* Sets a window's limit, -1 where there is none. */
static bool resolve_window(ord_infer *infer, const char *name, bool *is_given) {
  const ord_attr *window = ord_infer_attr(infer, name);
  *is_given |= window != NULL;
  if (!window) return ord_infer_set_int(infer, name, -1);
  if (window->value.i >= 0) return true;
  return ord_infer_fail(infer, name, 0, "%s: found %lld; wanted 0 or more", name, (long long)window->value.i);
}

/* Fills in what the file leaves out, so that kernels find every attribute. */
static bool resolve_attributes(ord_infer *infer, int64_t width) {
  const bool is_causal = ord_infer_attr(infer, "causal")->value.i != 0;
  bool has_window = false;
  if (is_causal && ord_infer_attr(infer, "window_after"))
    return ord_infer_fail(infer, "window_after", 0,
                          "window_after with causal; a causal query sees nothing behind itself; wanted one of the two");
  if (!resolve_window(infer, "window_before", &has_window)) return false;
  if (!resolve_window(infer, "window_after", &has_window)) return false;
  if (!resolve_align(infer, is_causal, has_window)) return false;
  const ord_attr *soft_cap = ord_infer_attr(infer, "soft_cap");
  if (soft_cap && !(soft_cap->value.f > 0))
    return ord_infer_fail(infer, "soft_cap", 0, "soft_cap: found %g; wanted a number above 0", soft_cap->value.f);
  if (!soft_cap && !ord_infer_set_number(infer, "soft_cap", 0)) return false;
  return ord_infer_attr(infer, "scale") || ord_infer_set_number(infer, "scale", 1 / sqrt((double)width));
}

static bool attention_infer(ord_infer *infer) {
  const attention_operands in = {ord_infer_slot(infer, "q"), ord_infer_slot(infer, "k"), ord_infer_slot(infer, "v"),
                                 ord_infer_slot(infer, "mask"), ord_infer_slot(infer, "lengths")};
  int64_t width;
  if (!check_operands(infer, &in) || !check_heads(infer, &in)) return false;
  if (!ord_infer_check_fixed(infer, (ord_axis){in.q, 3, "width"}, &width)) return false;
  const ord_size *q = in.q->dim, keys = infer->has_cache ? infer->cache_length : in.k->dim[2];
  const ord_size full[] = {q[0], q[1], q[2], keys};
  if (!check_mask(infer, in.mask, full) || !resolve_attributes(infer, width)) return false;
  ord_infer_set_result(infer, 0, in.q->dtype, 4, (ord_size[]){q[0], q[1], q[2], in.v->dim[3]});
  ord_infer_set_result(infer, 1, in.q->dtype, 4, full);
  return true;
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static const ord_slot attention_slots[] = {
    {"q", 0, 0, "[b, h, s, d]"},
    {"k", 0, 0, "[b, g, t, d]"},
    {"v", 0, 0, "[b, g, t, e]"},
    {"mask", ORD_SLOT_OPTIONAL, 0, NULL},
    {"lengths", ORD_SLOT_OPTIONAL, 0, "i32 [b]"},
};

static const char *const align_words[] = {"last", "first", NULL};

static const ord_attr_rule attention_attributes[] = {
    {.name = "causal", .kind = ORD_RULE_BOOL, .required = true, .wanted = "true or false"},
    {.name = "align", .kind = ORD_RULE_ALIGN, .default_text = "last", .word = align_words},
    {.name = "window_before", .kind = ORD_RULE_INT, .default_text = "no limit"},
    {.name = "window_after", .kind = ORD_RULE_INT, .default_text = "no limit"},
    {.name = "scale", .kind = ORD_RULE_NUMBER, .default_text = "1/sqrt(d)"},
    {.name = "soft_cap", .kind = ORD_RULE_NUMBER, .default_text = "none"},
    {.name = "cache", .kind = ORD_RULE_CACHE, .default_text = "none"},
};

static const ord_case attention_cases[] = {
    /* lengths, head widths, ratios */
    {"q[1,1,$,2] k[1,1,$,2] v[1,1,$,3]", "causal=true $=1..130"},
    {"q[1,1,2,4] k[1,1,$,4] v[1,1,$,4]", "causal=false $=1..130"},
    {"q[1,2,1,8] k[1,2,$,8] v[1,2,$,8]", "causal=true $=1..130"},
    {"q[1,1,$,4] k[1,1,3,4] v[1,1,3,4]", "causal=true $=1..33"}, // more queries than keys: some see nothing
    {"q[1,2,5,$] k[1,2,5,$] v[1,2,5,$]", "causal=true $=1,3,8,16,32,64,72,80,96,128,256"},
    {"q[1,1,3,64] k[1,1,3,64] v[1,1,3,$]", "causal=false $=1,3,8,32,72,80,128"},
    {"q[1,1,3,$] k[1,1,3,$] v[1,1,3,64]", "causal=false $=1,3,8,32,72,80,128"},
    {"q[2,$,4,8] k[2,1,4,8] v[2,1,4,8]", "causal=true $=1,2,3,5,7,8"},
    {"q[1,$,4,8] k[1,$,4,8] v[1,$,4,8]", "causal=true $=1,2,3,5,7,8"},
    {"q[2,6,4,8] k[2,3,4,8] v[2,3,4,8]", "causal=true"},
    {"q[1,9,4,8] k[1,3,4,8] v[1,3,4,8]", "causal=true"},
    {"q[1,28,3,8] k[1,4,3,8] v[1,4,3,8]", "causal=true"},
    {"q[1,20,3,8] k[1,4,3,8] v[1,4,3,8]", "causal=false"},
    {"q[2,4,33,16] k[2,2,65,16] v[2,2,65,16]", "causal=true"},
    {"q[1,1,4,8] k[1,1,530,8] v[1,1,530,8]", "causal=true soft_cap=3 window_before=300"},
    {"q[1,1,5,8] k[1,1,300,8] v[1,1,300,8] mask[5,300]=-inf,0,-2", "causal=false"},
    /* positions and windows at the ends of the numbers */
    {"q[1,1,3,8] k[1,1,9,8] v[1,1,9,8]", "causal=true align=9223372036854775806"},
    {"q[1,1,3,8] k[1,1,9,8] v[1,1,9,8]", "causal=true align=9223372036854775806 window_before=9223372036854775803"},
    {"q[1,1,3,8] k[1,1,9,8] v[1,1,9,8]", "causal=false align=9223372036854775806 window_before=9223372036854775807"},
    {"q[1,1,3,8] k[1,1,9,8] v[1,1,9,8]", "causal=false align=3 window_after=9223372036854775807"},
    {"q[1,1,9,8] k[1,1,3,8] v[1,1,3,8]", "causal=true align=last window_before=9223372036854775807"},
    /* score */
    {"q[1,2,5,8] k[1,2,7,8] v[1,2,7,8]", "causal=false scale=0.02"},
    {"q[1,2,5,8] k[1,2,7,8] v[1,2,7,8]", "causal=true scale=30"},
    {"q[1,2,5,8] k[1,2,7,8] v[1,2,7,8]", "causal=true scale=0"},
    {"q[1,2,5,8] k[1,2,7,8] v[1,2,7,8]", "causal=true soft_cap=0.5"},
    {"q[1,2,5,8] k[1,2,7,8] v[1,2,7,8] mask[5,7]", "causal=false soft_cap=2 scale=3"},
    {"q[1,2,5,8] k[1,2,7,8] v[1,2,7,8]", "causal=false results=2"},
    {"q[2,6,5,8] k[2,2,7,8] v[2,2,7,9]", "causal=true results=2 window_before=3"},
    /* align and windows */
    {"q[1,2,4,8] k[1,2,9,8] v[1,2,9,8]", "causal=true align=first"},
    {"q[1,2,4,8] k[1,2,9,8] v[1,2,9,8]", "causal=true align=last"},
    {"q[1,2,4,8] k[1,2,9,8] v[1,2,9,8]", "causal=true align=$ $=0,1,3,8,9,20"},
    {"q[1,2,9,8] k[1,2,9,8] v[1,2,9,8]", "causal=true window_before=$ $=0,1,4,8,100"},
    {"q[1,2,9,8] k[1,2,9,8] v[1,2,9,8]", "causal=false window_before=$ $=0,1,4,8,100"},
    {"q[1,2,9,8] k[1,2,9,8] v[1,2,9,8]", "causal=false window_after=$ $=0,1,4,8,100"},
    {"q[1,2,9,8] k[1,2,9,8] v[1,2,9,8]", "causal=false window_before=2 window_after=1"},
    {"q[1,2,4,8] k[1,2,9,8] v[1,2,9,8]", "causal=false window_before=1 window_after=1 align=first"},
    {"q[1,2,4,8] k[1,2,9,8] v[1,2,9,8]", "causal=false window_before=1 window_after=0 align=7"},
    {"q[1,1,65,8] k[1,1,65,8] v[1,1,65,8]", "causal=true window_before=16"},
    /* lengths */
    {"q[3,2,4,8] k[3,2,9,8] v[3,2,9,8] lengths:i32[3]=0,5,9", "causal=false"},
    {"q[3,2,4,8] k[3,2,9,8] v[3,2,9,8] lengths:i32[3]=0,2,9", "causal=true align=last"},
    {"q[3,2,9,8] k[3,2,9,8] v[3,2,9,8] lengths:i32[3]=0,5,9", "causal=true align=first"},
    {"q[3,2,9,8] k[3,2,9,8] v[3,2,9,8] lengths:i32[3]=1,5,9", "causal=true align=first window_before=2"},
    {"q[3,2,9,8] k[3,2,9,8] v[3,2,9,8] lengths:i32[3]=1,5,9", "causal=false align=last window_after=2"},
    {"q[1,1,2,2] k[1,1,3,2]=1,2,3,4,nan,nan v[1,1,3,2]=1,2,3,4,nan,inf lengths:i32[1]=2", "causal=false"},
    {"q[1,2,3,8] k[1,2,0/8,8] v[1,2,0/8,8]", "causal=true"},
    {"q[1,2,3,8] k[1,2,0/8,8] v[1,2,0/8,8]", "causal=false results=2"},
    {"q[1,2,0/8,8] k[1,2,5/8,8] v[1,2,5/8,8]", "causal=true"},
    {"q[1,2,3/8,8] k[1,2,3/8,8] v[1,2,3/8,8]", "causal=true"},
    {"q[2/4,2,3/8,8] k[2/4,2,5/16,8] v[2/4,2,5/16,8] lengths:i32[2/4]=5,1", "causal=true align=last results=2"},
    /* masks */
    {"q[1,2,2,4] k[1,2,3,4] v[1,2,3,4] mask:bool[2,3]=1,0,1,0,0,0", "causal=false"},
    {"q[1,2,8,4] k[1,2,4,4] v[1,2,4,4] mask:bool[8,4]=1,1,1,1,1,0,1,0,0,0,0,1,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0",
     "causal=false results=2"},
    {"q[2,2,2,4] k[2,2,3,4] v[2,2,3,4] mask:bool[2,1,1,3]=1,0,1,0,0,0", "causal=false"},
    {"q[1,2,4,4] k[1,2,4,4] v[1,2,4,4] mask:bool[4]=0,1,1,1", "causal=true"},
    {"q[1,1,2,2] k[1,1,2,2]=1,2,nan,nan v[1,1,2,2]=1,2,nan,inf mask:bool[2,2]=1,0,0,0", "causal=false"},
    /* what only some queries see: infinities and NaN reach these alone */
    {"q[1,1,3,2] k[1,1,3,2] v[1,1,3,2]=1,2,inf,3,nan,-inf", "causal=true"},
    {"q[1,1,3,2] k[1,1,3,2] v[1,1,3,2]=1,inf,inf,-inf,-inf,3", "causal=true"},
    {"q[1,1,3,2] k[1,1,3,2]=1,2,nan,1,2,inf v[1,1,3,2]=nan,1,1,2,3,4", "causal=true window_before=0"},
    {"q[1,1,2,2] k[1,1,3,2]=1,2,nan,2,1,1 v[1,1,3,2]=inf,2,nan,4,-inf,6 mask:bool[2,3]=1,0,0,1,0,1", "causal=false"},
    {"q[1,1,2,2] k[1,1,3,2] v[1,1,3,2]=inf,2,nan,4,-inf,6 mask[2,3]=-inf,-inf,0,0,-inf,1", "causal=false"},
    {"q[1,2,4,4] k[1,2,5,4] v[1,2,5,4] mask[4,5]", "causal=false"},
    {"q[2,3,4,4] k[2,3,5,4] v[2,3,5,4] mask[2,3,4,5]", "causal=true"},
    {"q[2,3,4,4] k[2,3,5,4] v[2,3,5,4] mask[3,1,5]", "causal=false"},
    {"q[2,3,4,4] k[2,3,5,4] v[2,3,5,4] mask[1,1,4,1]", "causal=false"},
    {"q[2,3,4,4] k[2,3,5,4] v[2,3,5,4] mask[]=0.5", "causal=false"},
    {"q[1,2,4,4] k[1,2,4,4] v[1,2,4,4] mask[4,4]=0,-inf,0,-inf,-inf,-inf,-inf,-inf,1,2,3,4,-inf,0,0,0",
     "causal=false results=2"},
    {"q[1,2,4,4] k[1,2,4,4] v[1,2,4,4] mask[4,4]=-3e38,-3e38,-3e38,-3e38,0,-3e38,0,-3e38,0,0,0,0,-inf,-3e38,-inf,-3e38",
     "causal=false"},
    {"q[1,2,3,4] k[1,2,3,4] v[1,2,3,4] mask[3,3]=-3.4e38", "causal=true"},
    {"q[2,2,4,4] k[2,2,5,4] v[2,2,5,4] mask^[2,2,4,5]", "causal=false"},
    {"q[2,2,4,4] k[2,2,5,4] v[2,2,5,4] mask:f16[4,5]", "causal=false"},
    {"q[2,2,4,4] k[2,2,5,4] v[2,2,5,4] mask[4,5] lengths:i32[2]=3,5", "causal=true align=last soft_cap=1"},
    /* caches */
    {"q[1,1,1,4] k[1,1,1,4] v[1,1,1,4]", "causal=true cache=131 past=$ $=0..130"},
    {"q[2,2,3,8] k[2,2,3,8] v[2,2,3,8]", "causal=true cache=16 past=0,7"},
    {"q[2,6,4,8] k[2,2,4,8] v[2,2,4,5]", "causal=true cache=16 past=12,5"},
    {"q[3,2,4,8] k[3,2,4,8] v[3,2,4,8] lengths:i32[3]=0,1,4", "causal=true cache=16 past=0,9,12"},
    {"q[2,2,4,8] k[2,2,4,8] v[2,2,4,8]", "causal=false cache=16 past=3,0"},
    {"q[2,2,4,8] k[2,2,4,8] v[2,2,4,8]", "causal=true window_before=2 cache=16 past=3,9"},
    {"q[2,2,4,8] k[2,2,4,8] v[2,2,4,8]", "causal=false window_before=3 window_after=1 cache=16 past=3,9"},
    {"q[2,2,3,8] k[2,2,3,8] v[2,2,3,8] mask:bool[1,1,3,8]=1,0,1,1,0", "causal=true cache=8 past=3,5"},
    {"q[2,2,3,8] k[2,2,3,8] v[2,2,3,8] mask[3,8]", "causal=true results=2 cache=8 past=3,0"},
    {"q[2,4,3/8,8] k[2,2,3/8,8] v[2,2,3/8,8]", "causal=true cache=16 past=0,7"},
    {"q[2/4,4,3/8,8] k[2/4,2,3/8,8] v[2/4,2,3/8,8] lengths:i32[2/4]=3,2", "causal=true cache=16 past=0,7"},
    {"q[2,2,0/8,8] k[2,2,0/8,8] v[2,2,0/8,8]", "causal=true cache=16 past=0,7"},
    {"q[2,4,3,16] k[2,2,3,16] v[2,2,3,16]", "causal=true cache=16:bf16 past=0,7"},
    {"q[1,2,1,$] k[1,1,1,$] v[1,1,1,$]", "causal=true cache=270:bf16 past=262 $=1,7,80,96"},
    {"q[2,4,3,16] k[2,2,3,16] v[2,2,3,16]", "causal=true cache=16:f16 past=2,7"},
    {"q[1,2,1,$] k[1,2,1,$] v[1,2,1,$]", "causal=true cache=70 past=60 $=24,64,100,200"}, // one query a key head
    {"q[1,2,1,$] k[1,2,1,$] v[1,2,1,$]", "causal=true cache=70:bf16 past=60 $=24,64,100,200"},
    {"q[1,2,1,$] k[1,2,1,$] v[1,2,1,$]", "causal=true cache=70:f16 past=60 $=24,64,100,200"},
    {"q[1,4,1,160] k[1,2,1,160] v[1,2,1,160]", "causal=true cache=70:bf16 past=60"},
    {"q[1,2,4,8] k[1,2,4,8] v[1,2,4,8]", "causal=true cache=4 past=0"},
    {"q^[2,4,3,8] k^[2,2,3,8] v^[2,2,3,8] out^", "causal=true cache=16 past=2,7"},
    /* layouts and types */
    {"q[1,4,62,32] k[1,4,62,32] v^[1,4,62,32]", "causal=false"}, // a transposed view of V
    {"q^[2,4,5,8] k[2,2,7,8] v[2,2,7,8] out^", "causal=true"},
    {"q[2,4,5,8] k^[2,2,7,8] v[2,2,7,8] out+", "causal=true"},
    {"q+[2,4,5,8] k+[2,2,7,8] v+[2,2,7,8] out+", "causal=false"},
    {"q:f16[2,4,5,8] k:f16[2,2,7,8] v:f16[2,2,7,8]", "causal=true"},
    {"q:bf16[2,4,5,8] k:bf16[2,2,7,8] v:bf16[2,2,7,8]", "causal=false"},
    /* products that may be made of bf16: widths of tiles, tiles that are not full */
    {"q[1,2,$,64] k[1,2,$,64] v[1,2,$,64]", "causal=true compute=bf16 $=1,33,65"},
    {"q[1,1,20,$] k[1,1,40,$] v[1,1,40,$]", "causal=true compute=bf16 $=7,32,72,96,128,160,192,256"},
    {"q:bf16[1,2,5,$] k:bf16[1,1,35,$] v:bf16[1,1,35,$]", "causal=true compute=bf16 $=8,64,80"},
    {"q:f16[1,2,5,$] k:f16[1,1,35,$] v:f16[1,1,35,$]", "causal=false compute=bf16 $=24,64,65,128,136,200"},
    {"q:f16[1,2,5,64] k:f16[1,1,35,64] v:f16[1,1,35,64] mask[5,35]=0,-1,-inf,2", "causal=false compute=bf16"},
    {"q[2,6,3/20,32] k[2,2,3/20,32] v[2,2,3/20,40]", "causal=true cache=90:bf16 past=70,7 compute=bf16"},
    {"q[2,2,9,32] k[2,2,9,32] v[2,2,9,32] lengths:i32[2]=3,9", "causal=true cache=70 past=0,50 compute=bf16"},
    {"q[1,2,20,16] k[1,2,70,16] v[1,2,70,16] mask:bool[20,70]=1,0,1,1,0,0,1", "causal=true soft_cap=2 compute=bf16"},
    {"q^[1,4,9,32] k^[1,2,70,32] v+[1,2,70,40] out^", "causal=true window_before=40 compute=bf16"},
    {NULL, NULL},
};

/* Keys that the mask hides count: a kernel that skips them does more than it must. */
static void attention_work(const ord_node *node, const ord_exec *exec, ord_work *out) {
  const attention a = attention_open(node, exec);
  const uint64_t width = (uint64_t)(a.q.dim[3] + a.value.dim[3]);
  for (int64_t n = 0; n < a.q.dim[0]; n++) {
    uint64_t pairs = 0;
    span read = {a.key.dim[2], -1};
    for (int64_t i = 0; i < a.q.dim[2]; i++) {
      const span seen = attention_span(&a, n, i);
      if (seen.last < seen.first) continue;
      pairs += (uint64_t)(seen.last - seen.first + 1);
      if (seen.first < read.first) read.first = seen.first;
      if (seen.last > read.last) read.last = seen.last;
    }
    out->operations += 2 * pairs * (uint64_t)a.q.dim[1] * width;
    if (!a.past.data || read.last < read.first) continue;
    const uint32_t cache = ord_node_find(node, "cache_k");
    out->state_bytes += (uint64_t)(read.last - read.first + 1) * (uint64_t)a.key.dim[1] * width *
                        node->operand[cache].block_bytes / node->operand[cache].block_elements;
  }
}

const ord_op ord_op_attention = {
    .name = "attention",
    .version = 1,
    .flags = ORD_OP_ATTENDS,
    .slot = attention_slots,
    .slot_count = sizeof attention_slots / sizeof *attention_slots,
    .attr = attention_attributes,
    .attr_count = sizeof attention_attributes / sizeof *attention_attributes,
    .result_min = 1,
    .result_max = 2,
    .about = "[b, h, s, e], and if a second `out` is given the probabilities [b, h, s, t]",
    .infer = attention_infer,
    .work = attention_work,
    .reference = &attention_reference,
    .cases = attention_cases,
};
