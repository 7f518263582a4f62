/* SPDX-License-Identifier: MIT
 *
 * matmul: in [.., k] by a weight [n, k] that was packed into panels of 16 outputs, or by a value [.., k, n] whose
 * panels are laid out as they are needed. The work is cut into units of some panels and at most 48 rows; which units
 * there are follows from the node alone.
 */
#include <stdio.h>

#include "matmul.h"

/* Names the layout "panels of 16 output rows, k-major, f32, zero padded". */
#define KEY_PANEL_16_F32 UINT64_C(0x6f7270616e103200)

enum { UNIT_ROWS = 48, UNITS_PER_CHUNK_LIMIT = 1024 };

/* How the work is cut; of the plan's maximum. */
typedef struct matmul_grid {
  int64_t batches, blocks, groups; /* batches: of `by`; blocks of rows; groups of panels */
} matmul_grid;

typedef struct matmul_state {
  plain_state base;
  matmul_grid grid;
  epilogue_list epilogue;
} matmul_state;

static matmul_grid cut(const ord_node *node) {
  const ord_operand *in = &node->operand[ord_node_find(node, "in")];
  const ord_operand *out = &node->operand[ord_node_output(node, 0)];
  const bool has_batches = ord_node_find(node, "by") != ORD_NONE;
  const int64_t columns = out->dim[out->rank - 1], depth = in->dim[in->rank - 1];
  int64_t rows = 1, batches = 1;
  for (uint32_t axis = 0; axis + 1 < out->rank; axis++) {
    int64_t *count = has_batches && axis + 2 < out->rank ? &batches : &rows;
    *count = plain_multiply(*count, out->dim[axis]);
  }
  const int64_t blocks = rows / UNIT_ROWS + (rows % UNIT_ROWS > 0);
  const int64_t chunks =
      plain_chunks(PLAIN_HERE, plain_multiply(plain_multiply(batches, rows), plain_multiply(columns, depth)));
  const int64_t others = plain_multiply(batches, blocks) > 0 ? plain_multiply(batches, blocks) : 1;
  const int64_t groups = chunks / others + 1, panels = panel_count(columns);
  return (matmul_grid){batches, blocks, groups < panels ? groups : panels > 0 ? panels : 1};
}

/* ---- query, pack, prepare ---- */

static ord_status matmul_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const plain_rule rules[] = {{"in", PLAIN_F32, PLAIN_UNIT},
                                     {"weight", PLAIN_NUMBERS, 0},
                                     {"weight_scale", PLAIN_F32, PLAIN_UNIT},
                                     {"by", PLAIN_F32, 0},
                                     {"bias", PLAIN_FLOATS, PLAIN_UNIT | PLAIN_PACKED},
                                     {"out", PLAIN_F32, PLAIN_UNIT},
                                     {NULL, 0, 0}};
  (void)kernel;
  if (node->compute != ORD_F32)
    return plain_refuse(answer, "products are wanted in %s; this kernel makes them in f32",
                        plain_type_name((uint16_t)node->compute));
  const matmul_grid grid = cut(node);
  const int64_t units = plain_multiply(plain_multiply(grid.batches, grid.blocks), grid.groups);
  const ord_status status =
      plain_check(node, rules, units < UNITS_PER_CHUNK_LIMIT ? units : UNITS_PER_CHUNK_LIMIT, answer);
  if (status != ORD_OK) return status;
  const ord_operand *in = &node->operand[ord_node_find(node, "in")];
  const int64_t panel_bytes = plain_multiply(in->dim[in->rank - 1], PANEL_WIDTH * sizeof(float));
  const uint32_t weight = ord_node_find(node, "weight");
  if (weight == ORD_NONE) {
    if (in->rank < 2) return plain_refuse(answer, "in has one axis; with 'by' wanted two or more");
    answer->worker_bytes = (uint64_t)panel_bytes;
  } else {
    const int64_t panels = panel_count(node->operand[weight].dim[0]);
    answer->pack[weight] = (ord_pack){KEY_PANEL_16_F32, (uint64_t)plain_multiply(panels, panel_bytes), 0};
  }
  answer->epilogue_served = epilogue_accept(node, answer);
  snprintf(answer->variant, sizeof answer->variant, "plain f32 panels of %d", PANEL_WIDTH);
  return ORD_OK;
}

