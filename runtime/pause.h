/* SPDX-License-Identifier: MIT
 *
 * For loops that wait for a word in memory.
 */
#ifndef ORDITO_RUNTIME_PAUSE_H
#define ORDITO_RUNTIME_PAUSE_H

#include <stdatomic.h>

/* Leaves the core to its other thread for a moment. */
#if defined(__x86_64__)
static inline void ord_pause_core(void) { __builtin_ia32_pause(); }
#else
static inline void ord_pause_core(void) { atomic_signal_fence(memory_order_seq_cst); }
#endif

#endif
