/* SPDX-License-Identifier: MIT
 *
 * What was measured, for people: medians, with the tenth and the ninetieth percentile behind them.
 */
#include "cli/bench.h"

enum { LAYERS_SHOWN = 10 };

/* "  12.3 unit  (11.0 .. 13.1)", scaled; a speed of which the samples are times is `per` by the time. */
static void print_spread(const char *label, bench_spread of, double scale, const char *unit) {
  printf("%-22s %10.3f %-9s (%.3f .. %.3f)", label, of.median * scale, unit, of.low * scale, of.high * scale);
}

static bench_spread speed(bench_spread ns, double count) {
  if (ns.count == 0) return ns;
  return (bench_spread){count * 1e9 / ns.median, count * 1e9 / ns.high, count * 1e9 / ns.low, ns.count};
}

static void print_head(bench *b) {
  const bench_spread starts = bench_get(b, BENCH_PREFILL_NS);
  const uint32_t threads = ord_context_threads(b->stage.context);
  cli_say(stdout, "%s: %u thread%s, compute %s, kv cache %s, %u round%s; medians (tenth .. ninetieth percentile)\n\n",
          ord_model_name(b->stage.model), threads, cli_plural(threads), cli_type_name(b->compute),
          cli_type_name(b->kv_cache), starts.count, cli_plural(starts.count));
}

static void print_decode(bench *b) {
  const bench_spread ns = bench_get(b, BENCH_STEP_NS), share = bench_get(b, BENCH_READ_SHARE);
  const bench_spread probe = bench_get(b, BENCH_READ_SPEED);
  char label[64];
  snprintf(label, sizeof label, "decode at %lld", (long long)b->position);
  print_spread(label, speed(ns, 1), 1, "tokens/s");
  printf("\n");
  print_spread("  step", ns, 1e-3, "us");
  printf(", p99 %.3f, first %.3f, %u steps\n", bench_quantile(&b->samples[BENCH_STEP_NS], 0.99) / 1e3,
         b->first_step_ns / 1e3, ns.count);
  print_spread("  share of the reads", share, 100, "%");
  printf(" of %.1f GB/s (%s); a step reads %.1f MB of weights, %.1f MB of cache\n", probe.median / 1e9, b->read.how,
         (double)b->decode.all.weight_bytes / 1e6, (double)b->decode.all.cache_bytes / 1e6);
  print_spread("  eager / replay", bench_get(b, BENCH_EAGER_RATIO), 1, "");
  printf(" step by step in turn\n");
}

static void print_prefill(bench *b) {
  const bench_spread ns = bench_get(b, BENCH_PREFILL_NS), share = bench_get(b, BENCH_PEAK_SHARE);
  const bench_spread probe = bench_get(b, BENCH_PEAK_SPEED);
  char label[64] = "run";
  if (b->tokens > 0) snprintf(label, sizeof label, "%s of %lld", b->decodes ? "prefill" : "run", (long long)b->tokens);
  print_spread(label, speed(ns, b->tokens > 0 ? (double)b->tokens : 1), 1, b->tokens > 0 ? "tokens/s" : "runs/s");
  printf("\n");
  print_spread("  time", ns, 1e-6, "ms");
  printf(", first %.3f\n", b->first_prefill_ns / 1e6);
  print_spread("  share of the peak", share, 100, "%");
  printf(" of %.0f GOP/s (%s); %.3f useful GOP\n", probe.median / 1e9, bench_peak(b)->how,
         (double)b->prefill.all.operations / 1e9);
}

static void print_overhead(bench *b) {
  print_spread("replay overhead", bench_get(b, BENCH_OVERHEAD), 100, "%");
  printf(" of a %s\n", b->decodes ? "decode step" : "run");
  print_spread("  for each phase", bench_get(b, BENCH_OVERHEAD_NS), 1e-3, "us");
  printf(" of %u\n", b->phases);
}

static void print_against(bench *b) {
  if (!b->rival) return;
  printf("\ntime with --against, as a multiple of the time above\n");
  if (b->decodes) {
    print_spread("  decode", bench_get(b, BENCH_AGAINST_STEP), 1, "");
    printf("\n");
  }
  print_spread(b->decodes ? "  prefill" : "  run", bench_get(b, BENCH_AGAINST_PREFILL), 1, "");
  printf("\n");
}

static void print_startup(bench *b) {
  static const struct {
    const char *name;
    int which;
  } phase[] = {{"  open", BENCH_OPEN_NS},        {"  read", BENCH_READ_NS},       {"  pack", BENCH_PACK_NS},
               {"  plan", BENCH_PLAN_NS},        {"  capture", BENCH_CAPTURE_NS}, {"  first run", BENCH_FIRST_NS},
               {"  probe", BENCH_START_PROBE_NS}};
  printf("\n");
  print_spread("start", bench_get(b, BENCH_START_NS), 1e-6, "ms");
  printf(", first %.3f%s\n", b->first_start_ns / 1e6, b->request->random_weights >= 0 ? "; random weights" : "");
  for (size_t i = 0; i < sizeof phase / sizeof *phase; i++) {
    const bench_spread of = bench_get(b, phase[i].which);
    if (of.count == 0) continue;
    print_spread(phase[i].name, of, 1e-6, "ms");
    printf("\n");
  }
  const bench_spread ratio = bench_get(b, BENCH_START_RATIO);
  if (ratio.count == 0) return;
  print_spread("  start / probe", ratio, 1, "");
  printf("\n");
}

/* Of a decode step what it reads, of a prefill what it computes. */
static void print_part(const bench_part *part, double all_ns, bool reads) {
  const double done = reads ? (double)(part->weight_bytes + part->cache_bytes) : (double)part->operations;
  cli_say(stdout, "  %-32.*s %10.1f us %5.1f %%", (int)part->name_length, part->name, part->ns / 1e3,
          all_ns > 0 ? 100 * part->ns / all_ns : 0);
  if (done > 0 && part->ns > 0) printf(" %8.1f %s", done / part->ns, reads ? "GB/s" : "GOP/s");
  printf("\n");
}

static void print_table(const bench_table *table, const char *what, bool reads) {
  printf("\ntime by op, %s\n", what);
  for (uint32_t i = 0; i < table->op_count; i++) print_part(&table->op[i], table->all.ns, reads);
  printf("\nslowest layers, %s\n", what);
  for (uint32_t i = 0; i < table->layer_count && i < LAYERS_SHOWN; i++)
    print_part(&table->layer[i], table->all.ns, reads);
}

static void print_memory(const bench *b) {
  const ord_memory_report *of = &b->memory;
  printf("\nmemory, MB: peak %.1f: weights %.1f, packed %.1f, cache %.1f, values %.1f, threads %.1f, captures %.1f\n",
         (double)of->peak / 1e6, (double)of->weights / 1e6, (double)of->packed / 1e6, (double)of->cache / 1e6,
         (double)of->arena / 1e6, (double)of->worker / 1e6, (double)of->captures / 1e6);
}

void bench_print_text(bench *b) {
  print_head(b);
  if (b->decodes) print_decode(b);
  print_prefill(b);
  print_overhead(b);
  print_against(b);
  print_startup(b);
  if (b->decodes) print_table(&b->decode, "a decode step", true);
  print_table(&b->prefill, b->decodes ? "a prefill" : "a run", false);
  print_memory(b);
}
