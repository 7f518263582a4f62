// SPDX-License-Identifier: MIT
//
// Device side of attention.h: numbers of every type, where rows lie, which keys a query sees.
#ifndef CUDA_ATTENTION_ATTENTION_CUH
#define CUDA_ATTENTION_ATTENTION_CUH

#include "ordito_device.h"

#include "cuda_attention/attention.h"

#define INLINE static __device__ __forceinline__

// ---- numbers ----

INLINE float read_number(const char *at, uint32_t dtype) {
  switch (dtype) {
  case ORD_F32:
    return *(const float *)at;
  case ORD_F16:
    return __half2float(*(const __half *)at);
  default:
    return __bfloat162float(*(const __nv_bfloat16 *)at);
  }
}

INLINE void write_number(char *at, uint32_t dtype, float value) {
  switch (dtype) {
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

// ---- places ----

INLINE int64_t size_of(const attention_size &size) { return size.extent ? *size.extent : size.most; }

INLINE char *row_of(const attention_tensor &tensor, int64_t n, int64_t head, int64_t token) {
  return tensor.data + n * tensor.stride[0] + head * tensor.stride[1] + token * tensor.stride[2];
}

INLINE int key_head_of(const attention_arguments &a, int head) { return head / (a.heads / a.key_heads); }

// Number n of an i32 [batch].
INLINE int64_t number_of(const attention_tensor &tensor, int64_t n, int64_t otherwise) {
  return tensor.data ? *(const int32_t *)(tensor.data + n * tensor.stride[3]) : otherwise;
}

// ---- which keys a query sees ----

INLINE int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

// A sum of positions; so far away that no key lies there where it does not fit.
INLINE int64_t plus(int64_t a, int64_t b) {
  const int64_t sum = (int64_t)((uint64_t)a + (uint64_t)b);
  if (b > 0 ? sum >= a : sum <= a) return sum;
  return a < 0 ? INT64_MIN : INT64_MAX;
}

// What holds for all queries of row n of the batch. New keys of a cache lie at [past, past + fresh), those of them that
// are in the cache at all.
struct batch_row {
  int64_t past, start; // start: the key at which query 0 stands
  int fresh, valid;    // keys
};

INLINE batch_row open_batch_row(const attention_arguments &a, int64_t n) {
  const int64_t given = size_of(a.given), keys = size_of(a.keys);
  batch_row row;
  row.past = number_of(a.past, n, 0);
  row.fresh = (int)clamp(number_of(a.lengths, n, given), 0, given);
  row.valid = (int)clamp(row.past + row.fresh, 0, keys);
  row.start = a.past.data ? row.past : a.align == ORD_LAST ? row.valid - size_of(a.queries) : a.align;
  return row;
}

// Keys [first, end).
struct key_span {
  int first, end;
};

// What lengths, causal and windows let query `i` see; the mask may hide more. Spans of later queries begin and end no
// earlier.
INLINE key_span find_span(const attention_arguments &a, const batch_row &row, int64_t i) {
  const int64_t after = plus(plus(i, row.start), 1); // what a causal query does not see
  key_span seen = {0, row.valid};
  if (a.window_before >= 0) seen.first = (int)clamp(plus(i, plus(row.start, -a.window_before)), 0, row.valid);
  if (a.window_after >= 0) seen.end = (int)clamp(plus(after, a.window_after), 0, seen.end);
  if (a.is_causal) seen.end = (int)clamp(after, 0, seen.end);
  if (seen.end < seen.first) seen.end = seen.first;
  return seen;
}

// ---- scores ----

// What the mask adds to a score; -infinity hides the key. `mask` is the query's row of a mask that is there.
INLINE float mask_at(const attention_arguments &a, const char *mask, int64_t key) {
  const char *at = mask + key * a.mask.stride[3];
  if (a.mask.dtype == ORD_BOOL) return *at ? 0 : -INFINITY;
  return read_number(at, a.mask.dtype);
}

INLINE float score_of(const attention_arguments &a, float product) {
  const float score = product * a.scale;
  return a.soft_cap > 0 ? a.soft_cap * tanhf(score / a.soft_cap) : score;
}

#endif
