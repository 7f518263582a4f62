/* SPDX-License-Identifier: MIT
 *
 * The driver of the passes: runs those of passes.def that are not switched off, one after the other, and notes what
 * each did.
 */
#include <string.h>

#include "graphs/edit.h"
#include "graphs/passes.h"

static const ord_pass PASSES[] = {
#define PASS(name, about) {#name, about, ord_pass_##name},
#include "graphs/passes.def"
#undef PASS
};

uint32_t ord_pass_count(void) { return sizeof PASSES / sizeof *PASSES; }

const ord_pass *ord_pass_get(uint32_t index) { return index < ord_pass_count() ? &PASSES[index] : NULL; }

static bool is_disabled(const ord_pass_options *options, const ord_pass *pass) {
  for (uint32_t i = 0; i < options->disabled_count; i++)
    if (strcmp(options->disabled[i], pass->name) == 0) return true;
  return false;
}

static bool is_pass(const char *name) {
  for (uint32_t i = 0; i < ord_pass_count(); i++)
    if (strcmp(PASSES[i].name, name) == 0) return true;
  return false;
}

static bool check_names(const ord_pass_options *options, ord_error *err) {
  for (uint32_t i = 0; i < options->disabled_count; i++) {
    if (is_pass(options->disabled[i])) continue;
    ord_text known = {0};
    for (uint32_t p = 0; p < ord_pass_count(); p++) ord_text_add(&known, "%s%s", p ? ", " : "", PASSES[p].name);
    const bool is_told = known.failed ? ord_fail_memory(err, "listing the passes")
                                      : ord_fail(err, ORD_INVALID, "--disable-pass: found '%s'; wanted one of %s",
                                                 options->disabled[i], known.bytes);
    ord_text_finish(&known);
    return is_told;
  }
  return true;
}

/* What a graph costs. */
typedef struct cost {
  uint32_t ops;
  uint64_t moved, peak;
} cost;

static bool measure(const ord_graph *graph, cost *out, ord_error *err) {
  out->ops = graph->node_count;
  return ord_graph_moved_bytes(graph, &out->moved, err) && ord_graph_peak_bytes(graph, &out->peak, err);
}

/* Runs one pass on *graph, which becomes the new one. */
static bool run_pass(const ord_pass *pass, const ord_pass_options *options, ord_graph **graph, ord_error *err) {
  ord_graph *made = NULL;
  if (!pass->run(*graph, options, &made, err)) return ord_fail_prefix(err, "pass %s", pass->name);
  ord_graph_destroy(*graph);
  *graph = made;
  return true;
}

static bool run_all(ord_graph **graph, const ord_pass_options *options, ord_pass_record *record,
                    ord_pass_print_fn print, void *print_context, ord_error *err) {
  cost before, after;
  if (!measure(*graph, &before, err)) return false;
  for (uint32_t i = 0; i < ord_pass_count(); i++, before = after) {
    const ord_pass *pass = &PASSES[i];
    const bool is_off = is_disabled(options, pass);
    if (print && i == 0) print(print_context, pass, *graph);
    if (!is_off && !run_pass(pass, options, graph, err)) return false;
    if (!measure(*graph, &after, err)) return false;
    const bool has_changed = before.ops != after.ops || before.moved != after.moved || before.peak != after.peak;
    if (print && has_changed) print(print_context, pass, *graph);
    if (record)
      record[i] = (ord_pass_record){.was_disabled = is_off,
                                    .ops_before = before.ops,
                                    .ops_after = after.ops,
                                    .moved_before = before.moved,
                                    .moved_after = after.moved,
                                    .peak_before = before.peak,
                                    .peak_after = after.peak};
  }
  return true;
}

bool ord_passes_run(const ord_graph *graph, const ord_pass_options *options, ord_pass_record *record,
                    ord_pass_print_fn print, void *print_context, ord_graph **out, ord_error *err) {
  ord_graph *current = NULL;
  if (!check_names(options, err) || !ord_graph_copy(graph, &current, err)) return false;
  if (!run_all(&current, options, record, print, print_context, err)) {
    ord_graph_destroy(current);
    return false;
  }
  *out = current;
  return true;
}
