/* SPDX-License-Identifier: MIT
 *
 * ordito bench MODEL.yaml: decode and prefill speed, eager against replay in turn, time by op and layer, memory by
 * kind. Everything is measured in this one process, so that ratios hold where absolute figures drift.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

#define PREFILL_RUNS 5

typedef struct samples {
  double *ns;
  uint32_t count;
} samples;

/* Time of one op, or of one layer path, summed over the steps. */
typedef struct share {
  const char *name;
  uint64_t ns;
} share;

typedef struct bench {
  const cli_request *request;
  ord_session *session;
  int32_t *id; /* token ids: what they are does not matter for the time */
  uint32_t prompt, position;
  samples replay, eager, prefill;
  share *op, *step; /* of the decode steps, by op and by layer path */
  uint32_t op_count, step_count;
  ord_memory_report memory;
} bench;

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static bool timed_run(bench *b, int64_t count, bool eager, bool by_step, samples *into, ord_error *err) {
  ord_timing timing = {.struct_size = sizeof timing, .eager = eager, .by_step = by_step};
  if (!ord_session_set_tokens(b->session, b->id, 1, count, err) || !ord_session_run_timed(b->session, &timing, err))
    return false;
  if (into) into->ns[into->count++] = (double)timing.run_ns;
  return true;
}

static bool measure_prefill(bench *b, ord_error *err) {
  for (int i = 0; i < PREFILL_RUNS; i++) {
    ord_session_reset(b->session);
    if (!timed_run(b, b->prompt, false, false, &b->prefill, err)) return false;
  }
  return true;
}

/* Replay and eager in turn at the same position, so that a drift of the machine meets both. */
static bool measure_decode(bench *b, ord_error *err) {
  ord_session_reset(b->session);
  if (b->position > 0 && !timed_run(b, b->position, false, false, NULL, err)) return false;
  for (int64_t i = 0; i < b->request->bench_steps; i++) {
    if (!timed_run(b, 1, false, false, &b->replay, err)) return false;
    ord_session_rewind(b->session, b->position);
    if (!timed_run(b, 1, true, false, &b->eager, err)) return false;
    ord_session_rewind(b->session, b->position);
  }
  ord_session_times_reset(b->session);
  for (int64_t i = 0; i < b->request->bench_steps; i++) {
    if (!timed_run(b, 1, false, true, NULL, err)) return false;
    ord_session_rewind(b->session, b->position);
  }
  return true;
}

static void add_share(share *list, uint32_t *count, const char *name, uint64_t ns) {
  uint32_t i = 0;
  while (i < *count && strcmp(list[i].name, name) != 0) i++;
  if (i == *count) list[(*count)++] = (share){name, 0};
  list[i].ns += ns;
}

static int by_time(const void *a, const void *b) {
  const share *x = a, *y = b;
  return (x->ns < y->ns) - (x->ns > y->ns);
}

