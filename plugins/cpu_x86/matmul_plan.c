/* SPDX-License-Identifier: MIT
 *
 * How a matmul is computed: with which products, in which phases and chunks, with how much memory. All of it follows
 * from the node alone. Runs on any CPU.
 */
#include <stdio.h>

#include "packed_matmul.h"

/* Names of the layouts of a packed weight. */
#define KEY_PACK32_F32 UINT64_C(0x6f72703332f32001)
#define KEY_PACK32_BF16 UINT64_C(0x6f727033322bf162)
#define KEY_PACK32_I8 UINT64_C(0x6f72703332018003)

/* So many products of -128 and 127 stay within 32 bits; the sums on the way may wrap. */
enum { INT8_DEPTH_MAX = 1 << 17 };

/* Chunks: few enough that beginning one costs nothing beside it, many enough that a busy core is waited for only
 * briefly. A row alone is bound by memory: a chunk begins a stream and, of int8, quantises the row again. */
enum { CHUNKS_MAX = 128, LAY_OUT_CHUNKS_MAX = 32 };
enum { SINGLE_BYTES_MIN = 32 << 10, SINGLE_BYTES = 512 << 10, SINGLE_PER_CORE_MIN = 2, SINGLE_PER_CORE_MAX = 32 };

/* Rows that go through a block of weights together: the block stays in the second cache meanwhile. */
enum { GROUP_ROWS = 192 };

/* ---- products ---- */

static uint16_t packed_type(const ord_node *node, uint32_t weight) {
  if (weight == ORD_NONE) return ORD_F32; /* values keep their precision */
  if (node->compute != ORD_F32) return (uint16_t)node->compute;
  const uint16_t stored = node->operand[weight].dtype;
  return stored == ORD_BF16 || stored == ORD_I8 ? ORD_BF16 : ORD_F32; /* int8 is exact in bf16 */
}

static const matmul_math *find_math(const matmul_level *level, const ord_node *node, uint32_t weight) {
  const uint32_t compute = weight == ORD_NONE ? ORD_F32 : node->compute;
  const uint16_t packed = packed_type(node, weight);
  for (uint32_t i = 0; i < level->math_count; i++) {
    const matmul_math *math = &level->math[i];
    if (math->compute == compute && math->packed == packed && !(math->features & ~node->device->features)) return math;
  }
  return NULL;
}

/* ---- sizes ---- */

int64_t matmul_tiles(const matmul_level *level, int64_t rows) {
  return rows / level->tile_rows + (rows % level->tile_rows > 0);
}

plain_range matmul_tile_rows(const matmul_level *level, int64_t rows, int64_t tile) {
  const int64_t most = level->tile_rows, count = matmul_tiles(level, rows);
  if (tile + 2 < count || rows % most == 0 || count == 1)
    return (plain_range){tile * most, (tile + 1) * most < rows ? (tile + 1) * most : rows};
  const int64_t first = (count - 2) * most, middle = first + (rows - first + 1) / 2;
  return tile + 2 == count ? (plain_range){first, middle} : (plain_range){middle, rows};
}

int64_t matmul_row_groups(int64_t rows) { return rows / GROUP_ROWS + (rows % GROUP_ROWS > 0); }

