/* SPDX-License-Identifier: MIT
 *
 * What the CUDA attention plugins share; this folder is no plugin. Here: a node as device code gets it, by value, in
 * C11 and CUDA C++ alike. node.h fills it on the host, attention.cuh reads it on the device.
 */
#ifndef CUDA_ATTENTION_ATTENTION_H
#define CUDA_ATTENTION_ATTENTION_H

#include "ordito_plugin.h"

typedef struct attention_tensor {
  char *data;        /* device memory; NULL: absent */
  int64_t stride[4]; /* bytes; 0 along an axis that repeats or has one place */
  uint32_t dtype;    /* ORD_F32, .. */
  uint32_t operand;  /* of the node, for the host; ORD_NONE: absent */
  int32_t is_vector; /* rows are whole pieces of 16 bytes at multiples of 16 */
  int32_t reserved;
} attention_tensor;

typedef struct attention_size {
  const int64_t *extent; /* device memory: the size in a run; NULL: it is always `most` */
  int64_t most;          /* the plan's maximum */
  uint32_t operand;      /* that holds the extent, for the host; ORD_NONE: none */
  uint32_t reserved;
} attention_size;

typedef struct attention_arguments {
  attention_tensor q;             // [batch, heads, queries, width]
  attention_tensor k, v;          // [batch, key heads, given, width]: all keys, or those that the cache gets
  attention_tensor key, value;    // [batch, key heads, keys, width]: the same as k and v, or the caches
  attention_tensor mask;          // [batch, heads, queries, keys] by strides
  attention_tensor lengths, past; // [batch], in stride[3]
  attention_tensor out;           // [batch, heads, queries, value width]
  attention_tensor probabilities; // [batch, heads, queries, keys]
  attention_size batch, queries, keys, given;
  int64_t align, window_before, window_after; /* windows: -1 = no limit */
  int32_t heads, key_heads, width, value_width;
  int32_t is_causal;
  float scale, soft_cap; /* soft_cap: 0 = none */
  int32_t split_count;   /* blocks that share the keys of a head at most */
  int32_t is_exact;      /* products of weights and values as good as those of f32 */
  int32_t reserved;
  void *scratch, *persistent;
} attention_arguments;

#endif
