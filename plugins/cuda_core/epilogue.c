/* SPDX-License-Identifier: MIT
 *
 * Rows of a result and of what goes with them, and epilogues.
 */
#include "epilogue.h"

/* ---- rows ---- */

static core_view leading_axes(const core_view *view) {
  return core_view_part(view, 0, view->rank > 0 ? view->rank - 1 : 0);
}

static uint32_t add_view(rows_plan *plan, core_view view, int64_t column_stride) {
  const uint32_t place = plan->count++;
  plan->view[place] = view;
  plan->column_stride[place] = column_stride;
  return place;
}

static int64_t column_stride_of(const core_view *view) { return view->rank > 0 ? view->stride[view->rank - 1] : 0; }

void rows_begin(rows_plan *plan, const ord_node *node) {
  *plan = (rows_plan){.node = node};
  const core_view out = core_view_of(node, ord_node_output(node, 0));
  add_view(plan, leading_axes(&out), column_stride_of(&out));
}

uint32_t rows_add(rows_plan *plan, uint32_t which) {
  const core_view view = core_view_of(plan->node, which), leading = leading_axes(&view);
  return add_view(plan, core_view_broadcast(&leading, &plan->view[0]), column_stride_of(&view));
}

void rows_join(rows_plan *plan) { core_view_merge(plan->view, plan->count); }

core_rows rows_of(const rows_plan *plan, const ord_exec *exec) {
  const core_tensor out = core_view_tensor(&plan->view[0], exec);
  core_rows rows = {.rank = out.rank};
  for (uint32_t axis = 0; axis < out.rank; axis++) rows.size[axis] = (core_size){out.extent[axis], out.dim[axis]};
  return rows;
}

core_place rows_place(const rows_plan *plan, uint32_t place, const ord_exec *exec) {
  const core_tensor tensor = core_view_tensor(&plan->view[place], exec);
  core_place made = {.data = tensor.data, .column_stride = plan->column_stride[place], .type = tensor.type};
  for (uint32_t axis = 0; tensor.data && axis < tensor.rank; axis++) made.stride[axis] = tensor.stride[axis];
  return made;
}

int64_t rows_limit(const ord_node *node) {
  const ord_operand *out = &node->operand[ord_node_output(node, 0)];
  int64_t count = 1;
  for (uint32_t axis = 0; axis + 1 < out->rank; axis++) count = core_multiply(count, out->dim[axis]);
  return count;
}

core_size core_size_of(const ord_node *node, const ord_exec *exec, uint32_t which, uint32_t axis) {
  const ord_operand *operand = &node->operand[which];
  const uint32_t scalar = operand->extent[axis];
  return scalar == ORD_NONE ? (core_size){NULL, operand->dim[axis]} : (core_size){exec->operand[scalar], 1};
}

/* ---- which items ---- */

static const char *const kind_names[] = {
    [EPILOGUE_ADD] = "add",
    [EPILOGUE_MULTIPLY] = "mul",
#define POINTWISE(op, function) [EPILOGUE_##op] = #op,
#include "kernels.def"
};

static uint32_t find_kind(const char *op) {
  uint32_t kind = 0;
  while (kind < EPILOGUE_KINDS && strcmp(kind_names[kind], op) != 0) kind++;
  return kind;
}

static bool reads_operand(uint32_t kind) { return kind == EPILOGUE_ADD || kind == EPILOGUE_MULTIPLY; }

static bool is_norm(const char *op) { return strcmp(op, "layernorm") == 0 || strcmp(op, "rmsnorm") == 0; }

/* Does it have the result's columns, and its leading axes or ones that repeat? */
static bool fits_result(const ord_node *node, uint32_t which, uint32_t types) {
  if (which == ORD_NONE) return false;
  const ord_operand *operand = &node->operand[which], *out = &node->operand[ord_node_output(node, 0)];
  if (!core_is_one_of(operand->dtype, types) || operand->rank == 0 || operand->rank > out->rank) return false;
  if (operand->dim[operand->rank - 1] != out->dim[out->rank - 1]) return false;
  for (uint32_t axis = 0; axis + 1 < operand->rank; axis++) {
    const int64_t wanted = out->dim[axis + out->rank - operand->rank];
    if (operand->dim[axis] != 1 && operand->dim[axis] != wanted) return false;
  }
  return true;
}

