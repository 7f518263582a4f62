/* SPDX-License-Identifier: MIT
 *
 * Time and work of a run by step, by op and by layer.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

/* "layer.3.self_attention.q" belongs to layer.3, "blocks.q" to blocks: up to a number, else the first word. */
static size_t layer_length(const char *path) {
  const size_t word = strcspn(path, ".");
  if (!path[word]) return word;
  const size_t digits = strspn(path + word + 1, "0123456789");
  const char end = path[word + 1 + digits];
  return digits > 0 && (end == '.' || end == '\0') ? word + 1 + digits : word;
}

static void add_to(bench_part *sum, const bench_part *step) {
  sum->ns += step->ns;
  sum->busy_ns += step->busy_ns;
  sum->phases += step->phases;
  sum->operations += step->operations;
  sum->weight_bytes += step->weight_bytes;
  sum->cache_bytes += step->cache_bytes;
}

static bool is_named(const bench_part *part, const char *name, size_t length) {
  return part->name && part->name_length == length && strncmp(part->name, name, length) == 0;
}

static void add_named(bench_part *list, uint32_t *count, const char *name, size_t length, const bench_part *step) {
  uint32_t i = 0;
  while (i < *count && !is_named(&list[i], name, length)) i++;
  if (i == *count) list[(*count)++] = (bench_part){.name = name, .name_length = length};
  add_to(&list[i], step);
}

static int by_time(const void *a, const void *b) {
  const bench_part *x = a, *y = b;
  return (x->ns < y->ns) - (x->ns > y->ns);
}

static bench_part make_step(const ord_step_time *time) {
  return (bench_part){.name = time->path,
                      .name_length = strlen(time->path),
                      .op = time->op,
                      .kernel = time->kernel,
                      .ns = time->runs ? (double)time->ns / (double)time->runs : 0,
                      .busy_ns = time->busy_runs ? (double)time->busy_ns / (double)time->busy_runs : 0,
                      .phases = time->phases,
                      .operations = time->operations,
                      .weight_bytes = time->weight_bytes,
                      .cache_bytes = time->cache_bytes};
}

bool bench_table_make(const ord_session *session, bench_table *out) {
  ord_step_time time = {.struct_size = sizeof time};
  uint32_t count = 0;
  while (ord_session_step_time(session, count, &time)) count++;
  bench_table_finish(out);
  out->step = calloc((size_t)count + 1, sizeof *out->step);
  out->op = calloc((size_t)count + 1, sizeof *out->op);
  out->layer = calloc((size_t)count + 1, sizeof *out->layer);
  if (!out->step || !out->op || !out->layer) return false;
  for (; out->step_count < count && ord_session_step_time(session, out->step_count, &time); out->step_count++) {
    const bench_part *step = &out->step[out->step_count];
    out->step[out->step_count] = make_step(&time);
    add_to(&out->all, step);
    add_named(out->op, &out->op_count, step->op, strlen(step->op), step);
    add_named(out->layer, &out->layer_count, step->name, layer_length(step->name), step);
  }
  qsort(out->op, out->op_count, sizeof *out->op, by_time);
  qsort(out->layer, out->layer_count, sizeof *out->layer, by_time);
  return true;
}

void bench_table_finish(bench_table *table) {
  free(table->step);
  free(table->op);
  free(table->layer);
  *table = (bench_table){0};
}
