/* SPDX-License-Identifier: MIT
 *
 * Levels of instructions. node.c, view.c, pack.c and epilogue_accept.c are compiled once, for any CPU. The other
 * sources may be compiled several times, each with ORDITO_LEVEL defined as the name of a level and for its
 * instructions; what they export then bears that name: plain_reader_avx512, and the kernel rope_avx512. Without it the
 * level is plain: any CPU.
 */
#ifndef PLAIN_LEVEL_H
#define PLAIN_LEVEL_H

#include "ordito_plugin.h"

#ifndef ORDITO_LEVEL
#define ORDITO_LEVEL plain
#endif
#define PLAIN_JOIN_AGAIN(name, level) name##_##level
#define PLAIN_JOIN(name, level) PLAIN_JOIN_AGAIN(name, level)
#define PLAIN_NAME(name) PLAIN_JOIN(name, ORDITO_LEVEL)
#define PLAIN_TEXT_AGAIN(name) #name
#define PLAIN_TEXT(name) PLAIN_TEXT_AGAIN(name)

/* A later level goes before an earlier one. PLAIN_HERE is the one that this source is compiled for. */
typedef enum { PLAIN_LEVEL_plain, PLAIN_LEVEL_baseline, PLAIN_LEVEL_avx2, PLAIN_LEVEL_avx512 } plain_level;
#define PLAIN_HERE PLAIN_NAME(PLAIN_LEVEL)
#define PLAIN_PRIORITY(level) (10 * (level))

typedef ord_status (*plain_query_fn)(const ord_kernel *kernel, const ord_node *node, ord_answer *answer);

/* The host may ask any kernel on any CPU, so it calls plain_query (node.c), which goes on to the kernel's own query
 * only where the CPU has the level: that one is compiled for the level like the rest of its source. */
typedef struct plain_kernel {
  ord_kernel base;
  plain_level level;
  plain_query_fn query;
} plain_kernel;

/* The value of a plain_kernel; the other arguments are fields of `base`. */
#define PLAIN_KERNEL_VALUE(which, own_query, ...)                                                                      \
  {                                                                                                                    \
    .base = {.struct_size = sizeof(ord_kernel),                                                                        \
             .priority = PLAIN_PRIORITY(PLAIN_HERE),                                                                   \
             .name = PLAIN_TEXT(PLAIN_NAME(which)),                                                                    \
             .op = #which,                                                                                             \
             .query = plain_query,                                                                                     \
             .retire = plain_retire,                                                                                   \
             __VA_ARGS__},                                                                                             \
    .level = PLAIN_HERE, .query = own_query                                                                            \
  }
/* PLAIN_KERNEL(rope, rope_query, .prepare = rope_prepare, ..); is the kernel rope_LEVEL of op rope. */
#define PLAIN_KERNEL(which, own_query, ...)                                                                            \
  const plain_kernel PLAIN_NAME(which) = PLAIN_KERNEL_VALUE(which, own_query, __VA_ARGS__)

#endif