static ord_status matmul_pack(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer, uint32_t weight,
                              const void *const *segment, uint32_t slice, uint32_t slice_count, void *packed) {
  if (answer->pack[weight].key != KEY_PANEL_16_F32)
    return plain_pack(kernel, node, answer, weight, segment, slice, slice_count, packed);
  const ord_operand *operand = &node->operand[weight]; // [n, k]
  const int64_t panels = panel_count(operand->dim[0]), depth = operand->dim[1];
  panel_source source = {.depth_stride = operand->stride[1], .read = plain_reader(operand->dtype)};
  for (int64_t panel = panels * slice / slice_count; panel < panels * (slice + 1) / slice_count; panel++) {
    for (int c = 0; c < PANEL_WIDTH; c++) source.column[c] = plain_find_row(operand, segment, panel * PANEL_WIDTH + c);
    panel_fill(&source, depth, (float *)packed + panel * depth * PANEL_WIDTH);
  }
  return ORD_OK;
}

static ord_status matmul_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                 const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  matmul_state *made = plain_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  made->grid = cut(node);
  epilogue_resolve(node, answer, &made->epilogue);
  *state = made;
  return ORD_OK;
}

/* ---- launch ---- */

/* The operands in this run. `in_rows`, `out_rows`: row number -> offset; `by_batches`: batch number -> offset. */
typedef struct matmul_run {
  const matmul_state *state;
  const ord_exec *exec;
  const float *weight, *scale; // panels; [n]
  plain_view in_rows, out_rows, by, by_batches;
  int64_t batches, rows, columns, depth; /* rows: of a batch */
  epilogue_run epilogue;
} matmul_run;

static matmul_run begin(const matmul_state *state, const ord_exec *exec) {
  const plain_view in = plain_view_slot(&state->base, exec, "in"), out = plain_view_output(&state->base, exec, 0);
  matmul_run run = {.state = state, .exec = exec};
  run.weight = (const float *)plain_view_slot(&state->base, exec, "weight").data;
  run.scale = (const float *)plain_view_slot(&state->base, exec, "weight_scale").data;
  run.by = plain_view_slot(&state->base, exec, "by");
  run.columns = out.dim[out.rank - 1];
  run.depth = in.dim[in.rank - 1];
  run.out_rows = plain_view_leading(out, out.rank - 1);
  run.in_rows = plain_view_broadcast(plain_view_leading(in, in.rank - 1), &run.out_rows);
  run.rows = plain_view_count(&run.out_rows);
  run.batches = 1;
  if (run.by.data) {
    const plain_view batches = plain_view_leading(out, out.rank - 2);
    run.by_batches = plain_view_broadcast(plain_view_leading(run.by, run.by.rank - 2), &batches);
    run.batches = plain_view_count(&batches);
    plain_view_merge(&run.by_batches, 1);
    run.rows = out.dim[out.rank - 2];
  }
  plain_view_merge(&run.in_rows, 1);
  plain_view_merge(&run.out_rows, 1);
  epilogue_begin(&state->epilogue, &state->base, exec, &run.epilogue);
  return run;
}

/* Panel `panel` of batch `batch` of `by`, in this thread's own memory. */
static const float *lay_out_panel(const matmul_run *run, int64_t batch, int64_t panel) {
  const plain_view *by = &run->by;
  const char *data = by->data + plain_view_offset(&run->by_batches, batch);
  const int64_t column_stride = by->stride[by->rank - 1];
  panel_source source = {.depth_stride = by->stride[by->rank - 2], .read = plain_reader(ORD_F32)};
  for (int c = 0; c < PANEL_WIDTH; c++) {
    const int64_t column = panel * PANEL_WIDTH + c;
    source.column[c] = column < run->columns ? data + column * column_stride : NULL;
  }
  panel_fill(&source, run->depth, run->exec->worker);
  return run->exec->worker;
}

