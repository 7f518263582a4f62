/* SPDX-License-Identifier: MIT
 *
 * Conformance: runs a kernel on a row of its op's cases and compares it with the reference. A row is text, so that an
 * op lists its cases in its own file and every kernel of every plugin is tested on them.
 *
 * Operands (ord_case.operands), separated by spaces:
 *
 *   NAME[MARKS][:DTYPE][DIMS][<LIMIT][=VALUES]      in[3,130]  weight*:bf16[7,130]  ids:i32[4]<7  lengths:i32[2]=0,5
 *   NAME=NUMBER                                     in=2.5     a plain number in a list slot (add, sub, mul)
 *   NAMEMARKS                                       out^       the layout of the results: the name is `out`
 *
 *   NAME   a slot; a list slot repeats its name; a slot that is not listed is absent
 *   MARKS  ^ stored with its axes in reverse order;  + stored with gaps behind each axis;  * a weight. Slots that take
 *          matrices, and those named weight, bias or .._weight, .._bias, are weights without the mark.
 *   DTYPE  default f32. An i8 weight gets its operand NAME_scale, f32 [first dim]. q8_0, q4_0, q4_1 for weights.
 *   DIMS   [2,3,4], [] is a scalar. A dim 3/8 is a run-time dim: 3 in this run, at most 8 in the plan (operand `dim` 8,
 *          an i64 SCALAR operand `extent` 3); the same text is the same run-time dim; 3/8*4 is four times that. In a
 *          weight's first dim 3|3|1 means three row segments. A matrix is [out, in].
 *   LIMIT  whole numbers from 0 to LIMIT - 1 (default for whole-number types: 4)
 *   VALUES numbers, also nan, inf and -inf, taken round and round; else random in (-1, 1), weights that are multiplied
 *          scaled to keep results near 1. Equal rows get equal values.
 *
 * Attributes (ord_case.attributes), separated by spaces: those of the op, `eps=1e-5 pairing=halves causal=true
 * shape=3,4 align=last sizes=1,2`, and
 *
 *   results=2            as many results are asked for; default: the op's least
 *   compute=bf16         ord_node.compute, a name of ordito_compute.def; default f32
 *   cache=16 past=3,0    (or cache=16:bf16) states cache_k [b, g, 16, d] and cache_v [b, g, 16, e] with random numbers,
 *                        shaped after operands k and v, and the scalar past, i32 [b], values round and round. An
 *                        attention kernel that does not answer ORD_APPENDS finds k and v appended already (by the
 *                        reference of cache_append, which gets the operands of the same names). What the run leaves
 *                        in the first past + new rows of the states is compared too.
 *   epilogue=add(residual[3,7])+gelu_tanh>+layernorm(w[7],b[7];eps=1e-5)
 *                        items in order with their operands; > : the value after this item is also an output
 *   $=1..130             or $=1,2,65: the row once for each number, which takes the place of every $ in it
 *
 * Tolerance. A number got is right if |got - wanted| <= (2^-23 * (16 + n) + 8 * p) * max(1, m) + 2 * r * |wanted|,
 * where n is the largest dim of an operand, the length of the longest sum (0 for pointwise ops); p half a step of the
 * type that products may be made in (ordito_compute.def; of f32 0); m the largest finite number that the reference has
 * on the way; r half a step of the result's type (f32 2^-24, f16 2^-11, bf16 2^-8). Infinities and whole numbers must
 * be equal; NaN must be where the reference has it.
 *
 * Besides: query must give the same answer twice and reasons with its refusals; the bytes around every buffer, in the
 * gaps of a layout, in scratch beyond its size, and all inputs must be left alone; every element of a result must be
 * written; a second launch with the chunks in another order must give the same bits, and the result on top of an
 * input of alias_mask the right ones; what prepare allocates, retire must release.
 */
#ifndef ORDITO_OPS_CASES_H
#define ORDITO_OPS_CASES_H

#include "ops/op.h"

typedef enum { ORD_CASE_PASSED, ORD_CASE_REFUSED, ORD_CASE_FAILED } ord_case_verdict;

typedef struct ord_case_result {
  ord_case_verdict verdict;
  uint32_t run_count, refused_count; /* of the numbers of a sweep ($); 1 and 0 or 1 without */
  double error;                      /* the largest difference, as a part of its tolerance */
  char variant[96];                  /* the kernel's, of the last run */
  char text[768];                    /* refused: the kernel's reason; failed: where, found and wanted; else "" */
} ord_case_result;

typedef struct ord_case_options {
  const ord_host *host;          /* NULL: one that allocates with malloc and offers nothing else */
  const ord_device_info *device; /* NULL: a CPU without extensions */
  struct ord_queue *queue;       /* of the device; `host` is that device's. NULL: the CPU's */
  uint64_t seed;                 /* other contents for the same rows */
} ord_case_options;

/* Runs `kernel` on one row. False only if the row itself is wrong (a mistake in the op's file, or its shape rule
 * refuses: the error holds its message) or memory runs out; what the kernel does wrong is in `out`. `options` may be
 * NULL. */
ORD_MUST_CHECK bool ord_case_run(const ord_op *op, const ord_case *row, const ord_kernel *kernel,
                                 const ord_case_options *options, ord_case_result *out, ord_error *err);

/* A result as numbers, row-major. */
typedef struct ord_case_values {
  ord_dtype dtype;
  uint32_t rank;
  int64_t dim[ORD_RANK_MAX]; /* in this run */
  int64_t count;
  const double *value;
} ord_case_values;

/* What the reference makes of a row without $: result number `which` (results, then those of the epilogue, then the
 * states). The values live in `arena`. For tests of the references and of the shape rules: a fault that the rule tells
 * is the error's text. */
ORD_MUST_CHECK bool ord_case_compute(const ord_op *op, const ord_case *row, uint32_t which, ord_arena *arena,
                                     ord_case_values *out, ord_error *err);

#endif
