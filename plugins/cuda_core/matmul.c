/* SPDX-License-Identifier: MIT
 *
 * matmul by a weight for few rows, as matmul_gemv.cuh does it. Two kernels of the same code: matmul_gemv for up to
 * eight rows, where nothing is faster; matmul_gemv_rows for any number, in groups of eight, for who wants the bits of a
 * row alone in a long prompt too.
 */
#include <stdio.h>

#include "epilogue.h"
#include "matmul_weight.h"

enum { GEMV_ROWS_MAX = 8, BLOCKS_PER_CORE = 4, DEPTH_MAX = 1 << 28 };

typedef struct gemv_state {
  core_state base;
  core_work work;
  rows_plan rows;
  epilogue_plan epilogue;
  weight_layout layout;
  uint32_t in, weight, scale; /* operands */
  uint32_t in_place;
  bool has_vectors; /* if the address of `in` is aligned */
} gemv_state;

/* ---- shapes ---- */

typedef struct gemv_shape {
  uint16_t type;
  int rows, columns;
  const char *image, *symbol;
} gemv_shape;

#define GEMV(name, rows, columns)                                                                                      \
  {TYPE_##name, rows, columns, "matmul_gemv_" #name, "gemv_" #name "_" #rows "x" #columns},
#define TYPE(type, name) TYPE_##name = type,
enum { GEMV_TYPES(TYPE) };
#undef TYPE
#define TYPE(type, name) GEMV_SHAPES(GEMV, name)
static const gemv_shape shapes[] = {GEMV_TYPES(TYPE)};

/* The fewest rows that suffice, and few columns where blocks of more would not keep the device busy. */
static const gemv_shape *find_shape(const ord_node *node, uint16_t type) {
  const ord_operand *weight = &node->operand[ord_node_find(node, "weight")];
  const int64_t rows = rows_limit(node), cores = node->device->cores;
  const gemv_shape *found = NULL;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const gemv_shape *shape = &shapes[i];
    if (shape->type != type || (found && found->rows >= rows && shape->rows > found->rows)) continue;
    const bool is_first = !found || shape->rows > found->rows;
    if (is_first || weight->dim[0] >= BLOCKS_PER_CORE * cores * shape->columns) found = shape;
  }
  return found;
}

static int64_t row_groups(const ord_node *node, const gemv_shape *shape) {
  return core_divide_up(rows_limit(node), shape->rows);
}

/* Warps share the depth, 32 units at a time; how they do follows from the weight alone. */
static uint32_t warps_for(const weight_layout *layout) {
  const int64_t parts = layout->row_units > 32 ? core_divide_up(layout->row_units, 32) : 1;
  const int64_t warps = core_divide_up(parts, core_divide_up(parts, GEMV_WARPS_MAX));
  return warps < GEMV_WARPS_MIN ? GEMV_WARPS_MIN : (uint32_t)warps;
}

/* ---- query, prepare, launch ---- */

static ord_status check_sizes(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  const int64_t depth = node->operand[ord_node_find(node, "weight")].dim[1], rows = rows_limit(node);
  const int64_t most = kernel == &core_matmul_gemv ? GEMV_ROWS_MAX : (int64_t)GEMV_ROWS_MAX * GRID_Y_MAX;
  if (rows > most) return core_refuse(answer, "%lld rows; wanted %lld at most", (long long)rows, (long long)most);
  if (depth > DEPTH_MAX)
    return core_refuse(answer, "rows of %lld numbers; wanted %d at most", (long long)depth, DEPTH_MAX);
  return ORD_OK;
}

