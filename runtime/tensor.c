/* SPDX-License-Identifier: MIT
 *
 * The table of element types, sizes with overflow checks, strided copies and number conversions.
 */
#include "runtime/tensor.h"

#include <string.h>

static const ord_dtype_info dtypes[] = {
    {ORD_F32, "f32", 1, 4},     {ORD_F16, "f16", 1, 2},     {ORD_BF16, "bf16", 1, 2}, {ORD_I8, "i8", 1, 1},
    {ORD_I32, "i32", 1, 4},     {ORD_I64, "i64", 1, 8},     {ORD_BOOL, "bool", 1, 1}, {ORD_Q8_0, "q8_0", 32, 34},
    {ORD_Q4_0, "q4_0", 32, 18}, {ORD_Q4_1, "q4_1", 32, 20},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes };

const ord_dtype_info *ord_dtype_get(ord_dtype dtype) {
  for (size_t i = 0; i < DTYPE_COUNT; i++)
    if (dtypes[i].dtype == dtype) return &dtypes[i];
  return NULL;
}

ord_dtype ord_dtype_find(const char *name) {
  for (size_t i = 0; i < DTYPE_COUNT; i++)
    if (strcmp(dtypes[i].name, name) == 0) return dtypes[i].dtype;
  return 0;
}

const char *ord_dtype_name(ord_dtype dtype) {
  const ord_dtype_info *info = ord_dtype_get(dtype);
  return info ? info->name : "?";
}

static const struct {
  const char *name;
  uint32_t type;
  double half_step;
  bool needs_gpu;
} computes[] = {
#define COMPUTE(name, type, half_step) {name, type, half_step, false},
#define COMPUTE_GPU(name, type, half_step) {name, type, half_step, true},
#include "ordito_compute.def"
};
enum { COMPUTE_COUNT = sizeof computes / sizeof *computes };

uint32_t ord_compute_find(const char *name) {
  for (size_t i = 0; i < COMPUTE_COUNT; i++)
    if (strcmp(computes[i].name, name) == 0) return computes[i].type;
  return 0;
}

/* COMPUTE_COUNT for a number that is none of them. */
static size_t find_compute(uint32_t compute) {
  size_t i = 0;
  while (i < COMPUTE_COUNT && computes[i].type != compute) i++;
  return i;
}

const char *ord_compute_name(uint32_t compute) {
  const size_t found = find_compute(compute);
  return found < COMPUTE_COUNT ? computes[found].name : "?";
}

bool ord_compute_is_served(uint32_t compute, bool is_gpu) {
  const size_t found = find_compute(compute);
  return found < COMPUTE_COUNT && (is_gpu || !computes[found].needs_gpu);
}

const char *const *ord_compute_names(bool is_gpu) {
  static const char *const of_gpu[] = {
#define COMPUTE(name, type, half_step) name,
#define COMPUTE_GPU COMPUTE
#include "ordito_compute.def"
      NULL};
  static const char *const of_cpu[] = {
#define COMPUTE(name, type, half_step) name,
#define COMPUTE_GPU(name, type, half_step)
#include "ordito_compute.def"
      NULL};
  return is_gpu ? of_gpu : of_cpu;
}

double ord_half_step(uint32_t type) {
  const size_t found = find_compute(type);
  return found < COMPUTE_COUNT ? computes[found].half_step : 0;
}

double ord_compute_half_step(uint32_t compute) { return compute == ORD_F32 ? 0 : ord_half_step(compute); }

bool ord_size_multiply(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }

bool ord_size_add(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }

bool ord_tensor_bytes(ord_dtype dtype, uint32_t rank, const int64_t *dim, size_t *out) {
  const ord_dtype_info *info = ord_dtype_get(dtype);
  if (!info) return false;
  const int64_t last = rank ? dim[rank - 1] : 1;
  if (last < 0 || last % info->block_elements) return false;
  size_t bytes;
  if (!ord_size_multiply((size_t)last / info->block_elements, info->block_bytes, &bytes)) return false;
  for (uint32_t axis = 0; axis + 1 < rank; axis++)
    if (dim[axis] < 0 || !ord_size_multiply(bytes, (size_t)dim[axis], &bytes)) return false;
  *out = bytes;
  return true;
}

void ord_tensor_strides(ord_dtype dtype, uint32_t rank, const int64_t *dim, int64_t *stride) {
  const ord_dtype_info *info = ord_dtype_get(dtype);
  int64_t bytes = info ? info->block_bytes : 0;
  for (uint32_t axis = rank; axis-- > 0;) {
    stride[axis] = bytes;
    const bool is_last = axis + 1 == rank;
    bytes *= is_last && info ? dim[axis] / info->block_elements : dim[axis];
  }
}