/* Scale, bias and epilogue on columns `range` of the rows that lie at `y`; the first is row `first` of the result. */
static void finish_rows(const matmul_run *run, int64_t first, float *const *y, int64_t row_count, plain_range range) {
  for (int64_t row = 0; row < row_count; row++) {
    if (run->scale)
      for (int64_t i = range.first; i < range.end; i++) y[row][i] *= run->scale[i];
    epilogue_apply(&run->epilogue, first + row, 1, range, y[row] + range.first, 0);
  }
}

/* All rows of a unit by one panel. */
static void multiply_rows(const matmul_run *run, const float *panel, const float *const *x, float *const *y,
                          int64_t row_count, plain_range column) {
  const size_t bytes = (size_t)(column.end - column.first) * sizeof(float);
  for (int64_t row = 0; row < row_count;) {
    _Alignas(16) float sum[PANEL_ROWS][PANEL_WIDTH];
    const int rows = row_count - row >= PANEL_ROWS ? PANEL_ROWS : 1;
    panel_multiply(panel, run->depth, x + row, rows, sum);
    for (int i = 0; i < rows; i++) memcpy(y[row + i] + column.first, sum[i], bytes);
    row += rows;
  }
}

static void compute_unit(const matmul_run *run, int64_t unit) {
  const matmul_grid *grid = &run->state->grid;
  const int64_t group = unit % grid->groups, block = unit / grid->groups % grid->blocks;
  const int64_t batch = unit / grid->groups / grid->blocks;
  const int64_t first_row = block * UNIT_ROWS, rest = run->rows - first_row;
  const int64_t row_count = rest < UNIT_ROWS ? rest : UNIT_ROWS;
  const int64_t panels = panel_count(run->columns);
  const plain_range panel = {panels * group / grid->groups, panels * (group + 1) / grid->groups};
  if (batch >= run->batches || row_count <= 0 || panel.first == panel.end) return;

  const float *x[UNIT_ROWS];
  float *y[UNIT_ROWS];
  const int64_t first = batch * run->rows + first_row;
  for (int64_t row = 0; row < row_count; row++) {
    x[row] = (const float *)(run->in_rows.data + plain_view_offset(&run->in_rows, first + row));
    y[row] = (float *)(run->out_rows.data + plain_view_offset(&run->out_rows, first + row));
  }
  for (int64_t p = panel.first; p < panel.end; p++) {
    const int64_t begin_column = p * PANEL_WIDTH, rest_columns = run->columns - begin_column;
    const int64_t width = rest_columns < PANEL_WIDTH ? rest_columns : PANEL_WIDTH;
    const float *numbers = run->weight ? run->weight + begin_column * run->depth : lay_out_panel(run, batch, p);
    multiply_rows(run, numbers, x, y, row_count, (plain_range){begin_column, begin_column + width});
  }
  const int64_t end = panel.end * PANEL_WIDTH;
  const plain_range columns = {panel.first * PANEL_WIDTH, end < run->columns ? end : run->columns};
  finish_rows(run, first, y, row_count, columns);
}

static ord_status matmul_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const matmul_run run = begin(state, exec);
  const matmul_grid *grid = &run.state->grid;
  const plain_range unit = plain_chunk_range(exec, grid->batches * grid->blocks * grid->groups);
  for (int64_t i = unit.first; i < unit.end; i++) compute_unit(&run, i);
  return ORD_OK;
}

PLAIN_KERNEL(matmul, matmul_query, .pack = matmul_pack, .prepare = matmul_prepare, .launch = matmul_launch);
