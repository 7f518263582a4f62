/* SPDX-License-Identifier: MIT
 *
 * What was measured, for programs. docs/bench.md describes the fields.
 */
#include <math.h>

#include "cli/bench.h"

static void print_number(const char *name, double value) {
  if (isfinite(value))
    printf(", \"%s\": %.6g", name, value);
  else
    printf(", \"%s\": null", name);
}

/* NAME, NAME_p10, NAME_p90. */
static void print_spread(const char *name, bench_spread of, double scale) {
  char low[64], high[64];
  snprintf(low, sizeof low, "%s_p10", name);
  snprintf(high, sizeof high, "%s_p90", name);
  print_number(name, of.median * scale);
  print_number(low, of.low * scale);
  print_number(high, of.high * scale);
}

static double per_s(double ns, double count) { return ns > 0 ? count * 1e9 / ns : NAN; }

static void print_head(bench *b) {
  const bench_spread read = bench_get(b, BENCH_READ_SPEED), peak = bench_get(b, BENCH_PEAK_SPEED);
  printf("{\"model\": ");
  cli_write_json(stdout, ord_model_name(b->stage.model), SIZE_MAX);
  printf(",\n \"threads\": %u, \"compute\": \"%s\", \"kv_cache\": \"%s\", \"rounds\": %u",
         ord_context_threads(b->stage.context), cli_type_name(b->compute), cli_type_name(b->kv_cache), peak.count / 2);
  print_number("noise", fmax(bench_noise(&read), bench_noise(&peak)));
  printf(", \"noisy\": %s,\n \"probe\": {\"peak_code\": ", bench_is_noisy(b) ? "true" : "false");
  cli_write_json(stdout, bench_peak(b)->how, SIZE_MAX);
  if (read.count > 0) {
    print_spread("read_gb_per_s", read, 1e-9);
    printf(", \"read_pattern\": ");
    cli_write_json(stdout, b->read.how, SIZE_MAX);
  }
  print_spread("peak_gop_per_s", peak, 1e-9);
  for (int i = 0; i < BENCH_PEAK_TYPES; i++) {
    printf(",\n  \"%s\": {\"code\": ", cli_type_name(bench_peak_types[i]));
    cli_write_json(stdout, b->peak[i].how, SIZE_MAX);
    print_number("gop_per_s", b->peak[i].per_s / 1e9);
    printf("}");
  }
  printf("},\n");
}

static void print_decode(bench *b) {
  const bench_spread ns = bench_get(b, BENCH_STEP_NS);
  printf(" \"decode\": {\"position\": %lld, \"steps\": %u", (long long)b->position, ns.count);
  print_number("tokens_per_s", per_s(ns.median, 1));
  print_number("tokens_per_s_p10", per_s(ns.high, 1));
  print_number("tokens_per_s_p90", per_s(ns.low, 1));
  print_number("p50_us", ns.median / 1e3);
  print_number("p99_us", bench_quantile(&b->samples[BENCH_STEP_NS], 0.99) / 1e3);
  print_number("first_us", b->first_step_ns / 1e3);
  print_spread("read_share", bench_get(b, BENCH_READ_SHARE), 1);
  printf(", \"weight_bytes\": %llu, \"cache_bytes\": %llu},\n", (unsigned long long)b->decode.all.weight_bytes,
         (unsigned long long)b->decode.all.cache_bytes);
}

static void print_prefill(bench *b) {
  const bench_spread ns = bench_get(b, BENCH_PREFILL_NS);
  printf(" \"prefill\": {\"tokens\": %lld", (long long)b->tokens);
  if (b->tokens > 0) {
    print_number("tokens_per_s", per_s(ns.median, (double)b->tokens));
    print_number("tokens_per_s_p10", per_s(ns.high, (double)b->tokens));
    print_number("tokens_per_s_p90", per_s(ns.low, (double)b->tokens));
  }
  print_spread("ms", ns, 1e-6);
  print_number("first_ms", b->first_prefill_ns / 1e6);
  print_spread("peak_share", bench_get(b, BENCH_PEAK_SHARE), 1);
  printf(", \"operations\": %llu},\n", (unsigned long long)b->prefill.all.operations);
}