static bool collect_shares(bench *b) {
  ord_step_time step;
  uint32_t count = 0;
  while (ord_session_step_time(b->session, count, &step)) count++;
  b->op = calloc((size_t)count + 1, sizeof *b->op);
  b->step = calloc((size_t)count + 1, sizeof *b->step);
  if (!b->op || !b->step) return false;
  b->op_count = b->step_count = 0;
  for (uint32_t i = 0; ord_session_step_time(b->session, i, &step); i++) {
    const uint64_t ns = step.runs ? step.ns / step.runs : 0;
    add_share(b->op, &b->op_count, step.op, ns);
    b->step[b->step_count++] = (share){step.path, ns};
  }
  qsort(b->op, b->op_count, sizeof *b->op, by_time);
  qsort(b->step, b->step_count, sizeof *b->step, by_time);
  return true;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Share 0.5 is the median. Sorts the samples. */
static double quantile(samples *of, double share_of) {
  qsort(of->ns, of->count, sizeof *of->ns, by_size);
  return of->ns[(uint32_t)(share_of * (of->count - 1) + 0.5)];
}

static const struct {
  const char *name;
  size_t field;
} memory_kinds[] = {
    {"weights", offsetof(ord_memory_report, weights)}, {"packed", offsetof(ord_memory_report, packed)},
    {"cache", offsetof(ord_memory_report, cache)},     {"arena", offsetof(ord_memory_report, arena)},
    {"worker", offsetof(ord_memory_report, worker)},   {"captures", offsetof(ord_memory_report, captures)},
    {"peak", offsetof(ord_memory_report, peak)}};
static const size_t memory_kind_count = sizeof memory_kinds / sizeof *memory_kinds;

static unsigned long long memory_of(const bench *b, size_t kind) {
  uint64_t bytes = 0;
  memcpy(&bytes, (const char *)&b->memory + memory_kinds[kind].field, sizeof bytes);
  return bytes;
}

static void print_text(bench *b, const char *model) {
  const double replay = quantile(&b->replay, 0.5), eager = quantile(&b->eager, 0.5),
               prefill = quantile(&b->prefill, 0.5);
  printf("%s\n\n", model);
  printf("decode at %u     %8.1f tokens/s   p50 %.1f us, p99 %.1f us a step (%u steps)\n", b->position, 1e9 / replay,
         replay / 1e3, quantile(&b->replay, 0.99) / 1e3, b->replay.count);
  printf("prefill of %u    %8.1f tokens/s   p50 %.2f ms\n", b->prompt, b->prompt * 1e9 / prefill, prefill / 1e6);
  printf("eager / replay   %8.3f            p50 of a step, %.1f us against %.1f us, in turn\n", eager / replay,
         eager / 1e3, replay / 1e3);
  printf("\ntime by op, a decode step\n");
  for (uint32_t i = 0; i < b->op_count; i++) printf("  %-24s %9.1f us\n", b->op[i].name, (double)b->op[i].ns / 1e3);
  printf("\nslowest layers of a decode step\n");
  for (uint32_t i = 0; i < b->step_count && i < 10; i++)
    printf("  %-24s %9.1f us\n", b->step[i].name, (double)b->step[i].ns / 1e3);
  printf("\nmemory\n");
  for (size_t i = 0; i < memory_kind_count; i++)
    printf("  %-24s %12llu bytes\n", memory_kinds[i].name, memory_of(b, i));
}

static void print_shares_json(const char *name, const share *list, uint32_t count) {
  printf(",\n \"%s\": {", name);
  for (uint32_t i = 0; i < count; i++)
    printf("%s\n  \"%s\": %llu", i ? "," : "", list[i].name, (unsigned long long)list[i].ns);
  printf("}");
}

static void print_json(bench *b, const char *model) {
  const double replay = quantile(&b->replay, 0.5), eager = quantile(&b->eager, 0.5),
               prefill = quantile(&b->prefill, 0.5);
  printf("{\"model\": \"%s\",\n \"decode\": {\"position\": %u, \"tokens_per_s\": %.3f, \"p50_us\": %.3f, \"p99_us\": "
         "%.3f, "
         "\"steps\": %u},\n",
         model, b->position, 1e9 / replay, replay / 1e3, quantile(&b->replay, 0.99) / 1e3, b->replay.count);
  printf(" \"prefill\": {\"tokens\": %u, \"tokens_per_s\": %.3f, \"p50_ms\": %.4f},\n", b->prompt,
         b->prompt * 1e9 / prefill, prefill / 1e6);
  printf(" \"eager_over_replay\": %.4f", eager / replay);
  print_shares_json("op_ns", b->op, b->op_count);
  print_shares_json("step_ns", b->step, b->step_count);
  printf(",\n \"memory\": {");
  for (size_t i = 0; i < memory_kind_count; i++)
    printf("%s\"%s_bytes\": %llu", i ? ", " : "", memory_kinds[i].name, memory_of(b, i));
  printf("}}\n");
}

/* ---- */

static uint32_t clip(int64_t wanted, int64_t most) { return (uint32_t)(wanted < most ? wanted : most > 1 ? most : 1); }

static bool make_room(bench *b) {
  const size_t steps = (size_t)b->request->bench_steps;
  const size_t ids = b->prompt > b->position ? b->prompt : b->position;
  b->id = calloc(ids + 1, sizeof *b->id);
  b->replay.ns = calloc(steps, sizeof(double));
  b->eager.ns = calloc(steps, sizeof(double));
  b->prefill.ns = calloc(PREFILL_RUNS, sizeof(double));
  return b->id && b->replay.ns && b->eager.ns && b->prefill.ns;
}

static void finish(bench *b) {
  free(b->id);
  free(b->replay.ns);
  free(b->eager.ns);
  free(b->prefill.ns);
  free(b->op);
  free(b->step);
}

static int measure(bench *b, cli_stage *stage) {
  ord_error err = ORD_ERROR_INIT;
  const int64_t room = ord_model_context(stage->model);
  b->session = stage->session;
  b->prompt = clip(b->request->bench_prompt, room);
  b->position = clip(b->request->bench_position, room - 1);
  b->memory.struct_size = sizeof b->memory;
  if (!make_room(b)) {
    fprintf(stderr, "ordito: out of memory\n");
    return CLI_MACHINE;
  }
  cli_cancel_on_interrupt(b->session);
  const bool done = measure_prefill(b, &err) && measure_decode(b, &err);
  cli_cancel_on_interrupt(NULL);
  if (!done) return cli_fail(&err);
  if (!collect_shares(b)) return CLI_MACHINE;
  ord_session_memory(b->session, &b->memory);
  if (b->request->json)
    print_json(b, ord_model_name(stage->model));
  else
    print_text(b, ord_model_name(stage->model));
  return cli_flush();
}

int cli_bench(const cli_request *request) {
  cli_stage stage;
  bench b = {.request = request};
  int code = cli_open_model(request, &stage);
  if (code == CLI_OK) code = cli_start_session(request, true, &stage);
  if (code == CLI_OK) code = measure(&b, &stage);
  finish(&b);
  cli_close(&stage);
  return code;
}
