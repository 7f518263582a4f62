/* SPDX-License-Identifier: MIT
 *
 * Pass make_views: an op that only looks at its input in another way becomes a view, so that no bytes move. Three
 * changes, each made on trial and taken back if a kernel that reads or makes one of the values would not take the new
 * strides:
 *   - the result is a view into the memory of the input;
 *   - a transpose: its input is made in the order that the result wants (the heads, for their concat), so that the
 *     result is dense;
 *   - a concat: its inputs are made inside its result.
 * A node that a pin selects keeps its kernel.
 */
#include <string.h>

#include "graphs/edit.h"
#include "graphs/passes.h"

typedef struct view_maker {
  ord_graph *graph;
  const ord_pass_options *options;
  ord_readers readers; /* view_count follows the changes */
} view_maker;

/* A kernel that sees one of the values. */
typedef struct view_witness {
  uint32_t node;
  const ord_kernel *kernel; /* before the change; NULL: none but the reference */
} view_witness;

/* Values as they would become. */
typedef struct view_trial {
  ord_arena arena;
  uint32_t node; /* which falls away */
  uint32_t *value;
  ord_value *with;
  uint32_t count;
} view_trial;

static const char DOING[] = "making views";

static bool may_fall_away(const view_maker *maker, const ord_graph_node *node) {
  return node->op && (node->op->view || (node->op->flags & ORD_OP_JOINS)) && !ord_node_is_pinned(node, maker->options);
}

/* ---- trying a change ------------------------------------------------------------------------------------------ */

static bool trial_begin(view_trial *trial, uint32_t node, uint32_t capacity, ord_error *err) {
  *trial = (view_trial){.node = node};
  trial->value = ord_arena_take(&trial->arena, capacity, sizeof *trial->value);
  trial->with = ord_arena_take(&trial->arena, capacity, sizeof *trial->with);
  if (trial->value && trial->with) return true;
  ord_arena_finish(&trial->arena);
  return ord_fail_memory(err, DOING);
}

static void trial_add(view_trial *trial, uint32_t value, ord_value with) {
  trial->value[trial->count] = value;
  trial->with[trial->count++] = with;
}

static void trial_swap(const view_maker *maker, view_trial *trial) {
  for (uint32_t i = 0; i < trial->count; i++) {
    const ord_value was = maker->graph->value[trial->value[i]];
    maker->graph->value[trial->value[i]] = trial->with[i];
    trial->with[i] = was;
  }
}

/* Views are not asked: they fall away too, or copy whatever they are given. */
static bool must_agree(const view_maker *maker, const view_trial *trial, uint32_t n) {
  const ord_graph_node *node = &maker->graph->node[n];
  return n != trial->node && node->op && !(node->op->view && may_fall_away(maker, node));
}

/* Node `n` sees a value of the trial. *out_agrees turns false if it takes no change at all: a composite that lowering
 * will write out cannot answer for its parts. */
static bool add_witness(const view_maker *maker, const view_trial *trial, uint32_t n, view_witness *witness,
                        uint32_t *count, bool *out_agrees, ord_error *err) {
  const ord_graph_node *node = &maker->graph->node[n];
  if (!must_agree(maker, trial, n) || (*count > 0 && witness[*count - 1].node == n)) return true;
  ord_asked asked;
  if (!ord_graph_ask(maker->graph, node, maker->options, &asked, err)) return false;
  if (!asked.kernel && node->op->lower && !ord_node_is_pinned(node, maker->options)) *out_agrees = false;
  if (asked.kernel) witness[(*count)++] = (view_witness){n, asked.kernel};
  return true;
}

/* The makers and readers of the values that have a kernel to lose. */
static bool find_witnesses(const view_maker *maker, view_trial *trial, view_witness **out, uint32_t *out_count,
                           bool *out_agrees, ord_error *err) {
  const ord_graph *graph = maker->graph;
  const uint32_t *begin = maker->readers.begin;
  uint32_t capacity = 0;
  for (uint32_t i = 0; i < trial->count; i++) capacity += 1 + begin[trial->value[i] + 1] - begin[trial->value[i]];
  view_witness *witness = ord_arena_take(&trial->arena, capacity, sizeof *witness);
  if (!witness) return ord_fail_memory(err, DOING);
  *out = witness;
  *out_count = 0;
  *out_agrees = true;
  for (uint32_t i = 0; i < trial->count && *out_agrees; i++) {
    const ord_value *value = &graph->value[trial->value[i]];
    if (value->kind == ORD_VALUE_RESULT && value->index != ORD_NONE &&
        !add_witness(maker, trial, value->index, witness, out_count, out_agrees, err))
      return false;
    for (uint32_t r = begin[trial->value[i]]; r < begin[trial->value[i] + 1] && *out_agrees; r++)
      if (!add_witness(maker, trial, maker->readers.node[r], witness, out_count, out_agrees, err)) return false;
  }
  return true;
}

