/* SPDX-License-Identifier: MIT
 *
 * The arithmetic of `ordito bench`: quantiles, shares, overhead, noise; and the table by op and layer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

static void near(double found, double wanted) {
  const double off = found - wanted;
  if (off > 1e-9 || off < -1e-9) fail_msg("found %.12g; wanted %.12g", found, wanted);
}

static void quantiles_are_samples(void **state) {
  (void)state;
  bench_samples samples = {0};
  near(bench_quantile(&samples, 0.5), 0);
  for (int i = 0; i < 101; i++) assert_true(bench_add(&samples, (i * 37) % 101));
  near(bench_quantile(&samples, 0.5), 50);
  near(bench_quantile(&samples, 0), 0);
  near(bench_quantile(&samples, 1), 100);
  const bench_spread spread = bench_spread_of(&samples);
  near(spread.low, 10);
  near(spread.median, 50);
  near(spread.high, 90);
  assert_int_equal(spread.count, 101);
  near(bench_noise(&spread), 80.0 / 50);
  free(samples.value);
}

static void one_sample_is_its_own_spread(void **state) {
  (void)state;
  bench_samples samples = {0};
  assert_true(bench_add(&samples, 7));
  const bench_spread spread = bench_spread_of(&samples);
  near(spread.low, 7);
  near(spread.high, 7);
  near(bench_noise(&spread), 0);
  free(samples.value);
}

static void shares_are_of_what_is_possible(void **state) {
  (void)state;
  /* 300 MB in 10 ms are 30 GB/s, of 40 GB/s. */
  near(bench_share(300e6, 10e6, 40e9), 0.75);
  near(bench_share(1, 0, 40e9), 0);
  near(bench_share(1, 1, 0), 0);
}

static void overhead_is_what_no_kernel_used(void **state) {
  (void)state;
  ord_timing timing = {.run_ns = 1100, .busy_ns = 900, .clock_ns = 100, .phases = 4};
  near(bench_overhead(&timing), 0.1);
  near(bench_overhead_ns(&timing), 25);
  timing.phases = 0;
  near(bench_overhead_ns(&timing), 0);
}

/* ---- the table, with step times of our own ---- */

static const ord_step_time steps[] = {
    {.path = "x", .op = "embedding", .kernel = "e", .phases = 1, .ns = 20, .runs = 2, .weight_bytes = 8},
    {.path = "layer.3.attention.q", .op = "matmul", .kernel = "m", .phases = 2, .ns = 600, .runs = 2, .operations = 50},
    {.path = "layer.3.h",
     .op = "layernorm",
     .kernel = "n",
     .phases = 1,
     .ns = 100,
     .runs = 2,
     .busy_ns = 90,
     .busy_runs = 3},
    {.path = "layer.31.h",
     .op = "matmul",
     .kernel = "m",
     .phases = 1,
     .ns = 2000,
     .runs = 2,
     .operations = 7,
     .cache_bytes = 9},
    {.path = "layer.deep.h", .op = "layernorm", .kernel = "n", .phases = 1},
};

bool ord_session_step_time(const ord_session *session, uint32_t index, ord_step_time *out) {
  (void)session;
  if (index >= sizeof steps / sizeof *steps) return false;
  *out = steps[index];
  return true;
}

static void check_part(const bench_part *part, const char *name, double ns, uint32_t phases, uint64_t operations) {
  assert_int_equal(part->name_length, strlen(name));
  assert_memory_equal(part->name, name, strlen(name));
  near(part->ns, ns);
  assert_int_equal(part->phases, phases);
  assert_int_equal(part->operations, operations);
}

static void the_table_sums_by_op_and_layer(void **state) {
  (void)state;
  bench_table table = {0};
  assert_true(bench_table_make(NULL, &table));
  assert_int_equal(table.step_count, 5);
  check_part(&table.step[0], "x", 10, 1, 0);
  assert_string_equal(table.step[1].kernel, "m");
  near(table.step[2].busy_ns, 30);
  assert_int_equal(table.op_count, 3);
  check_part(&table.op[0], "matmul", 1300, 3, 57);
  check_part(&table.op[1], "layernorm", 50, 2, 0);
  check_part(&table.op[2], "embedding", 10, 1, 0);
  assert_int_equal(table.layer_count, 4);
  check_part(&table.layer[0], "layer.31", 1000, 1, 7);
  check_part(&table.layer[1], "layer.3", 350, 3, 50);
  check_part(&table.layer[2], "x", 10, 1, 0);
  check_part(&table.layer[3], "layer", 0, 1, 0);
  near(table.all.ns, 1360);
  assert_int_equal(table.all.weight_bytes, 8);
  assert_int_equal(table.all.cache_bytes, 9);
  bench_table_finish(&table);
  assert_null(table.step);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quantiles_are_samples),          cmocka_unit_test(one_sample_is_its_own_spread),
      cmocka_unit_test(shares_are_of_what_is_possible), cmocka_unit_test(overhead_is_what_no_kernel_used),
      cmocka_unit_test(the_table_sums_by_op_and_layer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