static int64_t add(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* The sizes at the plan's maximum; all saturate. */
typedef struct sizes {
  int64_t batches, rows, columns, depth; /* rows: of a batch */
} sizes;

static sizes measure(const matmul_plan *plan, const ord_node *node) {
  const ord_operand *in = &node->operand[plan->in], *out = &node->operand[plan->out];
  sizes all = {1, 1, out->dim[out->rank - 1], in->dim[in->rank - 1]};
  for (uint32_t axis = 0; axis + 1 < out->rank; axis++) {
    int64_t *count = plan->has_batches && axis + 2 < out->rank ? &all.batches : &all.rows;
    *count = plain_multiply(*count, out->dim[axis]);
  }
  return all;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void add_phase(matmul_plan *plan, uint32_t phase, int64_t chunks) {
  plan->phase[plan->phase_count] = phase;
  plan->chunks[plan->phase_count++] = chunks < 1 ? 1 : (uint32_t)chunks;
}

static void cut_single(matmul_plan *plan, const ord_node *node, const sizes *all) {
  const int64_t blocks = matmul_blocks(all->columns), bytes = plain_multiply(blocks, plan->block_bytes);
  const int64_t cores = node->device->cores > 0 ? node->device->cores : 1;
  const int64_t most = least(SINGLE_PER_CORE_MAX * cores, add(bytes / SINGLE_BYTES_MIN, 1));
  const int64_t fewest = least(SINGLE_PER_CORE_MIN * cores, most), fitting = bytes / SINGLE_BYTES;
  const int64_t wanted = fitting < fewest ? fewest : least(fitting, most);
  const int64_t each = blocks / wanted + (blocks % wanted > 0);
  add_phase(plan, MATMUL_MULTIPLY, each ? (blocks + each - 1) / each : 1);
}

static void cut(matmul_plan *plan, const sizes *all) {
  const int64_t words = matmul_words(plan->math, all->depth), rows = plain_multiply(all->batches, all->rows);
  const int64_t tiles = plain_multiply(all->batches, matmul_tiles(plan->level, all->rows));
  const int64_t blocks = plain_multiply(all->batches, matmul_blocks(all->columns));
  const int64_t laid_out = plan->by == ORD_NONE ? tiles : add(tiles, blocks);
  const int64_t align = 64;
  plan->rows_offset = (uint64_t)add(plain_multiply(plain_multiply(rows, words), 4), align - 1) & ~(uint64_t)(align - 1);
  int64_t bytes = add((int64_t)plan->rows_offset, plain_multiply(rows, sizeof(matmul_row)));
  plan->by_offset = (uint64_t)add(bytes, align - 1) & ~(uint64_t)(align - 1);
  if (plan->by != ORD_NONE) bytes = add((int64_t)plan->by_offset, plain_multiply(blocks, plan->block_bytes));
  plan->scratch_bytes = (uint64_t)bytes;
  add_phase(plan, MATMUL_LAY_OUT, least(laid_out, LAY_OUT_CHUNKS_MAX));
  const int64_t units = plain_multiply(blocks, matmul_row_groups(all->rows));
  add_phase(plan, MATMUL_MULTIPLY, least(units, CHUNKS_MAX));
}

/* ---- norms ---- */

bool matmul_is_norm(const char *op, bool *out_is_centred) {
  *out_is_centred = strcmp(op, "layernorm") == 0;
  return *out_is_centred || strcmp(op, "rmsnorm") == 0;
}

static bool is_norm_operand(const ord_node *node, uint32_t which, int64_t width) {
  if (which == ORD_NONE) return true;
  const ord_operand *operand = &node->operand[which];
  if (operand->rank != 1 || operand->dim[0] != width) return false;
  if (operand->role == ORD_WEIGHT) return plain_is_one_of(operand->dtype, PLAIN_FLOATS);
  return operand->dtype == ORD_F32 && (width == 1 || operand->stride[0] == (int64_t)sizeof(float));
}

/* May item `number` be a norm over whole rows of the result, in a phase of its own? */
static bool accepts_norm(const ord_node *node, uint32_t number) {
  const ord_operand *out = &node->operand[ord_node_output(node, 0)];
  const int64_t width = out->dim[out->rank - 1];
  if (number >= node->epilogue_count) return false;
  const ord_epilogue *item = &node->epilogue[number];
  bool is_centred;
  return matmul_is_norm(item->op, &is_centred) && item->output == ORD_NONE &&
         is_norm_operand(node, item->operand[0], width) && is_norm_operand(node, item->operand[1], width);
}

/* ---- the plan ---- */

matmul_plan matmul_plan_make(const matmul_level *level, const ord_node *node, uint32_t epilogue_served) {
  matmul_plan plan = {.level = level,
                      .in = ord_node_find(node, "in"),
                      .weight = ord_node_find(node, "weight"),
                      .weight_scale = ord_node_find(node, "weight_scale"),
                      .by = ord_node_find(node, "by"),
                      .out = ord_node_output(node, 0),
                      .norm = ORD_NONE};
  plan.math = find_math(level, node, plan.weight);
  if (!plan.math) return plan;
  plan.has_batches = plan.by != ORD_NONE && node->operand[plan.by].rank > 2;
  const sizes all = measure(&plan, node);
  const int64_t words = matmul_words(plan.math, all.depth);
  plan.block_bytes = add(plain_multiply(matmul_groups(plan.math, all.depth), MATMUL_GROUP_BYTES),
                         plan.math->packed == ORD_I8 ? MATMUL_BLOCK * (int64_t)sizeof(float) : 0);
  plan.is_single = plan.by == ORD_NONE && all.rows <= 1;
  plan.worker_bytes = (uint64_t)add(plain_multiply(plain_multiply(words, 4), level->tile_rows),
                                    plain_multiply(all.depth, (int64_t)sizeof(float)));
  if (plan.is_single)
    cut_single(&plan, node, &all);
  else
    cut(&plan, &all);
  bool is_centred;
  if (epilogue_served > 0 && matmul_is_norm(node->epilogue[epilogue_served - 1].op, &is_centred)) {
    plan.norm = epilogue_served - 1;
    add_phase(&plan, MATMUL_NORM, plain_chunks(level->level, plain_multiply(4, plain_multiply(all.rows, all.columns))));
  }
  return plan;
}

/* ---- query ---- */

/* The result may take the place of a residual or a gate: each number of it is read just before it is written. */
static uint32_t alias_mask(const ord_node *node, uint32_t epilogue_served) {
  uint32_t mask = 0;
  for (uint32_t i = 0; i < epilogue_served; i++) {
    const uint32_t which = node->epilogue[i].operand[0];
    if (which < 32 && plain_is_laid_out_alike(node, which)) mask |= 1u << which;
  }
  return mask;
}

ord_status matmul_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const plain_rule rules[] = {{"in", PLAIN_F32, 0},
                                     {"weight", PLAIN_NUMBERS, 0},
                                     {"weight_scale", PLAIN_F32, PLAIN_UNIT},
                                     {"by", PLAIN_F32, 0},
                                     {"bias", PLAIN_FLOATS, PLAIN_UNIT | PLAIN_PACKED},
                                     {"out", PLAIN_F32, PLAIN_UNIT},
                                     {NULL, 0, 0}};
  const matmul_level *level = ((const matmul_kernel *)kernel)->level;
  const ord_status status = plain_check(node, rules, 1, answer);
  if (status != ORD_OK) return status;
  const uint32_t weight = ord_node_find(node, "weight"), in = ord_node_find(node, "in");
  if (weight == ORD_NONE && node->operand[in].rank < 2)
    return plain_refuse(answer, "in has one axis; with 'by' wanted two or more");
  if (weight != ORD_NONE && node->operand[weight].role != ORD_WEIGHT)
    return plain_refuse(answer, "weight is a view of one; wanted a whole weight of the model");
  answer->epilogue_served = epilogue_accept(node, answer);
  if (accepts_norm(node, answer->epilogue_served)) {
    const ord_epilogue *norm = &node->epilogue[answer->epilogue_served++];
    for (int i = 0; i < 2; i++)
      if (norm->operand[i] != ORD_NONE) plain_want_dense(node, norm->operand[i], answer);
  }
  const matmul_plan plan = matmul_plan_make(level, node, answer->epilogue_served);
  if (!plan.math)
    return plain_refuse(answer, "products are wanted in %s; wanted f32, bf16 or i8",
                        plain_type_name((uint16_t)node->compute));
  const int64_t depth = node->operand[in].dim[node->operand[in].rank - 1];
  if (plan.math->packed == ORD_I8 && depth > INT8_DEPTH_MAX)
    return plain_refuse(answer, "sums of %lld products of int8; wanted %d at most", (long long)depth, INT8_DEPTH_MAX);
  if (weight != ORD_NONE) {
    const uint64_t key = plan.math->packed == ORD_F32    ? KEY_PACK32_F32
                         : plan.math->packed == ORD_BF16 ? KEY_PACK32_BF16
                                                         : KEY_PACK32_I8;
    const int64_t blocks = matmul_blocks(node->operand[weight].dim[0]);
    answer->pack[weight] = (ord_pack){key, (uint64_t)plain_multiply(blocks, plan.block_bytes), MATMUL_BLOCK};
  }
  answer->scratch_bytes = plan.scratch_bytes;
  answer->worker_bytes = plan.worker_bytes;
  answer->phase_count = plan.phase_count;
  memcpy(answer->chunk_limit, plan.chunks, plan.phase_count * sizeof *plan.chunks);
  answer->alias_mask = alias_mask(node, answer->epilogue_served);
  const size_t used = strlen(answer->variant);
  snprintf(answer->variant + used, sizeof answer->variant - used, " %dx%d %s", plan.is_single ? 1 : level->tile_rows,
           MATMUL_BLOCK, plan.math->name);
  return ORD_OK;
}
