// SPDX-License-Identifier: MIT
//
// Ops that compute each number of the result from the numbers at the same place. A thread takes several numbers, or
// several vectors of four, and reads them all before it computes, so that their loads are under way together.
#include "elementwise.h"
#include "function.cuh"

// Long divisions take longer than a load.
template <typename Index> constexpr int steps_of = sizeof(Index) > 4 ? 1 : ELEMENTWISE_IN_FLIGHT;

INLINE void repeat(float number, float *value) { *value = number; }
INLINE void repeat(float number, float4 *value) { *value = make_float4(number, number, number, number); }

INLINE void read_value(const core_tensor &tensor, int64_t offset, float *value) {
  *value = read_number(tensor.data + offset, tensor.type);
}
// Without a stride along the last axis one number stands for all.
INLINE void read_value(const core_tensor &tensor, int64_t offset, float4 *value) {
  if (tensor.stride[tensor.rank - 1] != 0) {
    *value = *(const float4 *)(tensor.data + offset);
  } else {
    const float number = *(const float *)(tensor.data + offset);
    repeat(number, value);
  }
}

INLINE void write_value(const core_tensor &tensor, int64_t offset, float value) {
  write_number(tensor.data + offset, tensor.type, value);
}
INLINE void write_value(const core_tensor &tensor, int64_t offset, float4 value) {
  *(float4 *)(tensor.data + offset) = value;
}

// ---- one input -----------------------------------------------------------------------------------------------------

template <float (*apply)(float)> INLINE float apply_to(float x) { return apply(x); }
template <float (*apply)(float)> INLINE float4 apply_to(float4 x) {
  return make_float4(apply(x.x), apply(x.y), apply(x.z), apply(x.w));
}

template <typename Value, typename Index, float (*apply)(float)> INLINE void pointwise(const pointwise_arguments &a) {
  constexpr int STEPS = steps_of<Index>;
  const int64_t count = count_of(a.out, a.out.rank), step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; first < count; first += STEPS * step) {
    int64_t offset[STEPS][2];
    Value value[STEPS];
    UNROLL
    for (int i = 0; i < STEPS; i++) {
      if (first + i * step >= count) continue;
      find_offsets<Index>(a.out, a.out.rank, first + i * step, offset[i], a.out, a.in);
      read_value(a.in, offset[i][1], &value[i]);
    }
    UNROLL
    for (int i = 0; i < STEPS; i++)
      if (first + i * step < count) write_value(a.out, offset[i][0], apply_to<apply>(value[i]));
  }
}

template <float (*apply)(float)> INLINE void pointwise_of(const pointwise_arguments &a) {
  ord_dependency_wait();
  if (a.is_vector)
    pointwise<float4, uint32_t, apply>(a);
  else if (a.is_small)
    pointwise<float, uint32_t, apply>(a);
  else
    pointwise<float, uint64_t, apply>(a);
}

#define POINTWISE(op, function)                                                                                        \
  extern "C" __global__ void pointwise_##op(const pointwise_arguments a) { pointwise_of<function>(a); }                \
  ORD_EXPORT_KERNEL(pointwise_##op);
#include "kernels.def"

// ---- two inputs, broadcast -----------------------------------------------------------------------------------------

INLINE float sum(float x, float y) { return x + y; }
INLINE float difference(float x, float y) { return x - y; }
INLINE float product(float x, float y) { return x * y; }

template <float (*apply)(float, float)> INLINE float apply_to(float x, float y) { return apply(x, y); }
template <float (*apply)(float, float)> INLINE float4 apply_to(float4 x, float4 y) {
  return make_float4(apply(x.x, y.x), apply(x.y, y.y), apply(x.z, y.z), apply(x.w, y.w));
}

template <typename Value, typename Index, float (*apply)(float, float)> INLINE void binary(const binary_arguments &a) {
  constexpr int STEPS = steps_of<Index>;
  const int64_t count = count_of(a.out, a.out.rank), step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; first < count; first += STEPS * step) {
    int64_t offset[STEPS][3];
    Value value[STEPS][2];
    UNROLL
    for (int i = 0; i < STEPS; i++) {
      if (first + i * step >= count) continue;
      find_offsets<Index>(a.out, a.out.rank, first + i * step, offset[i], a.out, a.in[0], a.in[1]);
      UNROLL
      for (int side = 0; side < 2; side++) {
        if (a.in[side].data)
          read_value(a.in[side], offset[i][1 + side], &value[i][side]);
        else
          repeat(a.number, &value[i][side]);
      }
    }
    UNROLL
    for (int i = 0; i < STEPS; i++)
      if (first + i * step < count) write_value(a.out, offset[i][0], apply_to<apply>(value[i][0], value[i][1]));
  }
}

template <float (*apply)(float, float)> INLINE void binary_of(const binary_arguments &a) {
  ord_dependency_wait();
  if (a.is_vector)
    binary<float4, uint32_t, apply>(a);
  else if (a.is_small)
    binary<float, uint32_t, apply>(a);
  else
    binary<float, uint64_t, apply>(a);
}

#define BINARY(op, function)                                                                                           \
  extern "C" __global__ void binary_##op(const binary_arguments a) { binary_of<function>(a); }                         \
  ORD_EXPORT_KERNEL(binary_##op);
#include "kernels.def"
