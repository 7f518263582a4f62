/* SPDX-License-Identifier: MIT
 *
 * The clock that times are taken with: nanoseconds, only ever forward.
 */
#ifndef ORDITO_RUNTIME_CLOCK_H
#define ORDITO_RUNTIME_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t ord_clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
