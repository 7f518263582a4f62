// SPDX-License-Identifier: MIT
// f32 to bf16 or f16, to nearest even, for a library that multiplies these. A thread converts one group of eight
// numbers of a row and stores 16 bytes; behind the end of a row it stores zeros.
#include "ordito_device.h"

#include "cast.h"

// in: group `group` of row `row`
static __device__ __forceinline__ void read_group(const cast_arguments &p, int64_t row, int64_t group,
                                                  float (&value)[CAST_GROUP]) {
  const int64_t first = group * CAST_GROUP;
  const float *in = p.in + row * p.in_row_stride + first * p.in_number_stride;
  if (p.has_vectors && first + CAST_GROUP <= p.width) {
    const float4 low = *reinterpret_cast<const float4 *>(in), high = *reinterpret_cast<const float4 *>(in + 4);
    value[0] = low.x, value[1] = low.y, value[2] = low.z, value[3] = low.w;
    value[4] = high.x, value[5] = high.y, value[6] = high.z, value[7] = high.w;
    return;
  }
  for (int i = 0; i < CAST_GROUP; i++) value[i] = first + i < p.width ? in[i * p.in_number_stride] : 0.0f;
}

static __device__ __forceinline__ void write_group(const cast_arguments &p, int64_t row, int64_t group, uint4 bits) {
  *reinterpret_cast<uint4 *>(p.out + row * p.out_stride + group * CAST_GROUP) = bits;
}

// pack(low, high): two numbers in the type, as a word.
template <typename Pack> static __device__ __forceinline__ void cast(const cast_arguments &p, Pack pack) {
  const int64_t groups = p.out_stride / CAST_GROUP;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  float v[CAST_GROUP];
  ord_dependency_wait();
  if (at >= p.rows * groups) return;
  read_group(p, at / groups, at % groups, v);
  write_group(p, at / groups, at % groups,
              make_uint4(pack(v[0], v[1]), pack(v[2], v[3]), pack(v[4], v[5]), pack(v[6], v[7])));
}

// ---------------------------------------------------------------------------------------------------------------------

extern "C" __global__ void cast_bf16(const cast_arguments p) {
  cast(p, [](float low, float high) { return ord_pack_bf16(low, high); });
}
ORD_EXPORT_KERNEL(cast_bf16);

extern "C" __global__ void cast_f16(const cast_arguments p) {
  cast(p, [](float low, float high) { return ord_pack_f16(low, high); });
}
ORD_EXPORT_KERNEL(cast_f16);
