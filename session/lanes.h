/* SPDX-License-Identifier: MIT
 *
 * Lanes: each is a plan for runs of some lengths, with its memory and its capture. Those of one choice of kernels are
 * made together, and a swap exchanges them together.
 */
#ifndef ORDITO_SESSION_LANES_H
#define ORDITO_SESSION_LANES_H

#include "graphs/lower.h"

/* bench_times.c: what timed runs gathered for each step. */
typedef struct ord_lane_times ord_lane_times;

typedef struct ord_lane {
  const char *name;        /* for reports: "all lengths", "one new token", "up to 16 new tokens" */
  int64_t new_tokens;      /* the most that a run brings for each row */
  bool is_exact;           /* no run brings fewer either */
  ord_chooser chooser;     /* that of all lanes, with the pins that this one goes without */
  ord_graph *graph;        /* after the passes */
  ord_pass_record *record; /* [ord_pass_count()] */
  ord_plan *plan;
  ord_capture *capture;  /* NULL: runs are eager */
  const char *why_eager; /* why capturing failed, where it was preferred only; else NULL */
  uint64_t capture_ns;
  ord_memory memory;
  size_t number_bytes; /* of memory.extent, which memory.past lies right behind */
  /* Where the host puts what a run reads: the places in `memory`, or where the host cannot write there, in staging. */
  void **input; /* [plan->input_count] */
  int64_t *extent;
  int32_t *past;
  unsigned char *staging;
  ord_loop *loop;        /* NULL until a generation wants one */
  uint32_t loop_mode;    /* ORD_LOOP_WHOLE, ORD_LOOP_AHEAD or ORD_LOOP_DEAF */
  ord_lane_times *times; /* NULL until a run is timed by step or by thread */
} ord_lane;

enum { ORD_LANE_MAX = 8 };

typedef struct ord_lanes {
  ord_arena arena;             /* pins, names */
  ord_chooser chooser;         /* its pins have no refusal */
  uint32_t first_new_pin;      /* of chooser.pin: those before it were those of the lanes before */
  ord_lane lane[ORD_LANE_MAX]; /* the first serves every length */
  uint32_t count;
  void *worker; /* memory for each thread, shared by the lanes since only one runs at a time */
  size_t worker_stride;
  uint64_t capture_ns; /* that capturing them took */
} ord_lanes;

/* lanes.c. The pins of `before` (NULL: none) come first, without those that are said again behind them. `dry` plans
 * choose and place but read no weight, make no memory. */
ORD_MUST_CHECK bool ord_lanes_create(ord_session *session, const ord_lanes *before, const char *const *pin,
                                     uint32_t pin_count, bool dry, ord_lanes **out, ord_error *err);
void ord_lanes_destroy(ord_session *session, ord_lanes *lanes);
/* A plan without weights or memory, in lane->graph and lane->plan; tells the pin for whose sake there is none. */
ORD_MUST_CHECK bool ord_lane_try_plan(const ord_session *session, ord_lanes *lanes, ord_lane *lane,
                                      ord_refused_pin *refused, ord_error *err);
void ord_lane_forget_plan(ord_lane *lane);
/* May a run with so many new tokens for each row be made by this lane? */
bool ord_lane_holds(const ord_lane *lane, int64_t new_tokens);
/* `who` wants a captured plan for `what`; the error says why there is none. */
ORD_MUST_CHECK bool ord_lane_must_be_captured(const ord_lane *lane, const char *who, const char *what, ord_error *err);

/* lane_pins.c. Fills lanes->chooser; then, for lanes that are named, each one's own: the pins that it goes without.
 * There is a warning in the log for each pin from number `first_told` on that holds in some lanes only. Fails with
 * ORD_UNSUPPORTED where one holds in none. */
ORD_MUST_CHECK bool ord_lanes_read_pins(const ord_session *session, const ord_lanes *before, const char *const *text,
                                        uint32_t text_count, ord_lanes *lanes, ord_error *err);
ORD_MUST_CHECK bool ord_lanes_settle_pins(const ord_session *session, uint32_t first_told, ord_lanes *lanes,
                                          ord_error *err);

/* lane_memory.c: the memory of lane->plan, also for a lane that is nothing but a plan. The caches are the session's. */
ORD_MUST_CHECK bool ord_lane_memory_create(const ord_session *session, ord_lane *lane, ord_error *err);
void ord_lane_memory_destroy(const ord_session *session, ord_lane *lane);
/* The step of a plan that asks for the most; NULL: none asks for any. */
const ord_step *ord_plan_hungriest(const ord_plan *plan, uint64_t (*bytes_of)(const ord_answer *answer));

/* loop.c */
void ord_lane_loop_destroy(const ord_session *session, ord_lane *lane);

/* outputs.c. From the first byte of an input or output to behind its last, with these dims. */
size_t ord_plan_tensor_span(const ord_plan_tensor *tensor, const int64_t *dim);
/* The output as it lies on the device, into `dense`, row-major. Waits for what runs. */
ORD_MUST_CHECK bool ord_output_read(ord_session *session, const ord_lane *lane, const ord_plan_tensor *output,
                                    const int64_t *dim, void *dense, ord_error *err);
/* Readers of old outputs then see 0xff bytes: NaN, or -1. */
ORD_MUST_CHECK bool ord_outputs_poison(ord_session *session, const ord_lane *lane, ord_error *err);

#endif