/* A walk over both sides of a strided copy; the dense side has strides of its own so that one walk serves both ways. */
typedef struct {
  uint32_t rank;
  const int64_t *dim, *from_stride, *into_stride;
  size_t element_bytes;
} strided_copy;

static void copy_axis(const strided_copy *copy, uint32_t axis, const char *from, char *into) {
  if (axis == copy->rank) {
    memcpy(into, from, copy->element_bytes);
    return;
  }
  const int64_t count = copy->dim[axis], from_step = copy->from_stride[axis], into_step = copy->into_stride[axis];
  const bool is_row = axis + 1 == copy->rank && from_step == (int64_t)copy->element_bytes && from_step == into_step;
  if (is_row && count > 0) {
    memcpy(into, from, (size_t)count * copy->element_bytes);
    return;
  }
  for (int64_t i = 0; i < count; i++) copy_axis(copy, axis + 1, from + i * from_step, into + i * into_step);
}

static void copy_strided(ord_dtype dtype, uint32_t rank, const int64_t *dim, const int64_t *from_stride,
                         const void *from, const int64_t *into_stride, void *into) {
  const ord_dtype_info *info = ord_dtype_get(dtype);
  const strided_copy copy = {rank, dim, from_stride, into_stride, info ? info->block_bytes : 0};
  copy_axis(&copy, 0, from, into);
}

void ord_tensor_pack(ord_dtype dtype, uint32_t rank, const int64_t *dim, const int64_t *stride, const void *from,
                     void *dense) {
  int64_t dense_stride[ORD_RANK_MAX];
  ord_tensor_strides(dtype, rank, dim, dense_stride);
  copy_strided(dtype, rank, dim, stride, from, dense_stride, dense);
}

void ord_tensor_unpack(ord_dtype dtype, uint32_t rank, const int64_t *dim, const int64_t *stride, const void *dense,
                       void *into) {
  int64_t dense_stride[ORD_RANK_MAX];
  ord_tensor_strides(dtype, rank, dim, dense_stride);
  copy_strided(dtype, rank, dim, dense_stride, dense, stride, into);
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float ord_f16_to_f32(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 0x1fu, fraction = half & 0x3ffu;
  if (exponent == 0x1f) return from_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = (float)fraction * 0x1p-24f; /* zero and subnormals: exact */
  return sign ? -magnitude : magnitude;
}

uint16_t ord_f16_from_f32(float value) {
  const uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and more round to infinity */
  if (magnitude < 0x38800000u) {
    /* Subnormal: adding 0.5 puts the unit 2^-24 at the last place of the sum, which the hardware rounds to even. */
    const float shifted = from_bits(magnitude) + 0.5f;
    return (uint16_t)(sign | (bits_of(shifted) - bits_of(0.5f)));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
}

float ord_bf16_to_f32(uint16_t bits) { return from_bits((uint32_t)bits << 16); }

uint16_t ord_bf16_from_f32(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u); /* NaN stays one, and quiet */
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static float read_f32(const void *from, size_t i) { return ((const float *)from)[i]; }
static float read_f16(const void *from, size_t i) { return ord_f16_to_f32(((const uint16_t *)from)[i]); }
static float read_bf16(const void *from, size_t i) { return ord_bf16_to_f32(((const uint16_t *)from)[i]); }
static void write_f32(void *to, size_t i, float value) { ((float *)to)[i] = value; }
static void write_f16(void *to, size_t i, float value) { ((uint16_t *)to)[i] = ord_f16_from_f32(value); }
static void write_bf16(void *to, size_t i, float value) { ((uint16_t *)to)[i] = ord_bf16_from_f32(value); }

static const struct {
  ord_dtype dtype;
  float (*read)(const void *from, size_t i);
  void (*write)(void *to, size_t i, float value);
} float_types[] = {{ORD_F32, read_f32, write_f32}, {ORD_F16, read_f16, write_f16}, {ORD_BF16, read_bf16, write_bf16}};
enum { FLOAT_TYPE_COUNT = sizeof float_types / sizeof *float_types };

static size_t find_float_type(ord_dtype dtype) {
  size_t i = 0;
  while (i < FLOAT_TYPE_COUNT && float_types[i].dtype != dtype) i++;
  return i;
}

bool ord_convert(ord_dtype from_type, const void *from, ord_dtype to_type, void *to, size_t count) {
  const size_t reader = find_float_type(from_type), writer = find_float_type(to_type);
  if (reader == FLOAT_TYPE_COUNT || writer == FLOAT_TYPE_COUNT) return false;
  if (from_type == to_type) {
    if (count) memmove(to, from, count * ord_dtype_get(to_type)->block_bytes);
    return true;
  }
  for (size_t i = 0; i < count; i++) float_types[writer].write(to, i, float_types[reader].read(from, i));
  return true;
}
