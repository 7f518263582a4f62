/* SPDX-License-Identifier: MIT
 *
 * ordito bench --device cuda: what is opened, and what the options ask of it.
 */
#include "cli/bench_cuda.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Read to find the bandwidth, and to empty the caches: many times what they hold. The simulated device has neither. */
enum { PROBE_CACHES = 32, SIMULATED_PROBE_BYTES = 1 << 20 };

/* ---- notes ------------------------------------------------------------------------------------------------------- */

bool bench_cuda_note(bench_cuda *b, int row, double value, ord_error *err) {
  return bench_add(&b->sample[row], value) || bench_fail_memory(err);
}

bool bench_cuda_count(bench_cuda *b, int row, double value, ord_error *err) {
  b->sample[row].count = 0;
  return bench_cuda_note(b, row, value, err);
}

bool bench_cuda_is_measured(const bench_cuda *b, int section) { return !b->why_not[section][0]; }

bool bench_cuda_leave_out(bench_cuda *b, int section, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(b->why_not[section], sizeof b->why_not[section], format, arguments);
  va_end(arguments);
  return true;
}

bool bench_cuda_forgive(bench_cuda *b, int section, const ord_error *err) {
  return err->code == ORD_UNSUPPORTED && bench_cuda_leave_out(b, section, "%s", err->text);
}

/* ---- what is asked for ------------------------------------------------------------------------------------------- */

static void leave_out_loops(bench_cuda *b) {
  const uint32_t loop = cli_loop(b->request);
  if (loop == ORD_LOOP_AUTO) return; /* all of them */
  if (loop != ORD_LOOP_AHEAD) bench_cuda_leave_out(b, BENCH_SECTION_ahead, "--loop %s", b->request->loop);
  if (loop == ORD_LOOP_WHOLE) return;
  bench_cuda_leave_out(b, BENCH_SECTION_whole, "--loop %s", b->request->loop);
  bench_cuda_leave_out(b, BENCH_SECTION_cancel, "--loop %s", b->request->loop);
}

/* All sections that need what is not there. */
static void leave_out_all(bench_cuda *b, uint32_t need, const char *what, const char *why) {
  static const uint32_t needs[BENCH_SECTIONS] = {
#define SECTION(id, needs, title) needs,
#define COUNT(section, name, label)
#define FIGURE(section, name, unit, label)
#define RATIO(section, name, over, under, label)
#define DIFFERENCE(section, name, from, less, unit, label)
#include "cli/bench_cuda.def"
  };
  for (int s = 0; s < BENCH_SECTIONS; s++)
    if (needs[s] & need) bench_cuda_leave_out(b, s, "%s %s", what, why);
}

/* Figures of another place than the one that was asked for are not those that were wanted. */
static void say_what_is_cut(const char *option, int64_t asked, int64_t got) {
  if (got < asked)
    cli_say(stderr, "ordito: %s: found %lld; the context leaves room for %lld: it is cut to that\n", option,
            (long long)asked, (long long)got);
}