static ord_status gemv_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const core_rule rules[] = {{"in", CORE_F32},      {"weight", CORE_NUMBERS}, {"weight_scale", CORE_F32},
                                    {"bias", CORE_FLOATS}, {"out", CORE_F32},        {NULL, 0}};
  ord_status status = core_check(node, rules, answer);
  if (status != ORD_OK) return status;
  const uint32_t weight = ord_node_find(node, "weight");
  if (weight == ORD_NONE) return core_refuse(answer, "a product with 'by'; wanted one with a weight");
  weight_layout layout;
  status = weight_layout_find(node, weight, &layout, answer);
  if (status == ORD_OK) status = check_sizes(kernel, node, answer);
  if (status != ORD_OK) return status;
  const gemv_shape *shape = find_shape(node, layout.type);
  answer->pack[weight] = layout.pack;
  answer->epilogue_served = epilogue_accept(node);
  answer->alias_mask = epilogue_alias_mask(node, answer->epilogue_served);
  if (epilogue_has_norm(node, answer->epilogue_served)) /* the tickets */
    answer->persistent_bytes = (uint64_t)row_groups(node, shape) * sizeof(unsigned);
  snprintf(answer->variant, sizeof answer->variant, "%s, %u warps", shape->symbol, warps_for(&layout));
  return ORD_OK;
}

static bool rows_are_vectors(const gemv_state *state) {
  const core_view *in = &state->rows.view[state->in_place];
  bool is_aligned = state->rows.column_stride[state->in_place] == sizeof(float);
  for (uint32_t axis = 0; axis < in->rank; axis++) is_aligned &= in->stride[axis] % 16 == 0;
  return is_aligned && state->base.node->operand[state->weight].dim[1] % 4 == 0;
}

static ord_status gemv_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                               const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  gemv_state *made = core_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  ord_answer unused = {.struct_size = sizeof unused};
  made->in = ord_node_find(node, "in");
  made->weight = ord_node_find(node, "weight");
  made->scale = ord_node_find(node, "weight_scale");
  (void)weight_layout_find(node, made->weight, &made->layout, &unused);
  rows_begin(&made->rows, node);
  made->in_place = rows_add(&made->rows, made->in);
  epilogue_prepare(&made->rows, answer->epilogue_served, &made->epilogue);
  rows_join(&made->rows);
  made->has_vectors = rows_are_vectors(made);
  const gemv_shape *shape = find_shape(node, made->layout.type);
  made->work.threads[0] = 32 * warps_for(&made->layout);
  made->work.blocks[0] = (uint32_t)core_divide_up(node->operand[made->weight].dim[0], shape->columns);
  made->work.blocks[1] = (uint32_t)row_groups(node, shape);
  const ord_status status = core_work_prepare(&made->base, shape->image, shape->symbol, 0, &made->work, err);
  return core_state_prepared(made, status, state);
}

static ord_status gemv_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const gemv_state *made = state;
  const ord_operand *weight = &made->base.node->operand[made->weight];
  gemv_arguments arguments = {.rows = rows_of(&made->rows, exec),
                              .in = rows_place(&made->rows, made->in_place, exec),
                              .out = rows_place(&made->rows, 0, exec),
                              .weight = exec->operand[made->weight],
                              .weight_stride = made->layout.row_stride,
                              .columns = weight->dim[0],
                              .depth = weight->dim[1],
                              .epilogue = epilogue_of(&made->epilogue, &made->rows, exec),
                              .norm = epilogue_norm_of(&made->epilogue, &made->rows, exec)};
  arguments.is_vector = made->has_vectors && (uintptr_t)arguments.in.data % 16 == 0;
  if (made->scale != ORD_NONE) arguments.scale = exec->operand[made->scale];
  if (made->layout.has_scales)
    arguments.scale = (const float *)(arguments.weight + arguments.columns * arguments.weight_stride);
  return core_work_launch(&made->base, exec, &made->work, &arguments, sizeof arguments, err);
}

/* With priorities above and below that of a library's product. */
const ord_kernel core_matmul_gemv = {
    .struct_size = sizeof core_matmul_gemv,
    .priority = 40,
    .device = ORD_DEVICE_CUDA,
    .name = "matmul_gemv",
    .op = "matmul",
    .query = gemv_query,
    .pack = weight_pack,
    .prepare = gemv_prepare,
    .launch = gemv_launch,
    .retire = core_retire,
};

const ord_kernel core_matmul_gemv_rows = {
    .struct_size = sizeof core_matmul_gemv_rows,
    .priority = 0,
    .device = ORD_DEVICE_CUDA,
    .name = "matmul_gemv_rows",
    .op = "matmul",
    .query = gemv_query,
    .pack = weight_pack,
    .prepare = gemv_prepare,
    .launch = gemv_launch,
    .retire = core_retire,
};
