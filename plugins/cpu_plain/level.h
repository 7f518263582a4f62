/* SPDX-License-Identifier: MIT
 *
 * Levels of instructions. node.c and view.c are compiled once. The other sources may be compiled several times, each
 * with ORDITO_LEVEL defined as the name of a level and for its instructions; what they export then bears that name:
 * plain_reader_avx512, and the kernel rope_avx512. Without it the level is plain: any CPU.
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

/* PLAIN_KERNEL(rope, .query = rope_query, ..); is the kernel rope_LEVEL of op rope. */
#define PLAIN_KERNEL(which, ...)                                                                                       \
  const ord_kernel PLAIN_NAME(which) = {.struct_size = sizeof(ord_kernel),                                             \
                                        .priority = PLAIN_PRIORITY(PLAIN_HERE),                                        \
                                        .name = PLAIN_TEXT(PLAIN_NAME(which)),                                         \
                                        .op = #which,                                                                  \
                                        .retire = plain_retire,                                                        \
                                        __VA_ARGS__}

#endif
