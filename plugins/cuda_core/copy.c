/* SPDX-License-Identifier: MIT
 *
 * Ops that only move numbers, for where the plan could not turn them into strides: reshape, transpose, slice, split,
 * concat, gather. Any type and any strides; a weight that is stored narrower than its result is widened on the way.
 */
#include "copy.h"
#include "core.h"

/* ---- what is moved ---- */

static ord_status check_moved(const ord_node *node, ord_answer *answer) {
  static const core_rule rules[] = {{"in", CORE_MOVED}, {"index", CORE_I32}, {"out", CORE_MOVED}, {NULL, 0}};
  const ord_operand *in = &node->operand[0];
  for (uint32_t i = 1; i < node->operand_count; i++) {
    const ord_operand *other = &node->operand[i];
    const bool is_moved = other->role == ORD_OUTPUT || (other->role != ORD_ABSENT && strcmp(other->name, "in") == 0);
    const bool is_widened =
        other->role == ORD_OUTPUT && other->dtype == ORD_F32 && core_is_one_of(in->dtype, CORE_FLOATS);
    if (is_moved && other->dtype != in->dtype && !is_widened)
      return core_refuse(answer, "%s is %s, %s is %s; wanted the same type", in->name, core_type_name(in->dtype),
                         other->name, core_type_name(other->dtype));
  }
  return core_check(node, rules, answer);
}

static copy_element find_element(const ord_node *node) {
  const ord_operand *in = &node->operand[0], *out = &node->operand[ord_node_output(node, 0)];
  return (copy_element){.bytes = out->block_bytes, .is_wider = in->dtype != out->dtype};
}

static core_view cut_axis(core_view view, uint32_t axis, int64_t count) {
  view.extent[axis] = ORD_NONE;
  view.dim[axis] = view.limit[axis] = count;
  return view;
}

/* ---- copies of whole parts: reshape, transpose, split, concat ---- */

/* A part in a run begins `begin` bytes after its operand. */
typedef struct planned_part {
  core_view into, from;
  int64_t into_begin, from_begin;
  uint32_t extent_count; /* of the sizes of a run that lie before it in the result */
} planned_part;

typedef struct copy_state {
  core_state base;
  core_work work;
  copy_element element;
  uint32_t is_small;
  uint32_t extent[COPY_EXTENTS_MAX], extent_count;
  int64_t into_stride;
  uint32_t part_count;
  planned_part part[];
} copy_state;

/* The parts of one op; the arrays have room. */
typedef void (*plan_fn)(const ord_node *node, copy_state *state);

static void plan_reshape(const ord_node *node, copy_state *state) {
  state->part_count = 1;
  state->part[0] = (planned_part){.into = core_view_of(node, ord_node_output(node, 0)), .from = core_view_of(node, 0)};
}

static void plan_transpose(const ord_node *node, copy_state *state) {
  const core_view in = core_view_of(node, 0);
  const int64_t *axes = ord_node_attr(node, "axes")->value.ints;
  plan_reshape(node, state);
  core_view *from = &state->part[0].from;
  for (uint32_t axis = 0; axis < in.rank; axis++) {
    from->extent[axis] = in.extent[axes[axis]];
    from->dim[axis] = in.dim[axes[axis]];
    from->limit[axis] = in.limit[axes[axis]];
    from->stride[axis] = in.stride[axes[axis]];
  }
}

static void plan_split(const ord_node *node, copy_state *state) {
  const core_view in = core_view_of(node, 0);
  const uint32_t axis = core_axis(node, in.rank);
  const ord_attr *sizes = ord_node_attr(node, "sizes");
  int64_t begin = 0;
  for (uint32_t i = 0; i < sizes->count; i++) {
    const int64_t size = sizes->value.ints[i];
    if (node->operand[1 + i].role != ORD_ABSENT) /* somebody asked for it */
      state->part[state->part_count++] = (planned_part){
          .into = core_view_of(node, 1 + i), .from = cut_axis(in, axis, size), .from_begin = begin * in.stride[axis]};
    begin += size;
  }
}

static void plan_concat(const ord_node *node, copy_state *state) {
  const uint32_t count = ord_node_output(node, 0);
  const core_view out = core_view_of(node, count);
  const uint32_t axis = core_axis(node, out.rank);
  int64_t begin = 0;
  state->into_stride = out.stride[axis];
  state->part_count = count;
  for (uint32_t i = 0; i < count; i++) {
    core_view from = core_view_of(node, i), into = from;
    into.which = out.which;
    into.align_log2 = out.align_log2;
    into.type = out.type;
    into.bytes = out.bytes;
    memcpy(into.stride, out.stride, sizeof into.stride);
    state->part[i] = (planned_part){
        .into = into, .from = from, .into_begin = begin * out.stride[axis], .extent_count = state->extent_count};
    if (from.extent[axis] == ORD_NONE)
      begin += from.dim[axis];
    else
      state->extent[state->extent_count++] = from.extent[axis];
  }
}

