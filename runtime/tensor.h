/* SPDX-License-Identifier: MIT
 *
 * Element types and dense or strided tensors, and the one place where sizes are multiplied with overflow checks.
 * Element types are the ABI's (ORD_F32, ..). Strides count bytes.
 */
#ifndef ORDITO_RUNTIME_TENSOR_H
#define ORDITO_RUNTIME_TENSOR_H

#include <stddef.h>

#include "runtime/error.h"

typedef uint16_t ord_dtype;

typedef struct ord_dtype_info {
  ord_dtype dtype;
  const char *name;                     /* "f32" */
  uint16_t block_elements, block_bytes; /* 1 and the element's bytes for plain types */
} ord_dtype_info;

/* NULL for a number that is no type. */
const ord_dtype_info *ord_dtype_get(ord_dtype dtype);
/* 0 for a name that is no type. */
ord_dtype ord_dtype_find(const char *name);
/* "f32"; "?" for a number that is no type. */
const char *ord_dtype_name(ord_dtype dtype);

/* The same for what products are made in, the list of ordito_compute.def. */
uint32_t ord_compute_find(const char *name);
const char *ord_compute_name(uint32_t compute);
/* The names of those that a GPU has, or a CPU, ended by NULL; and whether a type is one of them. */
const char *const *ord_compute_names(bool is_gpu);
bool ord_compute_is_served(uint32_t compute, bool is_gpu);

/* Half a step of a type, as a part of the number: by how much storing in it may be off. 0: it is exact. */
double ord_half_step(uint32_t type);
/* The same of products that are made in this type; those of f32 are what others are measured by. */
double ord_compute_half_step(uint32_t compute);

/* False on overflow; *out is then undefined. */
ORD_MUST_CHECK bool ord_size_multiply(size_t a, size_t b, size_t *out);
ORD_MUST_CHECK bool ord_size_add(size_t a, size_t b, size_t *out);

/* Bytes of a dense tensor: the last dim must be a whole number of blocks. False on overflow, negative dims or a rest.
 */
ORD_MUST_CHECK bool ord_tensor_bytes(ord_dtype dtype, uint32_t rank, const int64_t *dim, size_t *out);

/* Row-major strides in bytes of a dense tensor (of a block type: bytes per block along the last dim). */
void ord_tensor_strides(ord_dtype dtype, uint32_t rank, const int64_t *dim, int64_t *stride);

/* Copies a strided tensor into dense memory, or dense into strided. Both hold the same plain dtype and dims. */
void ord_tensor_pack(ord_dtype dtype, uint32_t rank, const int64_t *dim, const int64_t *stride, const void *from,
                     void *dense);
void ord_tensor_unpack(ord_dtype dtype, uint32_t rank, const int64_t *dim, const int64_t *stride, const void *dense,
                       void *into);

/* Number conversions; to f16 and bf16 round to nearest even. NaN stays NaN. */
float ord_f16_to_f32(uint16_t half);
uint16_t ord_f16_from_f32(float value);
float ord_bf16_to_f32(uint16_t bits);
uint16_t ord_bf16_from_f32(float value);

/* Converts `count` elements between f32, f16 and bf16. False if either type is another. */
ORD_MUST_CHECK bool ord_convert(ord_dtype from_type, const void *from, ord_dtype to_type, void *to, size_t count);

#endif
