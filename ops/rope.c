/* SPDX-License-Identifier: MIT
 *
 * rope: rotary positions. The first r numbers of each head are taken in pairs and each pair is turned by an angle;
 * pair i turns by position * theta^(-2i/r) / factors[i], or by the cosine and sine that are given. Which numbers make
 * a pair, i and i + r/2 (halves) or 2i and 2i + 1 (interleaved), follows from the weights and is never guessed.
 */
#include "ops/op_check.h"
#include "ops/reference.h"

/* ---- the reference --------------------------------------------------------------------------------------------- */

typedef struct {
  ord_reference_tensor in, positions, cosine, sine, factors, out;
  int64_t rotary;
  double theta;
  bool is_interleaved;
} rotation;

/* Turns pair `i` of the head at[0 .. 2]. */
static void rope_turn(const rotation *rope, const int64_t *at, int64_t i) {
  double cosine, sine;
  if (rope->positions.data) {
    double angle = ord_reference_read(&rope->positions, (int64_t[]){at[0], at[2]}) *
                   pow(rope->theta, -2.0 * (double)i / (double)rope->rotary);
    if (rope->factors.data) angle /= ord_reference_read(&rope->factors, &i);
    cosine = cos(angle), sine = sin(angle);
  } else {
    cosine = ord_reference_read(&rope->cosine, (int64_t[]){at[0], at[2], i});
    sine = ord_reference_read(&rope->sine, (int64_t[]){at[0], at[2], i});
  }
  const int64_t first = rope->is_interleaved ? 2 * i : i,
                second = first + (rope->is_interleaved ? 1 : rope->rotary / 2);
  const int64_t a[] = {at[0], at[1], at[2], first}, b[] = {at[0], at[1], at[2], second};
  const double x = ord_reference_read(&rope->in, a), y = ord_reference_read(&rope->in, b);
  ord_reference_write(&rope->out, a, x * cosine - y * sine);
  ord_reference_write(&rope->out, b, y * cosine + x * sine);
}

static ord_status rope_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const rotation rope = {
      .in = ord_reference_slot(node, exec, "in"),               // [batch, heads, tokens, width]
      .positions = ord_reference_slot(node, exec, "positions"), // [batch, tokens]
      .cosine = ord_reference_slot(node, exec, "cos"),          // [batch, tokens, rotary / 2]
      .sine = ord_reference_slot(node, exec, "sin"),            // [batch, tokens, rotary / 2]
      .factors = ord_reference_slot(node, exec, "factors"),     // [rotary / 2]
      .out = ord_reference_output(node, exec, 0),               // as in
      .rotary = ord_reference_int(node, "rotary", 0),
      .theta = ord_reference_float(node, "theta", 1),
      .is_interleaved = ord_reference_is(node, "pairing", "interleaved"),
  };
  const int64_t width = rope.in.dim[3], count = ord_reference_count(&rope.in);
  for (int64_t number = 0; number < count; number += width) {
    int64_t at[ORD_RANK_MAX] = {0};
    ord_reference_index(&rope.in, number, at);
    for (int64_t i = 0; i < rope.rotary / 2; i++) rope_turn(&rope, at, i);
    for (at[3] = rope.rotary; at[3] < width; at[3]++) ord_reference_move(&rope.in, at, &rope.out, at);
  }
  return ORD_OK;
}

static const ord_kernel rope_reference = {
    .struct_size = sizeof rope_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "rope_reference",
    .op = "rope",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = rope_launch,
    .retire = ord_reference_retire,
};

/* ---- the shape rule -------------------------------------------------------------------------------------------- */

/* Sets rotary where the file leaves it out; *half receives r/2. */
static bool resolve_rotary(ord_infer *infer, const ord_infer_operand *in, int64_t *half) {
  int64_t width;
  if (!ord_infer_check_fixed(infer, (ord_axis){in, 3, "width"}, &width)) return false;
  const ord_attr *rotary = ord_infer_attr(infer, "rotary");
  const int64_t turned = rotary ? rotary->value.i : width;
  *half = turned / 2;
  if (turned >= 2 && turned <= width && turned % 2 == 0) return rotary || ord_infer_set_int(infer, "rotary", turned);
  if (rotary)
    return ord_infer_fail(infer, "rotary", 0, "rotary: found %lld; wanted an even number from 2 to the head width %lld",
                          (long long)turned, (long long)width);
  return ord_infer_fail(infer, "in", 0, "%s has width = %lld; wanted an even width, or rotary: an even number below it",
                        ord_infer_operand_text(infer, in), (long long)width);
}

