// SPDX-License-Identifier: MIT
//
// rope: turns pairs of numbers of each head by an angle that grows with the position. A thread makes the cosine and the
// sine of one pair of one token and turns that pair in ROPE_HEADS heads. Angles are double, since a float loses digits
// at large positions; what is left of one after whole turns is a float.
#include "rope.h"
#include "tensor.cuh"

// Of pair `pair` of token number `token` of row `row`.
INLINE void find_turn(const rope_arguments &a, int64_t row, int64_t token, int64_t pair, float *cosine, float *sine) {
  if (!a.positions.data) {
    const core_tensor &c = a.cosine, &s = a.sine;
    *cosine = read_number(c.data + row * c.stride[0] + token * c.stride[1] + pair * c.stride[2], c.type);
    *sine = read_number(s.data + row * s.stride[0] + token * s.stride[1] + pair * s.stride[2], s.type);
    return;
  }
  const char *at = a.positions.data + row * a.positions.stride[0] + token * a.positions.stride[1];
  double angle = *(const int32_t *)at * exp2((double)pair * a.exponent);
  if (a.factors.data) angle /= (double)read_number(a.factors.data + pair * a.factors.stride[0], a.factors.type);
  const double turn = 6.283185307179586;
  sincosf((float)(angle - rint(angle / turn) * turn), sine, cosine);
}

// Pair or, behind the pairs, single number `part` of one token in the heads from `first` on.
INLINE void turn_heads(const rope_arguments &a, int64_t row, int64_t token, int64_t part, int64_t first) {
  const int64_t heads = axis_size(a.in, 1);
  const bool is_pair = part < a.half;
  const int64_t x_at = !is_pair ? part + a.half : a.is_interleaved ? 2 * part : part;
  const int64_t y_at = !is_pair ? x_at : a.is_interleaved ? x_at + 1 : x_at + a.half;
  const char *from = a.in.data + row * a.in.stride[0] + token * a.in.stride[2];
  char *into = a.out.data + row * a.out.stride[0] + token * a.out.stride[2];
  float x[ROPE_HEADS], y[ROPE_HEADS], cosine = 1.0f, sine = 0.0f;
  UNROLL
  for (int i = 0; i < ROPE_HEADS; i++) {
    if (first + i >= heads) continue;
    x[i] = read_number(from + (first + i) * a.in.stride[1] + x_at * a.in.stride[3], a.in.type);
    y[i] = read_number(from + (first + i) * a.in.stride[1] + y_at * a.in.stride[3], a.in.type);
  }
  if (is_pair) find_turn(a, row, token, part, &cosine, &sine);
  UNROLL
  for (int i = 0; i < ROPE_HEADS; i++) {
    if (first + i >= heads) continue;
    char *head = into + (first + i) * a.out.stride[1];
    if (is_pair) {
      write_number(head + x_at * a.out.stride[3], a.out.type, fmaf(x[i], cosine, -(y[i] * sine)));
      write_number(head + y_at * a.out.stride[3], a.out.type, fmaf(y[i], cosine, x[i] * sine));
    } else {
      write_number(head + x_at * a.out.stride[3], a.out.type, x[i]);
    }
  }
}

template <typename Index> INLINE void turn_all(const rope_arguments &a) {
  const Index parts = (Index)(axis_size(a.in, 3) - a.half), tokens = (Index)axis_size(a.in, 2);
  const Index groups = (Index)((axis_size(a.in, 1) + ROPE_HEADS - 1) / ROPE_HEADS);
  const int64_t count = axis_size(a.in, 0) * tokens * groups * parts, step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index part = (Index)i % parts, above = (Index)i / parts; // above: [batch, groups, tokens]
    const Index token = above % tokens, group = above / tokens % groups, row = above / tokens / groups;
    turn_heads(a, row, token, part, (int64_t)group * ROPE_HEADS);
  }
}

extern "C" __global__ void rope_turn(const rope_arguments a) {
  ord_dependency_wait();
  if (a.is_small)
    turn_all<uint32_t>(a);
  else
    turn_all<uint64_t>(a);
}
ORD_EXPORT_KERNEL(rope_turn);
