/* SPDX-License-Identifier: MIT
 *
 * The phases of a matmul: activations (and `by`) are laid out; tiles are multiplied, block by block of the weights;
 * rows are normed. A node of one row has no first phase: each chunk lays the row out for itself, if it must.
 */
#include "packed_matmul.h"

enum { SINGLE_BLOCKS = 8 }; /* of a single row, that go through the epilogue together */

/* The operands in this run; rows are counted over batches. */
typedef struct matmul_run {
  const matmul_plan *plan;
  const ord_exec *exec;
  const char *panels;
  const float *scale; // [n]
  plain_view in_rows, out_rows, by, by_batches;
  int64_t batches, rows, columns, depth, in_stride; /* rows: of a batch */
  int64_t groups, words, tiles, blocks, block_bytes;
  uint32_t *x;     /* activations of all rows */
  matmul_row *row; /* of all rows */
} matmul_run;

static matmul_run begin(const matmul_state *state, const ord_exec *exec) {
  const matmul_plan *plan = &state->plan;
  const plain_view in = plain_view_of(&state->base, exec, plan->in);
  const plain_view out = plain_view_of(&state->base, exec, plan->out);
  matmul_run run = {.plan = plan, .exec = exec, .batches = 1};
  run.scale = (const float *)plain_view_of(&state->base, exec, plan->weight_scale).data;
  run.by = plain_view_of(&state->base, exec, plan->by);
  run.columns = out.dim[out.rank - 1];
  run.depth = in.dim[in.rank - 1];
  run.in_stride = in.stride[in.rank - 1];
  run.out_rows = plain_view_leading(out, out.rank - 1);
  run.in_rows = plain_view_broadcast(plain_view_leading(in, in.rank - 1), &run.out_rows);
  run.rows = plain_view_count(&run.out_rows);
  if (plan->has_batches) {
    const plain_view batches = plain_view_leading(out, out.rank - 2);
    run.by_batches = plain_view_broadcast(plain_view_leading(run.by, run.by.rank - 2), &batches);
    run.batches = plain_view_count(&batches);
    run.rows = out.dim[out.rank - 2];
  }
  plain_view_merge(&run.by_batches, 1);
  plain_view_merge(&run.in_rows, 1);
  plain_view_merge(&run.out_rows, 1);
  run.groups = matmul_groups(plan->math, run.depth);
  run.words = matmul_words(plan->math, run.depth);
  run.tiles = matmul_tiles(plan->level, run.rows);
  run.blocks = matmul_blocks(run.columns);
  run.block_bytes = plan->by == ORD_NONE ? plan->block_bytes : run.groups * MATMUL_GROUP_BYTES;
  char *scratch = exec->scratch;
  run.panels = plan->by == ORD_NONE ? exec->operand[plan->weight] : scratch + plan->by_offset;
  run.x = exec->scratch;
  run.row = (matmul_row *)(scratch + plan->rows_offset);
  return run;
}

/* Of a node of one row, which comes first wherever the strides lead: few words, since its chunks are short. False: the
 * run has no row. */
static bool begin_single(const matmul_state *state, const ord_exec *exec, matmul_run *run) {
  const matmul_plan *plan = &state->plan;
  const ord_node *node = state->base.node;
  const ord_operand *in = &node->operand[plan->in], *out = &node->operand[plan->out];
  for (uint32_t axis = 0; axis + 1 < out->rank; axis++)
    if (ord_exec_dim(node, exec, plan->out, axis) == 0) return false;
  run->plan = plan;
  run->exec = exec;
  run->panels = exec->operand[plan->weight];
  run->scale = plan->weight_scale == ORD_NONE ? NULL : exec->operand[plan->weight_scale];
  run->columns = out->dim[out->rank - 1];
  run->depth = in->dim[in->rank - 1];
  run->in_stride = in->stride[in->rank - 1];
  run->groups = matmul_groups(plan->math, run->depth);
  run->words = matmul_words(plan->math, run->depth);
  run->blocks = matmul_blocks(run->columns);
  run->block_bytes = plan->block_bytes;
  return true;
}

static const char *row_of(const matmul_run *run, int64_t row) {
  return run->in_rows.data + plain_view_offset(&run->in_rows, row);
}

/* ---- laying out ---- */

static void lay_out_tile(const matmul_run *run, int64_t batch, int64_t tile) {
  const plain_range rows = matmul_tile_rows(run->plan->level, run->rows, tile);
  const int64_t first = batch * run->rows + rows.first;
  const char *from[MATMUL_TILE_ROWS_MAX];
  const int count = (int)(rows.end - rows.first);
  for (int r = 0; r < count; r++) from[r] = row_of(run, first + r);
  matmul_lay_out(run->plan, from, count, run->in_stride, run->depth, run->x + first * run->words, run->row + first,
                 run->exec->worker);
}