/* Keeps the change: the node falls away. */
static void trial_keep(const view_maker *maker, const view_trial *trial) {
  for (uint32_t i = 0; i < trial->count; i++) {
    const ord_value *was = &trial->with[i], *is = &maker->graph->value[trial->value[i]];
    if (was->storage == ORD_STORAGE_VIEW) maker->readers.view_count[was->base]--;
    if (is->storage == ORD_STORAGE_VIEW) maker->readers.view_count[is->base]++;
  }
  ord_node_remove(&maker->graph->node[trial->node]);
}

/* Makes the change if every kernel stays that was there before. */
static bool trial_run(const view_maker *maker, view_trial *trial, bool *out_done, ord_error *err) {
  const ord_graph *graph = maker->graph;
  view_witness *witness = NULL;
  uint32_t count = 0;
  *out_done = false;
  bool agrees;
  if (!find_witnesses(maker, trial, &witness, &count, &agrees, err)) return false;
  if (!agrees) return true;
  trial_swap(maker, trial);
  for (uint32_t i = 0; i < count && agrees; i++) {
    ord_asked asked;
    if (!ord_graph_ask(graph, &graph->node[witness[i].node], maker->options, &asked, err)) return false;
    agrees = asked.kernel == witness[i].kernel;
  }
  if (agrees)
    trial_keep(maker, trial);
  else
    trial_swap(maker, trial);
  *out_done = agrees;
  return true;
}

/* ---- asking the op -------------------------------------------------------------------------------------------- */

typedef struct shape {
  int64_t dim[ORD_RANK_MAX];
  bool runs[ORD_RANK_MAX];
} shape;

static bool read_shape(const ord_graph *graph, const ord_value *value, shape *out) {
  int64_t exact;
  for (uint32_t axis = 0; axis < value->rank; axis++) out->runs[axis] = !ord_size_is_constant(value->dim[axis], &exact);
  return ord_value_dims(graph, value, out->dim, NULL);
}

/* Result number `which` of the node as a view of a value laid out like `in`; false where bytes must move. */
static bool ask_op(const ord_graph *graph, const ord_graph_node *node, const ord_value *in, uint32_t which,
                   ord_value *out) {
  *out = graph->value[node->out[which]];
  shape from, to;
  if (!read_shape(graph, in, &from) || !read_shape(graph, out, &to)) return false;
  ord_view_request request = {.attr = node->attr,
                              .attr_count = node->attr_count,
                              .in_rank = in->rank,
                              .out_rank = out->rank,
                              .which = which,
                              .in_dim = from.dim,
                              .in_stride = in->stride,
                              .out_dim = to.dim,
                              .in_runs = from.runs,
                              .out_runs = to.runs,
                              .in_size = in->dim,
                              .out_size = out->dim};
  if (!node->op->view(&request)) return false;
  out->storage = ORD_STORAGE_VIEW;
  out->base = ord_value_base(graph, node->in[0]);
  out->offset = in->offset + request.out_offset;
  memcpy(out->stride, request.out_stride, sizeof out->stride);
  return true;
}

/* ---- a view of the input -------------------------------------------------------------------------------------- */

/* A view of a weight must show the numbers as the result has them; outputs lie in memory that only a run writes. */
static bool may_be_viewed(const view_maker *maker, const ord_graph_node *node) {
  const ord_graph *graph = maker->graph;
  const ord_value *base = &graph->value[ord_value_base(graph, node->in[0])];
  if (base->kind == ORD_VALUE_RESULT) return true;
  for (uint32_t i = 0; i < node->out_count; i++)
    if (graph->value[node->out[i]].dtype != base->dtype || maker->readers.is_output[node->out[i]]) return false;
  return true;
}

static bool try_view(const view_maker *maker, uint32_t n, bool *out_done, ord_error *err) {
  const ord_graph *graph = maker->graph;
  const ord_graph_node *node = &graph->node[n];
  view_trial trial;
  *out_done = false;
  if (!trial_begin(&trial, n, node->out_count, err)) return false;
  bool is_view = true, done = true;
  for (uint32_t i = 0; i < node->out_count && is_view; i++) {
    ord_value with;
    is_view = ask_op(graph, node, &graph->value[node->in[0]], i, &with);
    trial_add(&trial, node->out[i], with);
  }
  if (is_view) done = trial_run(maker, &trial, out_done, err);
  ord_arena_finish(&trial.arena);
  return done;
}

