/* SPDX-License-Identifier: MIT
 *
 * A plan of three steps of two launches each, and what comes out of it. Included by test programs only.
 */
#ifndef ORDITO_TESTS_CUDA_MIXES_H
#define ORDITO_TESTS_CUDA_MIXES_H

#include "cuda_plan.h"

enum { WIDTH = 100, MIXES = 3, ROW_BYTES = WIDTH * 4, SCRATCH_AT = (MIXES + 1) * 512, PERSISTENT_AT = SCRATCH_AT + 64 };
enum { ARENA_BYTES = PERSISTENT_AT + 64 * MIXES };

/* Row i + 1 is made of row i; the last one goes to the cache. */
static inline hand_plan *open_mixes(const plan_stage *s) {
  static const char *const label[MIXES] = {"layer.0.a", "layer.0.b", "layer.1.a"};
  hand_plan *h = open_hand_plan(s, ARENA_BYTES, WIDTH);
  h->plan.persistent_begin = PERSISTENT_AT;
  for (uint32_t i = 0; i < MIXES; i++) {
    const ord_location place[] = {in(i * 512),
                                  {.space = ORD_SPACE_WEIGHT},
                                  {.space = ORD_SPACE_PAST},
                                  {.space = ORD_SPACE_EXTENT, .index = 1},
                                  i + 1 < MIXES ? in((i + 1) * 512) : (ord_location){.space = ORD_SPACE_CACHE}};
    ord_step *step = add_step(h, "steps_mix", label[i], place, 5, WIDTH);
    step->scratch_offset = SCRATCH_AT;
    step->persistent_offset = PERSISTENT_AT + 64 * i;
  }
  return h;
}

/* What a run reads, all of it device data. */
static inline void write_inputs(hand_plan *h, int32_t seed) {
  int32_t row[WIDTH], weight = seed % 5;
  int64_t extent[HAND_EXTENTS] = {0, 3 * seed};
  for (int32_t i = 0; i < WIDTH; i++) row[i] = i % 13;
  put(h, h->memory.arena, row, sizeof row);
  put(h, h->memory.past, &seed, sizeof seed);
  put(h, h->memory.extent, extent, sizeof extent);
  put(h, (void *)(uintptr_t)h->weight[0], &weight, sizeof weight);
}

static inline void compute(int32_t seed, int32_t *row) {
  for (int32_t i = 0; i < WIDTH; i++) row[i] = i % 13;
  for (int step = 0; step < MIXES; step++) {
    int32_t sum = 0;
    for (int i = 0; i < WIDTH; i++) sum = (int32_t)((uint32_t)sum + (uint32_t)row[i]);
    for (int i = 0; i < WIDTH; i++)
      row[i] = (int32_t)((uint32_t)row[i] * (uint32_t)(seed % 5) + (uint32_t)sum + (uint32_t)(4 * seed));
  }
}

static inline void assert_right(hand_plan *h, int32_t seed) {
  int32_t got[WIDTH], wanted[WIDTH], none[WIDTH] = {0};
  compute(seed, wanted);
  get(h, got, h->cache[0], sizeof got);
  assert_memory_equal(got, wanted, sizeof got);
  put(h, h->cache[0], none, sizeof none);
}

static inline ord_capture *capture(hand_plan *h) {
  ord_error err = ORD_ERROR_INIT;
  ord_capture *made = NULL;
  MUST(h->stage->table->capture(h->queue, &h->plan, &h->memory, &made, &err));
  return made;
}

static inline void replay(hand_plan *h, const ord_capture *captured) {
  ord_error err = ORD_ERROR_INIT;
  MUST(h->stage->table->replay(h->queue, captured, NULL, &err));
}

static inline void run_eager(hand_plan *h, const ord_run_options *options) {
  ord_error err = ORD_ERROR_INIT;
  MUST(h->stage->table->run_eager(h->queue, &h->plan, &h->memory, options, &err));
}

#endif