static void print_replay(bench *b) {
  printf(" \"replay\": {\"phases\": %u", b->phases);
  print_spread("overhead", bench_get(b, BENCH_OVERHEAD), 1);
  print_spread("overhead_us_per_phase", bench_get(b, BENCH_OVERHEAD_NS), 1e-3);
  if (b->decodes) print_spread("eager_over_replay", bench_get(b, BENCH_EAGER_RATIO), 1);
  printf("},\n");
  if (!b->rival) return;
  printf(" \"against\": {\"kernels\": [");
  for (uint32_t i = 0; i < b->request->against.count; i++) {
    if (i > 0) printf(", ");
    cli_write_json(stdout, b->request->against.item[i], SIZE_MAX);
  }
  printf("]");
  if (b->decodes) print_spread("decode_time_ratio", bench_get(b, BENCH_AGAINST_STEP), 1);
  print_spread("prefill_time_ratio", bench_get(b, BENCH_AGAINST_PREFILL), 1);
  printf("},\n");
}

static void print_startup(bench *b) {
  static const struct {
    const char *name;
    int which;
    double scale;
  } field[] = {{"ms", BENCH_START_NS, 1e-6},           {"open_ms", BENCH_OPEN_NS, 1e-6},
               {"read_ms", BENCH_READ_NS, 1e-6},       {"pack_ms", BENCH_PACK_NS, 1e-6},
               {"plan_ms", BENCH_PLAN_NS, 1e-6},       {"capture_ms", BENCH_CAPTURE_NS, 1e-6},
               {"first_run_ms", BENCH_FIRST_NS, 1e-6}, {"probe_ms", BENCH_START_PROBE_NS, 1e-6},
               {"over_probe", BENCH_START_RATIO, 1}};
  const bench_spread all = bench_get(b, BENCH_START_NS);
  printf(" \"startup\": {\"starts\": %u, \"random_weights\": %s", all.count,
         b->request->random_weights >= 0 ? "true" : "false");
  print_number("first_ms", b->first_start_ns / 1e6);
  for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
    const bench_spread of = bench_get(b, field[i].which);
    if (of.count > 0) print_spread(field[i].name, of, field[i].scale);
  }
  printf("},\n");
}

void bench_print_json_parts(const char *name, const bench_part *list, uint32_t count, const char *phases,
                            bench_times_fn print_times, void *context) {
  printf(",\n  \"%s\": [", name);
  for (uint32_t i = 0; i < count; i++) {
    const bench_part *part = &list[i];
    printf("%s\n   {\"name\": ", i ? "," : "");
    cli_write_json(stdout, part->name, part->name_length);
    if (part->op) {
      printf(", \"op\": ");
      cli_write_json(stdout, part->op, SIZE_MAX);
      printf(", \"kernel\": ");
      cli_write_json(stdout, part->kernel, SIZE_MAX);
    }
    print_times(context, part);
    printf(", \"%s\": %u, \"operations\": %llu, \"weight_bytes\": %llu, \"cache_bytes\": %llu}", phases, part->phases,
           (unsigned long long)part->operations, (unsigned long long)part->weight_bytes,
           (unsigned long long)part->cache_bytes);
  }
  printf("]");
}

static void print_times(void *context, const bench_part *part) {
  (void)context;
  print_number("us", part->ns / 1e3);
  print_number("busy_us", part->busy_ns / 1e3);
}

static void print_parts(const char *name, const bench_part *list, uint32_t count) {
  bench_print_json_parts(name, list, count, "phases", print_times, NULL);
}

static void print_table(const char *name, const bench_table *table) {
  printf(" \"%s\": {\"us\": %.6g", name, table->all.ns / 1e3);
  print_parts("ops", table->op, table->op_count);
  print_parts("layers", table->layer, table->layer_count);
  print_parts("steps", table->step, table->step_count);
  printf("},\n");
}

static void print_memory(const bench *b) {
  const ord_memory_report *of = &b->memory;
  const struct {
    const char *name;
    uint64_t bytes;
  } kind[] = {{"weights", of->weights}, {"packed", of->packed},     {"cache", of->cache}, {"arena", of->arena},
              {"worker", of->worker},   {"captures", of->captures}, {"peak", of->peak}};
  printf(" \"memory\": {");
  for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
    printf("%s\"%s_bytes\": %llu", i ? ", " : "", kind[i].name, (unsigned long long)kind[i].bytes);
  printf("}}\n");
}

void bench_print_json(bench *b) {
  print_head(b);
  if (b->decodes) print_decode(b);
  print_prefill(b);
  print_replay(b);
  print_startup(b);
  if (b->decodes) print_table("decode_step", &b->decode);
  print_table("prefill_run", &b->prefill);
  print_memory(b);
}
