/* SPDX-License-Identifier: MIT
 *
 * The instructions of the probes: functions for each instruction set, chosen by the CPU's features.
 */
#ifndef ORDITO_RUNTIME_PROBE_CODE_H
#define ORDITO_RUNTIME_PROBE_CODE_H

#include "runtime/probe.h"

/* What is read of a stream before it is the next one's turn. */
enum { ORD_READ_CODE_BYTES = 256 };

/* Reads `streams` streams of `count` pieces each, one behind the other from `memory` on (64-byte aligned), and gives
 * all 64-bit words of them xor-ed. */
typedef uint64_t (*ord_read_code_fn)(const unsigned char *memory, size_t count, uint32_t streams);

/* features: ORD_CPU_*. */
ord_read_code_fn ord_read_code_choose(uint64_t features);

uint64_t ord_read_plain(const unsigned char *memory, size_t count, uint32_t streams);
/* 12 chains of 4 numbers. */
float ord_multiply_plain(uint64_t rounds);

#define ORD_PEAK_CODE_PLAIN                                                                                            \
  { "f32 4 wide", ORD_F32, 0, 2.0 * 12 * 4, ord_multiply_plain }

#endif
