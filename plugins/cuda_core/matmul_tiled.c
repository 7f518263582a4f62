/* SPDX-License-Identifier: MIT
 *
 * matmul for any number of rows where no library is, and by a value.
 */
#include <stdio.h>

#include "epilogue.h"
#include "matmul_weight.h"

typedef struct tiled_state {
  core_state base;
  core_work work;
  rows_plan rows;
  epilogue_plan epilogue;
  weight_layout layout;   /* of a weight */
  uint32_t in, by, scale; /* operands; by: or the weight */
  uint32_t in_place;
  bool is_weight;
  core_view batches; /* of `by`, its leading axes */
} tiled_state;

/* Tiles of rows at the plan's maximum. */
static int64_t row_tiles(const ord_node *node) {
  const ord_operand *out = &node->operand[ord_node_output(node, 0)];
  const uint32_t by = ord_node_find(node, "by");
  const int64_t rows = rows_limit(node);
  if (by == ORD_NONE || node->operand[by].rank <= 2) return core_divide_up(rows, TILE_ROWS);
  const int64_t batch_rows = out->dim[out->rank - 2];
  return batch_rows > 0 ? core_multiply(rows / batch_rows, core_divide_up(batch_rows, TILE_ROWS)) : 0;
}

/* A weight that is stored or packed by rows is shared with other kernels; one that is seen through a view, or cannot be
 * laid out by rows, is read where it lies. */
static ord_status find_layout(const ord_node *node, uint32_t weight, weight_layout *out, ord_answer *answer) {
  const ord_status status = weight_layout_find(node, weight, out, answer);
  const ord_operand *operand = &node->operand[weight];
  if (status == ORD_OK || operand->role == ORD_WEIGHT || !core_is_one_of(operand->dtype, CORE_NUMBERS)) return status;
  *out = (weight_layout){.type = operand->dtype, .row_stride = operand->stride[0], .number_stride = operand->stride[1]};
  return ORD_OK;
}

static ord_status tiled_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const core_rule rules[] = {{"in", CORE_F32}, {"weight", CORE_NUMBERS}, {"weight_scale", CORE_F32},
                                    {"by", CORE_F32}, {"bias", CORE_FLOATS},    {"out", CORE_F32},
                                    {NULL, 0}};
  (void)kernel;
  ord_status status = core_check(node, rules, answer);
  const uint32_t weight = ord_node_find(node, "weight");
  weight_layout layout;
  if (status == ORD_OK && weight != ORD_NONE) status = find_layout(node, weight, &layout, answer);
  if (status != ORD_OK) return status;
  if (rows_limit(node) > INT32_MAX)
    return core_refuse(answer, "%lld rows; wanted %d at most", (long long)rows_limit(node), INT32_MAX);
  if (weight != ORD_NONE) answer->pack[weight] = layout.pack;
  answer->epilogue_served = epilogue_accept(node);
  answer->alias_mask = epilogue_alias_mask(node, answer->epilogue_served);
  if (epilogue_has_norm(node, answer->epilogue_served)) /* the tickets */
    answer->persistent_bytes = (uint64_t)core_multiply(row_tiles(node), sizeof(unsigned));
  snprintf(answer->variant, sizeof answer->variant, "tiles of %d x %d", TILE_ROWS, TILE_COLUMNS);
  return ORD_OK;
}

static void plan_rows(tiled_state *made, const ord_node *node, const ord_answer *answer) {
  rows_begin(&made->rows, node);
  made->in_place = rows_add(&made->rows, made->in);
  if (!made->is_weight) {
    const core_view by = core_view_of(node, made->by), out = core_view_of(node, ord_node_output(node, 0));
    const core_view own = core_view_part(&by, 0, by.rank - 2);
    const core_view wide = core_view_part(&out, 0, by.rank > 2 ? out.rank - 2 : 0);
    made->batches = core_view_broadcast(&own, &wide);
  }
  epilogue_prepare(&made->rows, answer->epilogue_served, &made->epilogue);
  rows_join(&made->rows);
}

static ord_status tiled_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  tiled_state *made = core_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  ord_answer unused = {.struct_size = sizeof unused};
  made->in = ord_node_find(node, "in");
  made->by = ord_node_find(node, "by");
  made->scale = ord_node_find(node, "weight_scale");
  made->is_weight = made->by == ORD_NONE;
  if (made->is_weight) {
    made->by = ord_node_find(node, "weight");
    (void)find_layout(node, made->by, &made->layout, &unused);
  }
  plan_rows(made, node, answer);
  const ord_operand *out = &node->operand[ord_node_output(node, 0)];
  const int64_t rows = row_tiles(node);
  made->work.threads[0] = TILE_THREADS;
  made->work.blocks[0] = (uint32_t)core_divide_up(out->dim[out->rank - 1], TILE_COLUMNS);
  made->work.blocks[1] = rows < GRID_Y_MAX ? (uint32_t)rows : GRID_Y_MAX;
  const ord_status status = core_work_prepare(&made->base, "matmul_tiled", "matmul_tiled", 0, &made->work, err);
  return core_state_prepared(made, status, state);
}

/* The weight [columns, depth] or the value [.., depth, columns]. */
static void place_by(const tiled_state *made, const ord_exec *exec, tiled_arguments *out) {
  const ord_operand *by = &made->base.node->operand[made->by];
  const core_tensor batches = core_view_tensor(&made->batches, exec);
  out->by = (core_place){.data = exec->operand[made->by], .type = by->dtype};
  if (made->is_weight) {
    out->by.type = made->layout.type;
    out->by.column_stride = made->layout.row_stride;
    out->depth_stride = made->layout.number_stride;
    return;
  }
  out->by.column_stride = by->stride[by->rank - 1];
  out->depth_stride = by->stride[by->rank - 2];
  out->batches.rank = batches.rank;
  for (uint32_t axis = 0; axis < batches.rank; axis++) {
    out->batches.size[axis] = (core_size){batches.extent[axis], batches.dim[axis]};
    out->by.stride[axis] = batches.stride[axis];
  }
}

static ord_status tiled_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const tiled_state *made = state;
  const ord_node *node = made->base.node;
  const uint32_t out = ord_node_output(node, 0), rank = node->operand[out].rank;
  tiled_arguments arguments = {.rows = rows_of(&made->rows, exec),
                               .columns = core_size_of(node, exec, out, rank - 1),
                               .depth = core_size_of(node, exec, made->in, node->operand[made->in].rank - 1),
                               .in = rows_place(&made->rows, made->in_place, exec),
                               .out = rows_place(&made->rows, 0, exec),
                               .epilogue = epilogue_of(&made->epilogue, &made->rows, exec),
                               .norm = epilogue_norm_of(&made->epilogue, &made->rows, exec)};
  place_by(made, exec, &arguments);
  if (arguments.batches.rank) arguments.batch_rows = core_size_of(node, exec, out, rank - 2);
  if (made->scale != ORD_NONE) arguments.scale = exec->operand[made->scale];
  if (made->layout.has_scales)
    arguments.scale = (const float *)(arguments.by.data + node->operand[made->by].dim[0] * made->layout.row_stride);
  return core_work_launch(&made->base, exec, &made->work, &arguments, sizeof arguments, err);
}

const ord_kernel core_matmul_tiled = {
    .struct_size = sizeof core_matmul_tiled,
    .priority = 5,
    .device = ORD_DEVICE_CUDA,
    .name = "matmul_tiled",
    .op = "matmul",
    .query = tiled_query,
    .pack = weight_pack,
    .prepare = tiled_prepare,
    .launch = tiled_launch,
    .retire = core_retire,
};