/* A generation brings one token behind `start` before those that are timed, and ends before the context does. */
static int choose_places(bench_cuda *b) {
  const cli_request *request = b->request;
  const int64_t room = ord_model_context(b->stage.model);
  if (room > 0)
    say_what_is_cut("--prompt", request->bench_prompt, request->bench_prompt < room ? request->bench_prompt : room);
  if (!b->decodes) return CLI_OK;
  const int code = bench_choose_position(request, b->stage.model, &b->position);
  if (code != CLI_OK) return code;
  b->steps = request->bench_steps < room - 2 ? request->bench_steps : room - 2;
  if (b->steps < 1) b->steps = 1;
  say_what_is_cut("--steps", request->bench_steps, b->steps);
  b->start = b->position - b->steps / 2;
  if (b->start > room - b->steps - 2) b->start = room - b->steps - 2;
  if (b->start < 0) b->start = 0;
  return CLI_OK;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool note_session(bench_cuda *b, ord_error *err) {
  ord_startup_times times = {.struct_size = sizeof times};
  return ord_session_startup(b->stage.session, &times, err) &&
         bench_cuda_note(b, BENCH_startup_read_ms, (double)times.read_ns / 1e6, err) &&
         bench_cuda_note(b, BENCH_startup_pack_ms, (double)times.pack_ns / 1e6, err) &&
         bench_cuda_note(b, BENCH_startup_plan_ms, (double)times.plan_ns / 1e6, err) &&
         bench_cuda_note(b, BENCH_startup_capture_ms, (double)times.capture_ns / 1e6, err);
}

/* Of the plan for one new token; a model that knows no other runs has one plan. */
static bool note_graph(bench_cuda *b, ord_error *err) {
  ord_capture_state state = {.struct_size = sizeof state}, other = state;
  if (!ord_session_capture_report(b->stage.session, 0, &state, err)) return false;
  for (uint32_t i = 1; ord_session_capture_report(b->stage.session, i, &other, NULL); i++)
    if (strcmp(other.plan, "one new token") == 0) state = other;
  if (!state.is_captured) {
    leave_out_all(b, BENCH_CAPTURE, "the plan for one new token is not captured:", state.why_not);
    return true;
  }
  return bench_cuda_count(b, BENCH_graph_steps, state.steps, err) &&
         bench_cuda_count(b, BENCH_graph_kernels, state.launches, err) &&
         bench_cuda_count(b, BENCH_graph_library_steps, state.library_steps, err) &&
         bench_cuda_count(b, BENCH_graph_nodes, state.graph_nodes, err);
}

static int open_all(bench_cuda *b) {
  ord_error err = ORD_ERROR_INIT;
  int code = cli_open_model(b->request, &b->stage);
  if (code != CLI_OK) return code;
  b->device = ord_context_device_info(b->stage.context);
  b->is_simulated = strncmp(b->device->name, "SIMULATED", 9) == 0;
  b->decodes = ord_model_vocab(b->stage.model) > 0 && ord_model_context(b->stage.model) > 2;
  leave_out_loops(b);
  if (!b->decodes) leave_out_all(b, BENCH_DECODES, ord_model_name(b->stage.model), "does not generate");
  code = choose_places(b);
  if (code == CLI_OK) code = cli_start_session(b->request, b->decodes, &b->stage);
  if (code != CLI_OK) return code;
  b->probe_bytes = b->is_simulated ? SIMULATED_PROBE_BYTES : PROBE_CACHES * b->device->l2_bytes;
  const bool done = note_session(b, &err) && (!b->decodes || note_graph(b, &err)) &&
                    ord_probe_create(b->stage.context, b->probe_bytes, &b->probe, &err) &&
                    bench_cuda_count(b, BENCH_read_bytes, (double)b->probe_bytes, &err);
  return done ? CLI_OK : cli_fail(&err);
}

static void close_all(bench_cuda *b) {
  bench_cuda_close_rivals(b);
  ord_probe_destroy(b->probe);
  cli_close(&b->stage);
  bench_table_finish(&b->prefill);
  bench_table_finish(&b->decode);
  free(b->wanted.id);
  free(b->got.id);
  for (int i = 0; i < BENCH_ROWS; i++) free(b->sample[i].value);
}

static int tell(bench_cuda *b) {
  const bench_spread read = bench_spread_of(&b->sample[BENCH_read_gb_per_s]);
  bench_cuda_print(b);
  if (!b->is_simulated && bench_noise(&read) > BENCH_NOISE_LIMIT)
    cli_say(stderr, "ordito: the bandwidth drifted by more than %.0f %% in this run: the device is too noisy to say\n",
            100 * BENCH_NOISE_LIMIT);
  return cli_flush();
}

int bench_run_cuda(const cli_request *request) {
  bench_cuda b = {.request = request};
  bench_read_types(request, &b.compute, &b.kv_cache);
  int code = open_all(&b);
  if (code == CLI_OK) code = bench_cuda_open_rivals(&b);
  if (code == CLI_OK) code = bench_cuda_measure(&b);
  if (code == CLI_OK) code = tell(&b);
  close_all(&b);
  return code;
}