static void lay_out_block(const matmul_run *run, int64_t batch, int64_t block) {
  plain_view by = run->by;
  by.data += plain_view_offset(&run->by_batches, batch);
  const int64_t number = batch * run->blocks + block;
  matmul_pack_by(&by, block, (char *)run->exec->scratch + run->plan->by_offset + number * run->block_bytes);
}

static void lay_out(const matmul_state *state, const ord_exec *exec) {
  const matmul_run run = begin(state, exec);
  const int64_t tiles = run.batches * run.tiles;
  const plain_range part = plain_chunk_range(exec, run.plan->by == ORD_NONE ? tiles : tiles + run.batches * run.blocks);
  for (int64_t i = part.first; i < part.end; i++) {
    if (i < tiles)
      lay_out_tile(&run, i / run.tiles, i % run.tiles);
    else
      lay_out_block(&run, (i - tiles) / run.blocks, (i - tiles) % run.blocks);
  }
}

/* ---- multiplying ---- */

static void multiply_tile(const matmul_run *run, const uint32_t *x, const matmul_row *row, int rows, int64_t number,
                          int64_t next, int64_t column, float *value) {
  const char *panel = run->panels + number * run->block_bytes;
  const int64_t rest = run->columns - column;
  run->plan->math->tile[rows - 1](panel, run->panels + next * run->block_bytes, x, run->groups,
                                  (uint32_t *)(void *)value);
  matmul_finish(run->plan, row, rows, (const float *)(const void *)(panel + run->groups * MATMUL_GROUP_BYTES),
                run->scale ? run->scale + column : NULL, rest < MATMUL_BLOCK ? rest : MATMUL_BLOCK, value);
}

/* A copy of known length is a few moves; one of any length is a call. */
static void store_row(float *into, const float *value, int64_t count) {
  if (count == MATMUL_BLOCK)
    memcpy(into, value, MATMUL_BLOCK * sizeof *into);
  else
    memcpy(into, value, (size_t)count * sizeof *into);
}

/* One block by the tiles of a group of rows. The last tile, for which the block is in the cache, lets the next block be
 * fetched: else memory would rest meanwhile. The places of the result are fetched before the products are made, and are
 * there when they are done: in a whole model that saves 2 % of a prefill. */
static void multiply_unit(const matmul_run *run, const epilogue_run *epilogue, int64_t unit) {
  const int64_t groups = matmul_row_groups(run->rows), group = unit % groups;
  const int64_t block = unit / groups % run->blocks, batch = unit / groups / run->blocks;
  const int64_t column = block * MATMUL_BLOCK, rest = run->columns - column;
  const plain_range columns = {column, rest < MATMUL_BLOCK ? run->columns : column + MATMUL_BLOCK};
  const int64_t number = batch * run->blocks + block, end = run->tiles * (group + 1) / groups;
  const int64_t next = group + 1 == groups && number + 1 < run->batches * run->blocks ? number + 1 : number;
  for (int64_t tile = run->tiles * group / groups; tile < end; tile++) {
    _Alignas(64) float value[MATMUL_TILE_ROWS_MAX * MATMUL_BLOCK];
    float *out[MATMUL_TILE_ROWS_MAX];
    const plain_range rows = matmul_tile_rows(run->plan->level, run->rows, tile);
    const int64_t first = batch * run->rows + rows.first, count = rows.end - rows.first;
    for (int64_t r = 0; r < count; r++) {
      out[r] = (float *)(void *)(run->out_rows.data + plain_view_offset(&run->out_rows, first + r)) + column;
      __builtin_prefetch(out[r], 1);
      __builtin_prefetch(out[r] + columns.end - column - 1, 1);
    }
    multiply_tile(run, run->x + first * run->words, run->row + first, (int)count, number,
                  tile + 1 == end ? next : number, column, value);
    epilogue_apply(epilogue, first, count, columns, value, MATMUL_BLOCK);
    for (int64_t r = 0; r < count; r++) store_row(out[r], value + r * MATMUL_BLOCK, columns.end - column);
  }
}

