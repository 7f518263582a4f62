/* SPDX-License-Identifier: MIT
 *
 * From nothing to the first token, phase by phase, and in turn with a probe that reads and writes as many bytes.
 */
#include "cli/bench.h"

enum { FIRST_TOKENS = 16 };

static bool note_session(bench *b, ord_error *err) {
  ord_startup_times times = {.struct_size = sizeof times};
  return ord_session_startup(b->stage.session, &times, err) &&
         bench_note(b, BENCH_READ_NS, (double)times.read_ns, err) &&
         bench_note(b, BENCH_PACK_NS, (double)times.pack_ns, err) &&
         bench_note(b, BENCH_PLAN_NS, (double)times.plan_ns, err) &&
         bench_note(b, BENCH_CAPTURE_NS, (double)times.capture_ns, err);
}

/* What the session has to be made with; after this, only what is done again in every start. */
static int announce(bench *b, ord_session_options *out) {
  cli_session_options(b->request, out);
  out->generates = b->decodes;
  return b->samples[BENCH_START_NS].count > 0 ? CLI_OK : cli_print_memory(b->stage.model, out);
}

static bool first_run(bench *b, double *out_ns, ord_error *err) {
  int64_t tokens;
  const int64_t length = b->decodes ? FIRST_TOKENS : b->request->bench_prompt;
  if (!ord_session_set_random(b->stage.session, length, 1, &tokens, err)) return false;
  const double begin = cli_now_ns();
  if (!ord_session_run(b->stage.session, err)) return false;
  *out_ns = cli_now_ns() - begin;
  return true;
}

/* One start, whose stage stays open. */
static int start_once(bench *b, double *out_ns) {
  ord_error err = ORD_ERROR_INIT;
  ord_session_options options;
  double begin = cli_now_ns(), run_ns = 0;
  cli_request request = *b->request;
  request.is_repeated = b->samples[BENCH_START_NS].count > 0;
  int code = cli_open_model(&request, &b->stage);
  if (code == CLI_OK) code = cli_open_weights(&request, b->stage.model);
  const double open_ns = cli_now_ns() - begin;
  if (code != CLI_OK) return code;
  b->decodes = ord_model_vocab(b->stage.model) > 0 && ord_model_context(b->stage.model) > 1;
  if (b->decodes) code = bench_choose_position(b->request, b->stage.model, &b->position);
  if (code == CLI_OK) code = announce(b, &options);
  if (code != CLI_OK) return code;
  begin = cli_now_ns();
  if (!ord_session_create(b->stage.model, &options, &b->stage.session, &err)) return cli_fail(&err);
  const double session_ns = cli_now_ns() - begin;
  if (!note_session(b, &err) || !first_run(b, &run_ns, &err)) return cli_fail(&err);
  *out_ns = open_ns + session_ns + run_ns;
  if (b->samples[BENCH_START_NS].count == 0) b->first_start_ns = *out_ns;
  const bool done = bench_note(b, BENCH_OPEN_NS, open_ns, &err) && bench_note(b, BENCH_FIRST_NS, run_ns, &err) &&
                    bench_note(b, BENCH_START_NS, *out_ns, &err);
  return done ? CLI_OK : cli_fail(&err);
}

/* Behind a start, so that it finds the file where the start found it: in the memory of the system, or not. */
static int probe_once(bench *b, double start_ns) {
  ord_error err = ORD_ERROR_INIT;
  uint64_t ns;
  if (!ord_model_probe_startup(b->stage.model, &ns, &err)) return cli_fail(&err);
  if (ns == 0) return CLI_OK; /* no file that could be read */
  const bool done = bench_note(b, BENCH_START_PROBE_NS, (double)ns, &err) &&
                    bench_note(b, BENCH_START_RATIO, start_ns / (double)ns, &err);
  return done ? CLI_OK : cli_fail(&err);
}

int bench_start(bench *b) {
  /* Random weights are made, not read: how long that takes says nothing. */
  const int64_t rounds = b->request->random_weights >= 0 ? 1 : b->request->bench_repeat;
  for (int64_t round = 0; round < rounds; round++) {
    cli_close(&b->stage);
    double start_ns = 0;
    int code = start_once(b, &start_ns);
    if (code == CLI_OK) code = probe_once(b, start_ns);
    if (code != CLI_OK) return code;
  }
  return CLI_OK;
}
