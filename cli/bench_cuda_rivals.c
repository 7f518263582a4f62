/* SPDX-License-Identifier: MIT
 *
 * What a step is timed beside, in turn: a graph made for the length, a session without dependent launches, the kernels
 * of --against, swapped in and out again.
 */
#include <string.h>

#include "cli/bench_cuda.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool make_session(const bench_cuda *b, ord_model *model, ord_session **out, ord_error *err) {
  ord_session_options options;
  cli_session_options(b->request, &options);
  options.generates = b->decodes;
  return ord_session_create(model, &options, out, err);
}

/* In the same context, with weights of its own. */
static int open_short(bench_cuda *b) {
  ord_error err = ORD_ERROR_INIT;
  cli_request request = *b->request;
  request.context = b->position + 1;
  request.is_repeated = true;
  if (request.context >= ord_model_context(b->stage.model)) {
    bench_cuda_leave_out(b, BENCH_SECTION_length, "the context is no longer than position %lld needs",
                         (long long)b->position);
    return CLI_OK;
  }
  int code = cli_load_model(&request, b->stage.context, 0, &b->short_model);
  if (code == CLI_OK) code = cli_open_weights(&request, b->short_model);
  if (code != CLI_OK) return code;
  if (!make_session(b, b->short_model, &b->short_session, &err) ||
      !bench_cuda_go_to_position(b, b->short_session, &err) ||
      !bench_cuda_count(b, BENCH_length_length, (double)request.context, &err))
    return cli_fail(&err);
  return CLI_OK;
}

/* Whether kernels may start early is a matter of a context. */
static int open_plain(bench_cuda *b) {
  enum { NEEDED = 90 };
  ord_error err = ORD_ERROR_INIT;
  cli_request request = *b->request;
  if (request.no_dependent_launch || b->device->compute_capability < NEEDED) {
    if (request.no_dependent_launch)
      bench_cuda_leave_out(b, BENCH_SECTION_dependent, "--no-dependent-launch");
    else
      bench_cuda_leave_out(b, BENCH_SECTION_dependent, "compute capability %u.%u; wanted 9.0",
                           b->device->compute_capability / 10, b->device->compute_capability % 10);
    return CLI_OK;
  }
  request.no_dependent_launch = request.is_repeated = true;
  int code = cli_open_model(&request, &b->plain);
  if (code == CLI_OK) code = cli_open_weights(&request, b->plain.model);
  if (code != CLI_OK) return code;
  return make_session(b, b->plain.model, &b->plain.session, &err) &&
                 bench_cuda_go_to_position(b, b->plain.session, &err)
             ? CLI_OK
             : cli_fail(&err);
}

int bench_cuda_open_rivals(bench_cuda *b) {
  if (!b->decodes) return CLI_OK;
  if (b->request->against.count == 0)
    bench_cuda_leave_out(b, BENCH_SECTION_swap, "no --against names a second kernel for an op");
  int code = CLI_OK;
  if (bench_cuda_is_measured(b, BENCH_SECTION_length)) code = open_short(b);
  if (code == CLI_OK && bench_cuda_is_measured(b, BENCH_SECTION_dependent)) code = open_plain(b);
  return code;
}

void bench_cuda_close_rivals(bench_cuda *b) {
  ord_session_destroy(b->short_session);
  ord_model_destroy(b->short_model);
  cli_close(&b->plain);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static bool note_replays(bench_cuda *b, ord_session *session, int row, ord_error *err) {
  ord_replay_timing timing;
  double us = 0;
  return bench_cuda_replays(b, session, &timing, &us, err) && bench_cuda_note(b, row, us, err);
}

static bool length(bench_cuda *b, ord_error *err) {
  if (!b->short_session) return true;
  return note_replays(b, b->stage.session, BENCH_length_us, err) &&
         note_replays(b, b->short_session, BENCH_length_made_us, err);
}

/* The tokens of a generation are compared, so that the time is that of the same work. */
static bool dependent(bench_cuda *b, ord_error *err) {
  ord_session *plain = b->plain.session;
  if (!plain) return true;
  if (!note_replays(b, b->stage.session, BENCH_dependent_on_us, err) ||
      !note_replays(b, plain, BENCH_dependent_off_us, err) || !bench_cuda_tokens(b, plain, ORD_LOOP_OFF, &b->got, err))
    return false;
  ord_session_rewind(plain, b->position);
  return bench_cuda_count(b, BENCH_dependent_tokens, b->got.count, err) &&
         bench_cuda_count(b, BENCH_dependent_other_tokens, bench_cuda_other_tokens(&b->wanted, &b->got), err);
}

static bool note_swap(bench_cuda *b, const ord_swap_result *result, ord_error *err) {
  return bench_cuda_count(b, BENCH_swap_nodes, result->node_count, err) &&
         bench_cuda_note(b, BENCH_swap_prepare_ms, (double)result->prepare_ns / 1e6, err) &&
         bench_cuda_note(b, BENCH_swap_compare_ms, (double)result->compare_ns / 1e6, err) &&
         bench_cuda_note(b, BENCH_swap_flip_us, (double)result->flip_ns / 1e3, err);
}

/* To the kernels of --against and back. A swap compares with the last run, which is a step. */
static bool swap(bench_cuda *b, ord_error *err) {
  ord_session *session = b->stage.session;
  ord_timing step = {0}, first = {0};
  ord_swap_result result = {.struct_size = sizeof result};
  const ord_swap_options options = {
      .struct_size = sizeof options, .pin = b->request->against.item, .pin_count = b->request->against.count};
  if (!bench_cuda_is_measured(b, BENCH_SECTION_swap)) return true;
  return bench_cuda_step(b, session, &step, err) && ord_session_swap_kernel(session, &options, &result, err) &&
         bench_cuda_step(b, session, &first, err) && note_swap(b, &result, err) &&
         bench_cuda_note(b, BENCH_swap_first_us, (double)first.run_ns / 1e3, err) &&
         bench_cuda_cold(b, BENCH_swap_cold_us, err) && ord_session_rollback_kernel(session, err);
}

bool bench_cuda_rivals(bench_cuda *b, ord_error *err) { return length(b, err) && dependent(b, err) && swap(b, err); }
