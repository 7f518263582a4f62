/* SPDX-License-Identifier: MIT
 *
 * What the host and the kernels of cuda_loop.cu say to each other. Plain data for C and CUDA C++.
 */
#ifndef ORDITO_RUNTIME_CUDA_LOOP_H
#define ORDITO_RUNTIME_CUDA_LOOP_H

#include <stdint.h>

enum { LOOP_STOP_MAX = 16 };

/* Of a request; in device memory. The host writes it before the loop starts, then only the device does. */
typedef struct loop_request {
  uint32_t goes_on; /* 1; 0 once the loop has ended */
  uint32_t made, limit;
  uint32_t stop_count;
  int32_t stop[LOOP_STOP_MAX];
} loop_request;

/* A slot of the ring is one word, so that it is written whole: the token in the upper half; the lower half is its
 * number, from 1, times four, plus one of these. The host clears the ring before a request. */
enum { SLOT_GOES_ON, SLOT_STOPPED, SLOT_LIMIT, SLOT_CANCELLED };

/* The argument of `advance`: addresses. */
typedef struct loop_places {
  const int32_t *sampled;
  int32_t *token, *past, *position; /* position NULL: none */
  int64_t *counter;
  loop_request *request;
  /* Mapped memory of the host, each word on a cache line of its own. The queue's cancel word is one. */
  uint64_t *ring;         /* [capacity] */
  uint32_t *done;         /* how the loop ended, SLOT_*; 0 before */
  const uint32_t *cancel; /* not 0: end at the next token; NULL: the loop does not look */
} loop_places;

#endif