/* `operand` ends in r/2. */
static bool check_half(ord_infer *infer, const ord_infer_operand *operand, int64_t half) {
  int64_t size;
  if (!operand) return true;
  const ord_size last = operand->dim[operand->rank - 1];
  if (ord_size_is_constant(last, &size) && size == half) return true;
  return ord_infer_fail(infer, infer->op->slot[operand->slot].name, 0, "%s ends in %s; wanted %lld, half of rotary",
                        ord_infer_operand_text(infer, operand), ord_infer_size_text(infer, last), (long long)half);
}

/* `operand` is [batch, tokens, ..]. */
static bool check_tokens(ord_infer *infer, const ord_infer_operand *in, const ord_infer_operand *operand) {
  return ord_infer_check_equal(infer, (ord_axis){in, 0, "batch"}, (ord_axis){operand, 0, "batch"}) &&
         ord_infer_check_equal(infer, (ord_axis){in, 2, "tokens"}, (ord_axis){operand, 1, "tokens"});
}

static bool check_positions(ord_infer *infer, const ord_infer_operand *in, const ord_infer_operand *positions) {
  const ord_attr *theta = ord_infer_attr(infer, "theta");
  if (!theta) return ord_infer_fail(infer, NULL, 0, "positions without theta; found nothing; wanted theta: a number");
  if (!(theta->value.f > 0))
    return ord_infer_fail(infer, "theta", 0, "theta: found %g; wanted a number above 0", theta->value.f);
  return ord_infer_check_dtype(infer, positions, ORD_I32) &&
         ord_infer_check_rank(infer, positions, 2, "[batch, tokens]") && check_tokens(infer, in, positions);
}

static bool check_given(ord_infer *infer, const ord_infer_operand *in, int64_t half) {
  static const char *const name[] = {"cos", "sin"};
  if (ord_infer_attr(infer, "theta"))
    return ord_infer_fail(infer, "theta", 0, "theta with cos and sin has no effect; wanted one of the two");
  if (ord_infer_slot(infer, "factors"))
    return ord_infer_fail(infer, "factors", 0, "factors with cos and sin has no effect; wanted one of the two");
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    const ord_infer_operand *given = ord_infer_slot(infer, name[i]);
    if (!given) return ord_infer_fail(infer, NULL, 0, "lacks %s; wanted both cos and sin", name[i]);
    if (!ord_infer_check_float(infer, given)) return false;
    if (!ord_infer_check_rank(infer, given, 3, "[batch, tokens, rotary / 2]")) return false;
    if (!check_tokens(infer, in, given) || !check_half(infer, given, half)) return false;
  }
  return true;
}

static bool rope_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in"), *positions = ord_infer_slot(infer, "positions");
  const ord_infer_operand *factors = ord_infer_slot(infer, "factors");
  const bool has_given = ord_infer_slot(infer, "cos") || ord_infer_slot(infer, "sin");
  int64_t half;
  if (!ord_infer_check_float(infer, in)) return false;
  if (!ord_infer_check_rank(infer, in, 4, "[batch, heads, tokens, width]")) return false;
  if ((positions != NULL) == has_given)
    return ord_infer_fail(infer, has_given ? "positions" : NULL, 0, "found %s; wanted either positions or cos and sin",
                          has_given ? "both" : "neither");
  if (!resolve_rotary(infer, in, &half)) return false;
  if (positions ? !check_positions(infer, in, positions) : !check_given(infer, in, half)) return false;
  if (!ord_infer_check_float(infer, factors) || !ord_infer_check_rank(infer, factors, 1, "[rotary / 2]")) return false;
  if (!check_half(infer, factors, half)) return false;
  ord_infer_set_result(infer, 0, in->dtype, in->rank, in->dim);
  return true;
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static const ord_slot rope_slots[] = {
    {"in", 0, 0, "[b, h, s, d]"},
    {"positions", ORD_SLOT_OPTIONAL, 0, "i32 [b, s]"},
    {"cos", ORD_SLOT_OPTIONAL, 0, "[b, s, r/2]"},
    {"sin", ORD_SLOT_OPTIONAL, 0, "[b, s, r/2]"},
    {"factors", ORD_SLOT_OPTIONAL, 0, "[r/2] divides the frequencies"},
};