/* ---- an input in the order of the result ---------------------------------------------------------------------- */

/* Does the op only reorder axes? Then axis[i] of the input is axis i of the result. Strides that no other axis has
 * show where each went. */
static bool find_permutation(const ord_graph *graph, const ord_graph_node *node, uint32_t axis[ORD_RANK_MAX]) {
  ord_value in = graph->value[node->in[0]], out;
  for (uint32_t i = 0; i < in.rank; i++) in.stride[i] = (int64_t)1 << (8 * i + 1);
  in.offset = 0;
  if (node->out_count != 1 || !ask_op(graph, node, &in, 0, &out) || out.rank != in.rank || out.offset != 0)
    return false;
  bool is_used[ORD_RANK_MAX] = {false};
  for (uint32_t i = 0; i < out.rank; i++) {
    uint32_t from = 0;
    while (from < in.rank && in.stride[from] != out.stride[i]) from++;
    if (from == in.rank || is_used[from] || !ord_size_equal(in.dim[from], out.dim[i])) return false;
    is_used[from] = true;
    axis[i] = from;
  }
  return true;
}

static bool try_permuted_input(const view_maker *maker, uint32_t n, bool *out_done, ord_error *err) {
  const ord_graph *graph = maker->graph;
  const ord_graph_node *node = &graph->node[n];
  const uint32_t source = node->in[0];
  ord_value in = graph->value[source];
  uint32_t axis[ORD_RANK_MAX] = {0};
  *out_done = false;
  if (in.kind != ORD_VALUE_RESULT || in.storage != ORD_STORAGE_OWN || maker->readers.view_count[source] ||
      !find_permutation(graph, node, axis))
    return true;
  ord_value out = graph->value[node->out[0]]; /* dense: nothing has changed it yet */
  for (uint32_t i = 0; i < out.rank; i++) in.stride[axis[i]] = out.stride[i];
  out.storage = ORD_STORAGE_VIEW;
  out.base = source;
  view_trial trial;
  if (!trial_begin(&trial, n, 2, err)) return false;
  trial_add(&trial, source, in);
  trial_add(&trial, node->out[0], out);
  const bool done = trial_run(maker, &trial, out_done, err);
  ord_arena_finish(&trial.arena);
  return done;
}

/* Would a view behind this one have to copy, if this were a view of its input? */
static bool leads_to_copy(const view_maker *maker, const ord_graph_node *node) {
  const ord_graph *graph = maker->graph;
  ord_value view, next;
  if (node->out_count != 1 || !ask_op(graph, node, &graph->value[node->in[0]], 0, &view)) return false;
  const ord_readers *readers = &maker->readers;
  for (uint32_t r = readers->begin[node->out[0]]; r < readers->begin[node->out[0] + 1]; r++) {
    const ord_graph_node *reader = &graph->node[readers->node[r]];
    if (!reader->op || !reader->op->view || reader->in[0] != node->out[0]) continue;
    if (may_fall_away(maker, reader) && !ask_op(graph, reader, &view, 0, &next)) return true;
  }
  return false;
}

static bool make_view(const view_maker *maker, uint32_t n, ord_error *err) {
  const ord_graph_node *node = &maker->graph->node[n];
  bool is_done = false;
  if (!may_be_viewed(maker, node)) return true;
  if (leads_to_copy(maker, node) && !try_permuted_input(maker, n, &is_done, err)) return false;
  if (!is_done && !try_view(maker, n, &is_done, err)) return false;
  return is_done || try_permuted_input(maker, n, &is_done, err);
}

/* ---- inputs inside the result --------------------------------------------------------------------------------- */

/* `whole` holds the numbers of `view` in memory of its own, its axes perhaps reordered or of size 1: the strides that
 * it gets when the view's become `stride`. */