static const struct {
  const char *op;
  plan_fn plan;
} plans[] = {
#define COPY(op, function) {#op, function},
#include "kernels.def"
};

/* What an op moves is as many parts as the larger of its sides has operands. */
typedef struct side_counts {
  uint32_t in, out, extents; /* extents: of `in`, where the axis is a size of the run */
} side_counts;

static side_counts count_sides(const ord_node *node) {
  side_counts count = {0};
  for (uint32_t i = 0; i < node->operand_count; i++) {
    const ord_operand *operand = &node->operand[i];
    count.out += operand->role == ORD_OUTPUT;
    if (operand->role != ORD_INPUT && operand->role != ORD_WEIGHT) continue;
    count.in++;
    count.extents += operand->rank > 0 && operand->extent[core_axis(node, operand->rank)] != ORD_NONE;
  }
  return count;
}

static uint32_t count_parts(const ord_node *node) {
  const side_counts count = count_sides(node);
  return count.in > count.out ? count.in : count.out;
}

static ord_status copy_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  const ord_status status = check_moved(node, answer);
  if (status != ORD_OK) return status;
  const uint32_t parts = count_parts(node), extents = count_sides(node).extents;
  if (parts > COPY_PARTS_MAX * ORD_PHASE_MAX)
    return core_refuse(answer, "found %u parts; wanted at most %d", parts, COPY_PARTS_MAX * ORD_PHASE_MAX);
  if (extents > COPY_EXTENTS_MAX)
    return core_refuse(answer, "found %u parts of a run-time size; wanted at most %d", extents, COPY_EXTENTS_MAX);
  answer->phase_count = (parts + COPY_PARTS_MAX - 1) / COPY_PARTS_MAX;
  return ORD_OK;
}

static bool is_vector_part(const planned_part *part) {
  return part->into.type == part->from.type && part->into_begin % CORE_VECTOR_BYTES == 0 &&
         part->from_begin % CORE_VECTOR_BYTES == 0 && core_view_has_vectors(&part->into, false) &&
         core_view_has_vectors(&part->from, false);
}

/* Both sides are counted row-major, so that each may join its own axes. */
static void plan_walk(copy_state *state) {
  bool is_vector = state->extent_count == 0 || state->into_stride % CORE_VECTOR_BYTES == 0;
  int64_t largest = 0;
  for (uint32_t i = 0; i < state->part_count; i++) {
    planned_part *part = &state->part[i];
    core_view_merge(&part->into, 1);
    core_view_merge(&part->from, 1);
    is_vector &= is_vector_part(part);
    const int64_t count = core_view_count(&part->into);
    if (count > largest) largest = count;
  }
  for (uint32_t i = 0; is_vector && i < state->part_count; i++) {
    core_view_take_vectors(&state->part[i].into);
    core_view_take_vectors(&state->part[i].from);
  }
  state->is_small = largest <= INT32_MAX;
  if (is_vector) {
    largest /= CORE_VECTOR_BYTES / state->element.bytes;
    state->element.bytes = CORE_VECTOR_BYTES;
  }
  core_work_spread(&state->work, (largest + COPY_IN_FLIGHT - 1) / COPY_IN_FLIGHT, COPY_THREADS);
}

static ord_status copy_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                               const ord_host *host, void **state, ord_plugin_error *err) {
  copy_state *made = core_state_create(node, answer, host, sizeof *made + count_parts(node) * sizeof *made->part, err);
  if (!made) return ORD_NO_MEMORY;
  size_t which = 0;
  while (strcmp(plans[which].op, kernel->op) != 0) which++;
  made->element = find_element(node);
  plans[which].plan(node, made);
  const ord_status status = core_work_prepare(&made->base, "copy", "copy_parts", 0, &made->work, err);
  plan_walk(made);
  return core_state_prepared(made, status, state);
}

static copy_part part_in_run(const planned_part *part, const ord_exec *exec) {
  copy_part made = {core_view_tensor(&part->into, exec), core_view_tensor(&part->from, exec)};
  made.into.data += part->into_begin;
  made.from.data += part->from_begin;
  return made;
}