static const char *const pairing_words[] = {"halves", "interleaved", NULL};

static const ord_attr_rule rope_attributes[] = {
    {.name = "pairing",
     .kind = ORD_RULE_WORD,
     .required = true,
     .word = pairing_words,
     .wanted = "halves or interleaved; it has no default because a wrong one is not seen"},
    {.name = "theta", .kind = ORD_RULE_NUMBER, .default_text = "needed with positions"},
    {.name = "rotary", .kind = ORD_RULE_INT, .default_text = "d"},
};

static const ord_case rope_cases[] = {
    {"in[1,2,3,8] positions:i32[1,3]=0,1,2", "pairing=halves theta=10000"},
    {"in[1,2,3,8] positions:i32[1,3]=0,1,2", "pairing=interleaved theta=10000"},
    {"in[2,3,$,4] positions:i32[2,$]<1000", "pairing=halves theta=10000 $=1..130"},
    {"in[2,3,$,4] positions:i32[2,$]<1000", "pairing=interleaved theta=10000 $=1..33"},
    {"in[1,1,2,$] positions:i32[1,2]<50", "pairing=halves theta=100 $=2,4,6,16,18,32,64,72,80,96,128,256"},
    {"in[1,1,2,$] positions:i32[1,2]<50", "pairing=interleaved theta=100 $=2,4,6,16,18,32,64,72,80,96,128,256"},
    {"in[1,9,5,64] positions:i32[1,5]<2048", "pairing=halves theta=100000"},
    {"in[2,3,5,64] positions:i32[2,5]<100", "pairing=halves theta=10000 rotary=16"},
    {"in[2,3,5,64] positions:i32[2,5]<100", "pairing=interleaved theta=10000 rotary=62"},
    {"in[2,3,5,9] positions:i32[2,5]<100", "pairing=halves theta=10000 rotary=8"},
    {"in[2,3,5,8] positions:i32[2,5]<100 factors[4]=1,2,4,8", "pairing=halves theta=10000"},
    {"in[2,3,5,12] positions:i32[2,5]<100 factors*[4]=1,2,4,8", "pairing=interleaved theta=10000 rotary=8"},
    {"in[2,3,5,8] cos[2,5,4] sin[2,5,4]", "pairing=halves"},
    {"in[2,3,5,8] cos[2,5,4] sin[2,5,4]", "pairing=interleaved"},
    {"in[2,3,5,10] cos[2,5,3] sin[2,5,3]", "pairing=halves rotary=6"},
    {"in[2,3,5,10] cos^[2,5,3] sin+[2,5,3]", "pairing=interleaved rotary=6"},
    {"in[2,3,4/16,8] positions:i32[2,4/16]<100", "pairing=halves theta=10000"},
    {"in[2,3,4/16,8] cos[2,4/16,4] sin[2,4/16,4]", "pairing=halves"},
    {"in[2/3,3,0/16,8] positions:i32[2/3,0/16]", "pairing=halves theta=10000"},
    {"in^[2,3,4,8] positions:i32[2,4]<100", "pairing=halves theta=10000"},
    {"in+[2,3,4,8] positions+:i32[2,4]<100 out^", "pairing=interleaved theta=10000"},
    {"in:f16[2,3,4,8] positions:i32[2,4]<100", "pairing=halves theta=10000"},
    {NULL, NULL},
};

const ord_op ord_op_rope = {
    .name = "rope",
    .version = 1,
    .slot = rope_slots,
    .slot_count = sizeof rope_slots / sizeof *rope_slots,
    .attr = rope_attributes,
    .attr_count = sizeof rope_attributes / sizeof *rope_attributes,
    .result_min = 1,
    .result_max = 1,
    .about = "as in; the first r of d are turned; either positions with theta, or cos and sin",
    .infer = rope_infer,
    .reference = &rope_reference,
    .cases = rope_cases,
};
