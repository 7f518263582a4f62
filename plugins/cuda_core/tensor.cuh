// SPDX-License-Identifier: MIT
//
// Device side of tensor.h: sizes in a run, where a number lies, numbers of every storage type.
#ifndef CORE_TENSOR_CUH
#define CORE_TENSOR_CUH

#include "ordito_device.h"

#include "ordito_plugin.h"
#include "tensor.h"

#define INLINE static __device__ __forceinline__

// Before a loop whose arrays shall be registers.
#ifdef __CUDACC__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif

// ---- sizes and places ----

INLINE int64_t axis_size(const core_tensor &tensor, int axis) {
  return tensor.extent[axis] ? *tensor.extent[axis] * tensor.dim[axis] : tensor.dim[axis];
}

// Numbers of the first `axes` axes.
INLINE int64_t count_of(const core_tensor &tensor, int axes) {
  int64_t count = 1;
  UNROLL
  for (int axis = 0; axis < CORE_RANK_MAX; axis++)
    if (axis < axes) count *= axis_size(tensor, axis);
  return count;
}

// Byte offsets of number `number`, counted row-major over the first `axes` axes of like's sizes; Index is uint32_t
// where every count fits, since long divisions are slow.
template <typename Index, typename... Tensors>
INLINE void find_offsets(const core_tensor &like, int axes, int64_t number, int64_t *offset, const Tensors &...tensor) {
  int64_t sum[sizeof...(tensor)] = {};
  Index rest = (Index)number;
  UNROLL
  for (int axis = CORE_RANK_MAX - 1; axis >= 0; axis--) {
    if (axis >= axes) continue;
    const Index size = (Index)axis_size(like, axis), outer = axis > 0 ? rest / size : 0;
    const int64_t at = (int64_t)(rest - outer * size);
    int which = 0;
    ((sum[which++] += at * tensor.stride[axis]), ...);
    rest = outer;
  }
  UNROLL
  for (int i = 0; i < (int)sizeof...(tensor); i++) offset[i] = sum[i];
}

// ---- numbers ----

INLINE float read_number(const char *at, uint32_t type) {
  switch (type) {
  case ORD_F32:
    return *(const float *)at;
  case ORD_F16:
    return __half2float(*(const __half *)at);
  case ORD_BF16:
    return __bfloat162float(*(const __nv_bfloat16 *)at);
  default:
    return (float)*(const int8_t *)at; // without its scale
  }
}

INLINE void write_number(char *at, uint32_t type, float value) {
  switch (type) {
  case ORD_F32:
    *(float *)at = value;
    break;
  case ORD_F16:
    *(__half *)at = __float2half_rn(value);
    break;
  default:
    *(__nv_bfloat16 *)at = __float2bfloat16_rn(value);
  }
}

// COUNT numbers that follow one another, aligned to all of them.
template <int COUNT> INLINE void read_numbers(const char *at, uint32_t type, float (&number)[COUNT]) {
  static_assert(COUNT == 1 || COUNT == 4, "one number or a vector");
  if constexpr (COUNT == 1) {
    number[0] = read_number(at, type);
  } else if (type == ORD_F32) {
    const float4 four = *(const float4 *)at;
    number[0] = four.x, number[1] = four.y, number[2] = four.z, number[3] = four.w;
  } else if (type == ORD_I8) {
    const char4 four = *(const char4 *)at;
    number[0] = four.x, number[1] = four.y, number[2] = four.z, number[3] = four.w;
  } else {
    const uint2 bits = *(const uint2 *)at;
    const float2 low = type == ORD_F16 ? ord_unpack_f16(bits.x) : ord_unpack_bf16(bits.x);
    const float2 high = type == ORD_F16 ? ord_unpack_f16(bits.y) : ord_unpack_bf16(bits.y);
    number[0] = low.x, number[1] = low.y, number[2] = high.x, number[3] = high.y;
  }
}

template <int COUNT> INLINE void write_numbers(char *at, uint32_t type, const float (&number)[COUNT]) {
  static_assert(COUNT == 1 || COUNT == 4, "one number or a vector");
  if constexpr (COUNT == 1) {
    write_number(at, type, number[0]);
  } else if (type == ORD_F32) {
    *(float4 *)at = make_float4(number[0], number[1], number[2], number[3]);
  } else if (type == ORD_F16) {
    *(uint2 *)at = make_uint2(ord_pack_f16(number[0], number[1]), ord_pack_f16(number[2], number[3]));
  } else {
    *(uint2 *)at = make_uint2(ord_pack_bf16(number[0], number[1]), ord_pack_bf16(number[2], number[3]));
  }
}

#endif