static bool accepts_norm(const ord_node *node, const ord_epilogue *item) {
  const ord_operand *out = &node->operand[ord_node_output(node, 0)];
  if (item->output != ORD_NONE || out->extent[out->rank - 1] != ORD_NONE) return false;
  for (int i = 0; i < 2; i++)
    if (item->operand[i] != ORD_NONE &&
        (!fits_result(node, item->operand[i], CORE_FLOATS) || node->operand[item->operand[i]].rank != 1))
      return false;
  return true;
}

static bool accepts_item(const ord_node *node, const ord_epilogue *item) {
  const uint32_t kind = find_kind(item->op);
  if (kind == EPILOGUE_KINDS) return false;
  if (item->output != ORD_NONE && !fits_result(node, item->output, CORE_F32)) return false;
  return !reads_operand(kind) || fits_result(node, item->operand[0], CORE_FLOATS);
}

uint32_t epilogue_accept(const ord_node *node) {
  const uint32_t most = ord_node_find(node, "bias") == ORD_NONE ? EPILOGUE_ITEMS : EPILOGUE_ITEMS - 1;
  uint32_t served = 0;
  while (served < node->epilogue_count && served < most && accepts_item(node, &node->epilogue[served])) served++;
  const bool has_norm = served < node->epilogue_count && is_norm(node->epilogue[served].op) &&
                        accepts_norm(node, &node->epilogue[served]);
  return has_norm ? served + 1 : served;
}

bool epilogue_has_norm(const ord_node *node, uint32_t served) {
  return served > 0 && is_norm(node->epilogue[served - 1].op);
}

/* Each number of a residual or a gate is read by the thread that stores the result's, and before. */
uint32_t epilogue_alias_mask(const ord_node *node, uint32_t served) {
  uint32_t mask = 0;
  for (uint32_t i = 0; i < served; i++) {
    const uint32_t which = node->epilogue[i].operand[0];
    if (which < 32 && reads_operand(find_kind(node->epilogue[i].op)) && core_is_laid_out_alike(node, which))
      mask |= 1u << which;
  }
  return mask;
}

/* ---- prepare and launch ---- */

static void add_item(epilogue_plan *plan, uint32_t kind, uint32_t operand, uint32_t output) {
  const uint32_t number = plan->count++;
  plan->item[number].kind = kind;
  plan->item[number].operand = operand;
  plan->item[number].output = output;
}

void epilogue_prepare(rows_plan *rows, uint32_t served, epilogue_plan *out) {
  const ord_node *node = rows->node;
  const uint32_t bias = ord_node_find(node, "bias");
  *out = (epilogue_plan){0};
  if (bias != ORD_NONE) add_item(out, EPILOGUE_ADD, rows_add(rows, bias), ORD_NONE);
  for (uint32_t i = 0; i < served; i++) {
    const ord_epilogue *item = &node->epilogue[i];
    if (is_norm(item->op)) {
      out->norm = item;
      out->norm_weight = rows_add(rows, item->operand[0]);
      out->norm_bias = rows_add(rows, item->operand[1]);
      return;
    }
    const uint32_t kind = find_kind(item->op);
    const uint32_t operand = reads_operand(kind) ? rows_add(rows, item->operand[0]) : ORD_NONE;
    add_item(out, kind, operand, item->output == ORD_NONE ? ORD_NONE : rows_add(rows, item->output));
  }
}

static core_place place_or_none(const rows_plan *rows, uint32_t place, const ord_exec *exec) {
  return place == ORD_NONE ? (core_place){0} : rows_place(rows, place, exec);
}

epilogue_list epilogue_of(const epilogue_plan *plan, const rows_plan *rows, const ord_exec *exec) {
  epilogue_list list = {.count = plan->count};
  for (uint32_t i = 0; i < plan->count; i++)
    list.item[i] = (epilogue_item){.kind = plan->item[i].kind,
                                   .operand = place_or_none(rows, plan->item[i].operand, exec),
                                   .output = place_or_none(rows, plan->item[i].output, exec)};
  return list;
}

norm_arguments epilogue_norm_of(const epilogue_plan *plan, const rows_plan *rows, const ord_exec *exec) {
  if (!plan->norm) return (norm_arguments){0};
  norm_arguments norm = {.is_wanted = true,
                         .is_centred = strcmp(plan->norm->op, "layernorm") == 0,
                         .weight = rows_place(rows, plan->norm_weight, exec),
                         .bias = rows_place(rows, plan->norm_bias, exec),
                         .ticket = exec->persistent};
  for (uint32_t i = 0; i < plan->norm->attr_count; i++)
    if (strcmp(plan->norm->attr[i].name, "eps") == 0) norm.eps = (float)plan->norm->attr[i].value.f;
  return norm;
}