static bool follow_view(const ord_graph *graph, ord_value *whole, const ord_value *view, const int64_t *stride) {
  int64_t dim[ORD_RANK_MAX], view_dim[ORD_RANK_MAX];
  if (!ord_value_dims(graph, whole, dim, NULL) || !ord_value_dims(graph, view, view_dim, NULL)) return false;
  bool is_used[ORD_RANK_MAX] = {false};
  for (uint32_t axis = 0; axis < whole->rank; axis++) {
    int64_t exact;
    if (dim[axis] == 1 && ord_size_is_constant(whole->dim[axis], &exact)) continue;
    uint32_t to = 0;
    while (to < view->rank &&
           (is_used[to] || view->stride[to] != whole->stride[axis] || !ord_size_equal(view->dim[to], whole->dim[axis])))
      to++;
    if (to == view->rank) return false;
    is_used[to] = true;
    whole->stride[axis] = stride[to];
  }
  for (uint32_t axis = 0; axis < view->rank; axis++)
    if (!is_used[axis] && view_dim[axis] != 1) return false;
  return true;
}

static bool has_other_views(const view_maker *maker, uint32_t base, uint32_t view) {
  return maker->readers.view_count[base] > (view != base ? 1 : 0);
}

/* Entry `which` of a join moves into the result, `offset` elements behind its start; false if it cannot. */
static bool move_into(const view_maker *maker, const ord_graph_node *node, uint32_t which, int64_t offset,
                      view_trial *trial) {
  const ord_graph *graph = maker->graph;
  const uint32_t entry = node->in[which], base = ord_value_base(graph, entry), joined = node->out[0];
  ord_value view = graph->value[entry], whole = graph->value[base];
  if (whole.kind != ORD_VALUE_RESULT || base == joined || has_other_views(maker, base, entry)) return false;
  for (uint32_t i = 0; i < trial->count; i++)
    if (trial->value[i] == base || trial->value[i] == entry) return false;
  if (!follow_view(graph, &whole, &graph->value[entry], graph->value[joined].stride)) return false;
  whole.storage = view.storage = ORD_STORAGE_VIEW;
  whole.base = view.base = joined;
  whole.offset = view.offset = offset;
  memcpy(view.stride, graph->value[joined].stride, sizeof view.stride);
  if (base != entry) trial_add(trial, base, whole);
  trial_add(trial, entry, view);
  return true;
}

static bool plan_join(const view_maker *maker, const ord_graph_node *node, view_trial *trial) {
  const ord_graph *graph = maker->graph;
  const ord_value *joined = &graph->value[node->out[0]];
  const ord_attr *axis = ord_attr_find(node->attr, node->attr_count, "axis");
  int64_t begin = 0;
  for (uint32_t i = 0; i < node->in_count; i++) {
    const ord_value *entry = &graph->value[node->in[i]];
    if (!move_into(maker, node, i, begin * joined->stride[axis->value.i], trial)) return false;
    int64_t size;
    /* Behind an entry whose size only a run knows, the next would begin at another place in each run. */
    if (i + 1 < node->in_count && !ord_size_is_constant(entry->dim[axis->value.i], &size)) return false;
    if (i + 1 < node->in_count) begin += size;
  }
  return true;
}

static bool make_join(const view_maker *maker, uint32_t n, ord_error *err) {
  const ord_graph *graph = maker->graph;
  const ord_graph_node *node = &graph->node[n];
  view_trial trial;
  bool is_done = false, done = true;
  if (graph->value[node->out[0]].storage != ORD_STORAGE_OWN) return true;
  if (!trial_begin(&trial, n, 2 * node->in_count, err)) return false;
  if (plan_join(maker, node, &trial)) done = trial_run(maker, &trial, &is_done, err);
  ord_arena_finish(&trial.arena);
  return done;
}

/* Joins come last: by then what reads a joined value has said in which order it wants it. */
static bool rewrite(view_maker *maker, ord_error *err) {
  if (!ord_readers_make(maker->graph, &maker->graph->arena, &maker->readers, err)) return false;
  for (uint32_t n = 0; n < maker->graph->node_count; n++) {
    const ord_graph_node *node = &maker->graph->node[n];
    if (may_fall_away(maker, node) && node->op->view && !make_view(maker, n, err)) return false;
  }
  for (uint32_t n = 0; n < maker->graph->node_count; n++) {
    const ord_graph_node *node = &maker->graph->node[n];
    if (may_fall_away(maker, node) && !node->op->view && !make_join(maker, n, err)) return false;
  }
  ord_graph_close_gaps(maker->graph);
  return true;
}

bool ord_pass_make_views(const ord_graph *graph, const ord_pass_options *options, ord_graph **out, ord_error *err) {
  view_maker maker = {.options = options};
  if (!ord_graph_copy(graph, &maker.graph, err)) return false;
  if (!rewrite(&maker, err)) {
    ord_graph_destroy(maker.graph);
    return false;
  }
  *out = maker.graph;
  return true;
}
