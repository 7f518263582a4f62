/* SPDX-License-Identifier: MIT
 *
 * Medians, spreads and shares: arithmetic alone.
 */
#include <stdlib.h>

#include "cli/bench.h"

bool bench_add(bench_samples *samples, double value) {
  if (samples->count == samples->capacity) {
    const uint32_t capacity = samples->capacity ? 2 * samples->capacity : 16;
    double *grown = realloc(samples->value, capacity * sizeof *grown);
    if (!grown) return false;
    samples->value = grown;
    samples->capacity = capacity;
  }
  samples->value[samples->count++] = value;
  return true;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_quantile(bench_samples *samples, double share) {
  if (samples->count == 0) return 0;
  qsort(samples->value, samples->count, sizeof *samples->value, by_size);
  return samples->value[(uint32_t)(share * (samples->count - 1) + 0.5)];
}

bench_spread bench_spread_of(bench_samples *samples) {
  return (bench_spread){.median = bench_quantile(samples, 0.5),
                        .low = bench_quantile(samples, 0.1),
                        .high = bench_quantile(samples, 0.9),
                        .count = samples->count};
}

double bench_share(double done, double ns, double possible_per_s) {
  return ns > 0 && possible_per_s > 0 ? done / (ns * 1e-9) / possible_per_s : 0;
}

/* Negative where the clock's own time was less than was thought: told as it is. */
static double idle_ns(const ord_timing *timing) {
  return (double)timing->run_ns - (double)timing->clock_ns - (double)timing->busy_ns;
}

double bench_overhead(const ord_timing *timing) {
  const double run_ns = (double)timing->run_ns - (double)timing->clock_ns;
  return run_ns > 0 ? idle_ns(timing) / run_ns : 0;
}

double bench_overhead_ns(const ord_timing *timing) { return timing->phases > 0 ? idle_ns(timing) / timing->phases : 0; }

double bench_noise(const bench_spread *spread) {
  return spread->median > 0 ? (spread->high - spread->low) / spread->median : 0;
}