/* The only row, by blocks [part.first, part.end). */
static void multiply_single(const matmul_run *run, const epilogue_run *epilogue, plain_range part) {
  const char *from = run->exec->operand[run->plan->in];
  const bool is_laid_out =
      run->plan->math->x == MATMUL_X_F32 && run->words == run->depth && run->in_stride == (int64_t)sizeof(float);
  const uint32_t *x = is_laid_out ? (const uint32_t *)(const void *)from : run->exec->worker;
  matmul_row row = {0};
  if (!is_laid_out)
    matmul_lay_out(run->plan, &from, 1, run->in_stride, run->depth, run->exec->worker, &row, run->exec->worker);
  float *out = run->exec->operand[run->plan->out];
  while (part.first < part.end) {
    _Alignas(64) float value[SINGLE_BLOCKS * MATMUL_BLOCK];
    const int64_t left = part.end - part.first, count = left < SINGLE_BLOCKS ? left : SINGLE_BLOCKS;
    const int64_t column = part.first * MATMUL_BLOCK, end = column + count * MATMUL_BLOCK;
    const plain_range columns = {column, end < run->columns ? end : run->columns};
    for (int64_t i = 0; i < count; i++)
      multiply_tile(run, x, &row, 1, part.first + i, part.first + i, column + i * MATMUL_BLOCK,
                    value + i * MATMUL_BLOCK);
    epilogue_apply(epilogue, 0, 1, columns, value, columns.end - columns.first);
    memcpy(out + column, value, (size_t)(columns.end - columns.first) * sizeof *out);
    part.first += count;
  }
}

static void multiply(const matmul_state *state, const ord_exec *exec) {
  epilogue_run epilogue;
  epilogue_begin(&state->epilogue, &state->base, exec, &epilogue);
  if (state->plan.is_single) {
    matmul_run single;
    if (begin_single(state, exec, &single)) multiply_single(&single, &epilogue, plain_chunk_range(exec, single.blocks));
    return;
  }
  const matmul_run run = begin(state, exec);
  const plain_range unit = plain_chunk_range(exec, run.batches * run.blocks * matmul_row_groups(run.rows));
  for (int64_t i = unit.first; i < unit.end; i++) multiply_unit(&run, &epilogue, i);
}

/* ---- norms ---- */

static void norm(const matmul_state *state, const ord_exec *exec) {
  const ord_epilogue *item = &state->base.node->epilogue[state->plan.norm];
  const plain_view out = plain_view_of(&state->base, exec, state->plan.out);
  const int64_t width = out.dim[out.rank - 1];
  plain_view rows = plain_view_leading(out, out.rank - 1);
  const plain_range part = plain_chunk_range(exec, plain_view_count(&rows));
  plain_view_merge(&rows, 1);
  plain_norm made = state->norm;
  made.weight = (const float *)plain_view_of(&state->base, exec, item->operand[0]).data;
  made.bias = (const float *)plain_view_of(&state->base, exec, item->operand[1]).data;
  for (int64_t i = part.first; i < part.end; i++) {
    float *row = (float *)(void *)(rows.data + plain_view_offset(&rows, i));
    plain_norm_row(&made, row, row, width);
  }
}

/* ---- the kernel ---- */

static ord_status matmul_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                 const ord_host *host, void **state, ord_plugin_error *err) {
  matmul_state *made = plain_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  made->plan = matmul_plan_make(((const matmul_kernel *)kernel)->level, node, answer->epilogue_served);
  ord_answer items = *answer; /* without the norm */
  if (made->plan.norm != ORD_NONE) {
    const ord_epilogue *norm_item = &node->epilogue[made->plan.norm];
    items.epilogue_served = made->plan.norm;
    matmul_is_norm(norm_item->op, &made->norm.is_centred);
    for (uint32_t i = 0; i < norm_item->attr_count; i++)
      if (strcmp(norm_item->attr[i].name, "eps") == 0) made->norm.eps = norm_item->attr[i].value.f;
  }
  epilogue_resolve(node, &items, &made->epilogue);
  *state = made;
  return ORD_OK;
}

static ord_status matmul_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  static void (*const phases[])(const matmul_state *, const ord_exec *) = {
      [MATMUL_LAY_OUT] = lay_out, [MATMUL_MULTIPLY] = multiply, [MATMUL_NORM] = norm};
  (void)err;
  const matmul_state *made = state;
  phases[made->plan.phase[exec->phase]](made, exec);
  return ORD_OK;
}

const matmul_kernel PLAIN_NAME(matmul_packed) = {
    .base = PLAIN_KERNEL_VALUE(matmul, matmul_query, .pack = matmul_pack, .prepare = matmul_prepare,
                               .launch = matmul_launch),
    .level = &PLAIN_NAME(matmul_level),
};
