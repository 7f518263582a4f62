/* SPDX-License-Identifier: MIT
 *
 * What was measured on a GPU, for people and for programs: the rows of bench_cuda.def, and where a step loses time.
 */
#include <math.h>
#include <string.h>

#include "cli/bench_cuda.h"

static const char *const MEANS_NOTHING = "SIMULATED: these times mean nothing";

enum { LAYERS_SHOWN = 10 };

typedef enum { KIND_COUNT, KIND_FIGURE, KIND_RATIO, KIND_DIFFERENCE } row_kind;

typedef struct row {
  row_kind kind;
  int section, a, b; /* a, b: rows that a ratio or difference is of */
  const char *name, *unit, *label;
} row;

static const row rows[] = {
#define SECTION(id, needs, title)
#define COUNT(section, name, label) {KIND_COUNT, BENCH_SECTION_##section, 0, 0, #name, "", label},
#define FIGURE(section, name, unit, label) {KIND_FIGURE, BENCH_SECTION_##section, 0, 0, #name, unit, label},
#define RATIO(section, name, over, under, label)                                                                       \
  {KIND_RATIO, BENCH_SECTION_##section, BENCH_##over, BENCH_##under, #name, "", label},
#define DIFFERENCE(section, name, from, less, unit, label)                                                             \
  {KIND_DIFFERENCE, BENCH_SECTION_##section, BENCH_##from, BENCH_##less, #name, unit, label},
#include "cli/bench_cuda.def"
};

static const struct {
  const char *name, *title;
} sections[] = {
#define SECTION(id, needs, title) {#id, title},
#define COUNT(section, name, label)
#define FIGURE(section, name, unit, label)
#define RATIO(section, name, over, under, label)
#define DIFFERENCE(section, name, from, less, unit, label)
#include "cli/bench_cuda.def"
};

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* NAN: there is none. */
static double value_of(bench_cuda *b, int index) {
  const row *of = &rows[index];
  if (!bench_cuda_is_measured(b, of->section)) return NAN;
  if (of->kind == KIND_RATIO) {
    const double under = value_of(b, of->b);
    return under > 0 ? value_of(b, of->a) / under : NAN;
  }
  if (of->kind == KIND_DIFFERENCE) return value_of(b, of->a) - value_of(b, of->b);
  return b->sample[index].count ? bench_quantile(&b->sample[index], 0.5) : NAN;
}

/* Why there is none. */
static const char *why_not(const bench_cuda *b, int index) {
  const row *of = &rows[index];
  if (!bench_cuda_is_measured(b, of->section)) return b->why_not[of->section];
  if (of->kind != KIND_RATIO && of->kind != KIND_DIFFERENCE) return "there was nothing to measure";
  const int other = bench_cuda_is_measured(b, rows[of->a].section) ? of->b : of->a;
  return bench_cuda_is_measured(b, rows[other].section) ? "a time of 0" : b->why_not[rows[other].section];
}

/* What the steps of the table lose against the bandwidth, in us. */
static double floor_us(bench_cuda *b, const bench_part *part) {
  const double gb_per_s = value_of(b, BENCH_read_gb_per_s);
  return gb_per_s > 0 ? (double)(part->weight_bytes + part->cache_bytes) / gb_per_s / 1e3 : 0;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_title(const bench_cuda *b, const char *title) {
  printf("\n%s%s%s%s\n", title, b->is_simulated ? " [" : "", b->is_simulated ? MEANS_NOTHING : "",
         b->is_simulated ? "]" : "");
}

static void print_row(bench_cuda *b, int index) {
  const row *of = &rows[index];
  const double value = value_of(b, index);
  if (!isfinite(value)) {
    cli_say(stdout, "  %-46s not measured: %s\n", of->label, why_not(b, index));
    return;
  }
  printf(of->kind == KIND_COUNT ? "  %-46s %14.10g" : "  %-46s %14.3f %s", of->label, value, of->unit);
  const bench_spread spread = bench_spread_of(&b->sample[index]);
  if (of->kind == KIND_FIGURE) printf("  (%.3f .. %.3f)", spread.low, spread.high);
  printf("\n");
}

static void print_sections(bench_cuda *b) {
  for (int s = 0; s < BENCH_SECTIONS; s++) {
    if (!bench_cuda_is_measured(b, s)) {
      cli_say(stdout, "\n%s\n  not measured: %s\n", sections[s].title, b->why_not[s]);
      continue;
    }
    print_title(b, sections[s].title);
    for (int i = 0; i < BENCH_ROWS; i++)
      if (rows[i].section == s) print_row(b, i);
  }
}

static void print_loss(bench_cuda *b, const bench_part *part, bool reads) {
  const double us = part->ns / 1e3, least = floor_us(b, part);
  cli_say(stdout, "  %-32.*s %4u launch%s %10.2f us", (int)part->name_length, part->name, part->phases,
          part->phases == 1 ? "  " : "es", us);
  if (reads) printf(", floor %8.2f, above it %8.2f", least, us - least);
  if (!reads && part->operations && us > 0) printf(", %10.1f GOP/s", (double)part->operations / us / 1e3);
  printf("\n");
}

static void print_losses(bench_cuda *b, const bench_table *table, const char *what, bool reads) {
  char title[96];
  snprintf(title, sizeof title, "time by op, %s, between marks", what);
  print_title(b, title);
  for (uint32_t i = 0; i < table->op_count; i++) print_loss(b, &table->op[i], reads);
  snprintf(title, sizeof title, "slowest layers, %s", what);
  print_title(b, title);
  for (uint32_t i = 0; i < table->layer_count && i < LAYERS_SHOWN; i++) print_loss(b, &table->layer[i], reads);
}

static void print_text(bench_cuda *b) {
  cli_say(stdout, "%s\n", b->device->name);
  if (b->is_simulated) printf("%s\n", MEANS_NOTHING);
  cli_say(
      stdout,
      "%s: compute %s, kv cache %s, %lld round%s of %lld steps; medians (tenth .. ninetieth percentile); read in %s\n",
      ord_model_name(b->stage.model), cli_type_name(b->compute), cli_type_name(b->kv_cache),
      (long long)b->request->bench_repeat, cli_plural((uint64_t)b->request->bench_repeat), (long long)b->steps,
      b->read.how);
  print_sections(b);
  if (b->decodes) print_losses(b, &b->decode, "a decode step", true);
  print_losses(b, &b->prefill, b->decodes ? "a prefill" : "a run", false);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void print_number(const char *name, const char *suffix, double value) {
  if (isfinite(value))
    printf(", \"%s%s\": %.10g", name, suffix, value);
  else
    printf(", \"%s%s\": null", name, suffix);
}

static void print_json_row(bench_cuda *b, int index) {
  const row *of = &rows[index];
  const double value = value_of(b, index);
  const bench_spread spread = bench_spread_of(&b->sample[index]);
  print_number(of->name, "", value);
  if (of->kind == KIND_FIGURE) {
    print_number(of->name, "_p10", isfinite(value) ? spread.low : NAN);
    print_number(of->name, "_p90", isfinite(value) ? spread.high : NAN);
  }
  if (isfinite(value)) return;
  printf(", \"%s_not_measured\": ", of->name);
  cli_write_json(stdout, why_not(b, index), SIZE_MAX);
}

/* Before each group of times, so that none is read without it. */
static void open_object(const bench_cuda *b, const char *name) {
  printf(",\n \"%s\": {\"simulated\": %s", name, b->is_simulated ? "true" : "false");
}

static void print_json_sections(bench_cuda *b) {
  for (int s = 0; s < BENCH_SECTIONS; s++) {
    open_object(b, sections[s].name);
    for (int i = 0; i < BENCH_ROWS; i++)
      if (rows[i].section == s) print_json_row(b, i);
    printf("}");
  }
}

static void print_times(void *context, const bench_part *part) {
  const double us = part->ns / 1e3, least = floor_us(context, part);
  print_number("us", "", us);
  print_number("floor_us", "", least);
  print_number("residual_us", "", us - least);
}

static void print_json_parts(bench_cuda *b, const char *name, const bench_part *list, uint32_t count) {
  bench_print_json_parts(name, list, count, "launches", print_times, b);
}

static void print_json_table(bench_cuda *b, const char *name, const bench_table *table) {
  open_object(b, name);
  print_number("us", "", table->all.ns / 1e3);
  print_json_parts(b, "ops", table->op, table->op_count);
  print_json_parts(b, "layers", table->layer, table->layer_count);
  print_json_parts(b, "steps", table->step, table->step_count);
  printf("}");
}

static void print_json(bench_cuda *b) {
  const bench_spread read = bench_spread_of(&b->sample[BENCH_read_gb_per_s]);
  const double noise = bench_noise(&read);
  printf("{\"device\": ");
  cli_write_json(stdout, b->device->name, SIZE_MAX);
  printf(", \"simulated\": %s, \"compute_capability\": %u,\n \"model\": ", b->is_simulated ? "true" : "false",
         b->device->compute_capability);
  cli_write_json(stdout, ord_model_name(b->stage.model), SIZE_MAX);
  printf(", \"compute\": \"%s\", \"kv_cache\": \"%s\", \"rounds\": %lld, \"steps\": %lld, \"read_pattern\": ",
         cli_type_name(b->compute), cli_type_name(b->kv_cache), (long long)b->request->bench_repeat,
         (long long)b->steps);
  cli_write_json(stdout, b->read.how, SIZE_MAX);
  print_number("noise", "", noise);
  printf(", \"noisy\": %s", noise > BENCH_NOISE_LIMIT ? "true" : "false");
  print_json_sections(b);
  if (b->decodes) print_json_table(b, "decode_step", &b->decode);
  print_json_table(b, "prefill_run", &b->prefill);
  printf("}\n");
}

void bench_cuda_print(bench_cuda *b) {
  if (b->request->json)
    print_json(b);
  else
    print_text(b);
}
