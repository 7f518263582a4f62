/* SPDX-License-Identifier: MIT
 *
 * A plan that makes one token a run, and loops over it, for tests of generation on the CUDA device. Included
 * by test programs only.
 */
#ifndef ORDITO_TESTS_CUDA_DECODE_H
#define ORDITO_TESTS_CUDA_DECODE_H

#include "cuda_plan.h"

enum { TOKEN_AT = 0, POSITION_AT = 64, COUNTER_AT = 128, SAMPLED_AT = 192, COPIED_AT = 256, ARENA_BYTES = 320 };
enum { CAPACITY = 40 };

/* ---- the plan: a library's copy, and a kernel that samples ---- */

static inline ord_status copy_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const ord_cuda_device *device = state;
  (void)err;
  return device->call.MemcpyDtoDAsync(ord_cuda_address(exec->operand[1]), ord_cuda_address(exec->operand[0]), 4,
                                      exec->stream->handle) == CUDA_SUCCESS
             ? ORD_OK
             : ORD_DEVICE_FAILED;
}

static const ord_kernel copy_kernel = {.struct_size = sizeof copy_kernel, .name = "copy", .launch = copy_launch};
static const ord_manifest manifest = {.name = "library"};
static const ord_plugin_entry library = {.manifest = &manifest};

static inline hand_plan *open_decode(const plan_stage *s, size_t cache_rows) {
  hand_plan *h = open_hand_plan(s, ARENA_BYTES, cache_rows);
  const ord_location copied[] = {in(TOKEN_AT), in(COPIED_AT)};
  ord_step *copy = add_bare_step(h, "layer.0.copy", copied, 2, 1);
  copy->choice =
      (ord_choice){.plugin = &library, .kernel = &copy_kernel, .answer = {.phase_count = 1, .flags = ORD_RUNS_LIBRARY}};
  copy->state = s->device;
  const ord_location next[] = {
      in(COPIED_AT), in(POSITION_AT), in(COUNTER_AT), {.space = ORD_SPACE_PAST}, {.space = ORD_SPACE_CACHE},
      in(SAMPLED_AT)};
  add_step(h, "steps_next", "sample", next, 6, 1);
  return h;
}

/* With which a scene is opened; a child may change it. */
static ord_cuda_options current_options;

static inline ord_loop_places places_of(const hand_plan *h) {
  return (ord_loop_places){.sampled = in_arena(h, SAMPLED_AT),
                           .token = in_arena(h, TOKEN_AT),
                           .past = h->memory.past,
                           .position = in_arena(h, POSITION_AT),
                           .counter = in_arena(h, COUNTER_AT)};
}

typedef struct scene {
  plan_stage stage;
  hand_plan *plan;
  ord_capture *captured;
  ord_loop *loop;
} scene;

static inline void make_loop(scene *c, const ord_loop_options *options) {
  ord_error err = ORD_ERROR_INIT;
  const ord_loop_places places = places_of(c->plan);
  MUST(c->stage.table->loop_create(c->plan->queue, c->captured, &places, options, &c->loop, &err));
}

static inline scene *open_scene(size_t cache_rows, bool in_one_launch) {
  ord_error err = ORD_ERROR_INIT;
  scene *c = test_calloc(1, sizeof *c);
  c->stage = open_plan_stage(&current_options);
  c->plan = open_decode(&c->stage, cache_rows);
  MUST(c->stage.table->capture(c->plan->queue, &c->plan->plan, &c->plan->memory, &c->captured, &err));
  make_loop(c, &(ord_loop_options){.capacity = CAPACITY, .is_one_launch = in_one_launch});
  return c;
}

static inline void close_scene(scene *c) {
  c->stage.table->loop_destroy(c->loop);
  c->stage.table->capture_destroy(c->captured);
  close_hand_plan(c->plan);
  close_plan_stage(&c->stage);
  test_free(c);
}

/* ---- what must come out ---- */

/* What changes from token to token. */
typedef struct words {
  int32_t token, past, position;
  int64_t counter;
} words;

static inline void write_words(hand_plan *h, const words *all) {
  put(h, in_arena(h, TOKEN_AT), &all->token, sizeof all->token);
  put(h, h->memory.past, &all->past, sizeof all->past);
  put(h, in_arena(h, POSITION_AT), &all->position, sizeof all->position);
  put(h, in_arena(h, COUNTER_AT), &all->counter, sizeof all->counter);
}

static inline words read_words(hand_plan *h) {
  words all = {0};
  get(h, &all.token, in_arena(h, TOKEN_AT), sizeof all.token);
  get(h, &all.past, h->memory.past, sizeof all.past);
  get(h, &all.position, in_arena(h, POSITION_AT), sizeof all.position);
  get(h, &all.counter, in_arena(h, COUNTER_AT), sizeof all.counter);
  return all;
}

/* One run for each token, by replays or eagerly, with everything in between done by the host. */
static inline words generate_step_by_step(scene *c, const ord_loop_request *request, bool is_eager, int32_t *out) {
  ord_error err = ORD_ERROR_INIT;
  hand_plan *h = c->plan;
  words all = {request->token, request->past, request->past, request->counter};
  for (uint32_t i = 0; i < request->limit; i++) {
    write_words(h, &all);
    if (is_eager)
      MUST(c->stage.table->run_eager(h->queue, &h->plan, &h->memory, NULL, &err));
    else
      MUST(c->stage.table->replay(h->queue, c->captured, NULL, &err));
    get(h, &out[i], in_arena(h, SAMPLED_AT), sizeof out[i]);
    all = (words){out[i], all.past + 1, all.position + 1, all.counter + 1};
  }
  return all;
}

static inline void start(scene *c, const ord_loop_request *request) {
  ord_error err = ORD_ERROR_INIT;
  MUST(c->stage.table->loop_start(c->loop, request, &err));
}

/* All tokens of a request; returns how many. */
static inline uint32_t take_all(scene *c, int32_t *out, ord_loop_state *out_state) {
  ord_error err = ORD_ERROR_INIT;
  uint32_t count = 0;
  do {
    assert_true(count < CAPACITY);
    MUST(c->stage.table->loop_next(c->loop, &out[count++], out_state, &err));
  } while (*out_state == ORD_LOOP_GOES_ON);
  return count;
}

static inline void assert_words(scene *c, const words *wanted) {
  const words got = read_words(c->plan);
  assert_int_equal(got.token, wanted->token);
  assert_int_equal(got.past, wanted->past);
  assert_int_equal(got.position, wanted->position);
  assert_int_equal(got.counter, wanted->counter);
}

/* ---- cases, each in a child that has got the way to launch from its parent ---- */

static bool is_one_launch;

static inline void run_both_ways(const char *name, void (*body)(void **state)) {
  for (int i = 0; i < 2; i++) {
    char text[96];
    is_one_launch = i;
    snprintf(text, sizeof text, "%s, %s", name, i ? "one launch" : "many launches");
    run_in_all_orders(text, body);
  }
}

#endif