static ord_status copy_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const copy_state *made = state;
  ord_status status = ORD_OK;
  for (uint32_t first = 0; status == ORD_OK && first < made->part_count; first += COPY_PARTS_MAX) {
    const uint32_t rest = made->part_count - first, count = rest < COPY_PARTS_MAX ? rest : COPY_PARTS_MAX;
    copy_arguments arguments = {.into_stride = made->into_stride, .element = made->element, .is_small = made->is_small};
    for (uint32_t i = 0; i < count; i++) {
      arguments.part[i] = part_in_run(&made->part[first + i], exec);
      arguments.extent_count[i] = made->part[first + i].extent_count;
    }
    for (uint32_t i = 0; i < made->extent_count; i++) arguments.extent[i] = exec->operand[made->extent[i]];
    core_work work = made->work;
    work.blocks[1] = count;
    status = core_work_launch(&made->base, exec, &work, &arguments, sizeof arguments, err);
  }
  return status;
}

#define COPY(which, function) CORE_KERNEL(which, .query = copy_query, .prepare = copy_prepare, .launch = copy_launch);
#include "kernels.def"

/* ---- places along an axis: slice, gather ---- */

typedef struct take_state {
  core_state base;
  core_work work;
  copy_element element;
  uint32_t is_small;
  core_view before[2], place, behind[2]; /* of the result and of in */
  core_view axis, index;
  int64_t start, step;
} take_state;

static ord_status take_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  return check_moved(node, answer);
}

/* The axes before `axis`, those that stand for it, and those behind it; each group is walked by itself. */
static void plan_groups(const ord_node *node, take_state *state) {
  const core_view in = core_view_slot(node, "in"), out = core_view_of(node, ord_node_output(node, 0));
  const uint32_t axis = core_axis(node, in.rank), places = out.rank - (in.rank - 1), behind = in.rank - axis - 1;
  state->index = core_view_slot(node, "index");
  state->axis = core_view_part(&in, axis, 1);
  state->before[0] = core_view_part(&out, 0, axis);
  state->before[1] = core_view_part(&in, 0, axis);
  state->place = core_view_part(&out, axis, places);
  state->behind[0] = core_view_part(&out, axis + places, behind);
  state->behind[1] = core_view_part(&in, axis + 1, behind);
  core_view_merge(state->before, 2);
  core_view_merge(state->behind, 2);
  core_view_merge(&state->place, 1);
  core_view_merge(&state->index, 1);
}

/* The groups are parts of one operand each, so that alignment is a matter of every stride. */
static bool has_vectors(const take_state *state) {
  if (state->element.is_wider) return false;
  for (int side = 0; side < 2; side++) {
    if (!core_view_has_vectors(&state->behind[side], false)) return false;
    for (uint32_t axis = 0; axis < state->before[side].rank; axis++)
      if (state->before[side].stride[axis] % CORE_VECTOR_BYTES) return false;
  }
  for (uint32_t axis = 0; axis < state->place.rank; axis++)
    if (state->place.stride[axis] % CORE_VECTOR_BYTES) return false;
  return state->axis.stride[0] % CORE_VECTOR_BYTES == 0;
}

static ord_status take_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                               const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  take_state *made = core_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  made->element = find_element(node);
  made->start = ord_node_int(node, "start", 0);
  made->step = ord_node_int(node, "step", 1);
  plan_groups(node, made);
  const int64_t count = core_count(&node->operand[ord_node_output(node, 0)]);
  made->is_small = count <= INT32_MAX;
  if (has_vectors(made)) {
    for (int side = 0; side < 2; side++) core_view_take_vectors(&made->behind[side]);
    made->element.bytes = CORE_VECTOR_BYTES;
  }
  const ord_status status = core_work_prepare(&made->base, "copy", "take_places", 0, &made->work, err);
  core_work_spread(&made->work, count, COPY_THREADS);
  return core_state_prepared(made, status, state);
}

static ord_status take_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const take_state *made = state;
  const take_arguments arguments = {.into_before = core_view_tensor(&made->before[0], exec),
                                    .into_place = core_view_tensor(&made->place, exec),
                                    .into_behind = core_view_tensor(&made->behind[0], exec),
                                    .from_before = core_view_tensor(&made->before[1], exec),
                                    .from_behind = core_view_tensor(&made->behind[1], exec),
                                    .axis = core_view_tensor(&made->axis, exec),
                                    .index = core_view_tensor(&made->index, exec),
                                    .start = made->start,
                                    .step = made->step,
                                    .element = made->element,
                                    .is_small = made->is_small};
  return core_work_launch(&made->base, exec, &made->work, &arguments, sizeof arguments, err);
}

CORE_KERNEL(slice, .query = take_query, .prepare = take_prepare, .launch = take_launch);
CORE_KERNEL(gather, .query = take_query, .prepare = take_prepare, .launch = take_launch);
