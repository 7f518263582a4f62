/* SPDX-License-Identifier: MIT
 *
 * query: which nodes the kernel serves, at which level of instructions, and the memory that it wants for one. All sizes
 * come from the plan's maximum and are multiplied with overflow checks.
 */
#include <stdio.h>

#include "flash.h"

enum { OP_VERSION = 1, PARTS = 128, CHUNKS_MAX = 1024, ROWS_PER_COMBINE = 4 };

/* ---- what is served --------------------------------------------------------------------------------------------- */

/* The types of the operands of each name, as bits 1 << ORD_.. */
static const struct rule {
  const char *name;
  uint32_t types;
} rules[] = {
    {"q", 1 << ORD_F32},
    {"k", 1 << ORD_F32},
    {"v", 1 << ORD_F32},
    {"cache_k", 1 << ORD_F32 | 1 << ORD_BF16},
    {"cache_v", 1 << ORD_F32 | 1 << ORD_BF16},
    {"mask", 1 << ORD_F32 | 1 << ORD_BOOL},
    {"lengths", 1 << ORD_I32},
    {"past", 1 << ORD_I32},
    {"out", 1 << ORD_F32},
};

static const char *type_name(uint32_t type) {
  static const char *const names[] = {[ORD_F32] = "f32", [ORD_F16] = "f16", [ORD_BF16] = "bf16", [ORD_I8] = "i8",
                                      [ORD_I32] = "i32", [ORD_I64] = "i64", [ORD_BOOL] = "bool"};
  return type >= ORD_F32 && type <= ORD_BOOL ? names[type] : "a block type";
}

static bool accepts(const ord_operand *operand, ord_answer *answer) {
  const char *name = operand->role == ORD_OUTPUT ? "out" : operand->name;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    const uint32_t types = rules[i].types;
    if (strcmp(rules[i].name, name) != 0) continue;
    if (operand->dtype < 32 && types & 1u << operand->dtype) return true;
    const char *other = types & 1 << ORD_BF16 ? " or bf16" : types & 1 << ORD_BOOL ? " or bool" : "";
    snprintf(answer->reason, sizeof answer->reason, "%s is %s; wanted %s%s", operand->name, type_name(operand->dtype),
             types & 1 << ORD_I32 ? "i32" : "f32", other);
    return false;
  }
  return true;
}

static bool serves(const ord_node *node, ord_answer *answer) {
  if (node->device->kind != ORD_DEVICE_CPU || node->op_version != OP_VERSION) {
    snprintf(answer->reason, sizeof answer->reason, "device kind %u, op version %u; wanted a CPU (%d) and version %d",
             node->device->kind, node->op_version, ORD_DEVICE_CPU, OP_VERSION);
    return false;
  }
  if (ord_node_output(node, 1) != ORD_NONE) {
    snprintf(answer->reason, sizeof answer->reason, "probabilities as a second output; wanted the first output alone");
    return false;
  }
  for (uint32_t i = 0; i < node->operand_count; i++)
    if (node->operand[i].role != ORD_ABSENT && !accepts(&node->operand[i], answer)) return false;
  return true;
}

/* The best of what the device has. */
static const flash_level *choose_level(uint64_t features) {
  static const flash_level *const levels[] = {&flash_avx512, &flash_avx2};
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
    if ((features & levels[i]->features) == levels[i]->features) return levels[i];
  return &flash_baseline;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* A product of sizes; UINT64_MAX once it is too large. */
static uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Numbers, in whole cache lines. */
static uint64_t room(int64_t rows, int64_t columns) {
  const uint64_t count = plus(times((uint64_t)rows, (uint64_t)columns), 15);
  return count == UINT64_MAX ? count : count / 16 * 16;
}

static uint64_t worker_numbers(const flash_layout *made) {
  const uint64_t part[] = {made->query_room, made->score_room, made->record_room,
                           made->total_room, made->panel_room, made->value_room};
  uint64_t sum = 0;
  for (size_t i = 0; i < sizeof part / sizeof *part; i++) sum = plus(sum, part[i]);
  return sum;
}

static uint64_t scratch_numbers(const flash_layout *made) {
  if (made->is_decode)
    return times(times((uint64_t)(made->batch * made->heads), (uint64_t)made->blocks), (uint64_t)made->record_stride);
  return times((uint64_t)(made->batch * made->key_heads), plus(made->panels_room, made->values_room));
}

/* Columns of values that vectors can read where they lie. Prefill reads them once for every tile, so that there it
 * pays to widen bf16 first. */
static int64_t columns_in_place(const flash_layout *made, const ord_operand *value) {
  const bool is_dense = value->dim[3] <= 1 || value->stride[3] == value->block_bytes;
  if (!is_dense || !(made->is_decode || value->dtype == ORD_F32)) return 0;
  return made->value_width / made->level->lanes * made->level->lanes;
}

static void size_rooms(flash_layout *made) {
  const int64_t rest = flash_round_up(made->value_width - made->body, made->level->lanes);
  made->query_room = room(FLASH_UNIT_ROWS, made->width);
  made->score_room = room(FLASH_UNIT_ROWS, FLASH_SCORE_STRIDE);
  if (made->is_decode) {
    made->panel_room = room(made->level->panel, made->width);
    made->value_room = room(FLASH_BLOCK, rest);
    made->total_room = room(1, made->record_stride);
    return;
  }
  made->record_room = made->total_room = room(FLASH_UNIT_ROWS, made->record_stride);
  made->panels_room = room(flash_round_up(made->keys, made->level->panel), made->width);
  made->values_room = room(made->keys, rest);
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static const ord_operand *operand_of(const ord_node *node, const char *first, const char *otherwise) {
  const uint32_t which = ord_node_find(node, first);
  return &node->operand[which == ORD_NONE ? ord_node_find(node, otherwise) : which];
}

bool flash_lay_out(const ord_node *node, flash_layout *out, ord_answer *answer) {
  if (!serves(node, answer)) return false;
  const ord_operand *q = operand_of(node, "q", "q");
  const ord_operand *key = operand_of(node, "cache_k", "k"), *value = operand_of(node, "cache_v", "v");
  *out = (flash_layout){.level = choose_level(node->device->features),
                        .is_decode = q->dim[2] == 1,
                        .batch = q->dim[0],
                        .heads = q->dim[1],
                        .key_heads = key->dim[1],
                        .queries = q->dim[2],
                        .keys = key->dim[2],
                        .width = q->dim[3],
                        .value_width = value->dim[3]};
  out->blocks = flash_round_up(out->keys, FLASH_BLOCK) / FLASH_BLOCK;
  out->body = columns_in_place(out, value);
  out->padded = flash_round_up(out->value_width, out->level->lanes);
  out->record_stride = flash_round_up(out->padded, FLASH_RECORD_TAIL) + FLASH_RECORD_TAIL;
  const int64_t heads = out->batch * out->heads,
                units = flash_round_up(out->queries, FLASH_UNIT_ROWS) / FLASH_UNIT_ROWS;
  const int64_t wanted = heads < PARTS ? PARTS / (heads < 1 ? 1 : heads) : 1;
  out->parts = units < 1 ? 1 : units < wanted ? units : wanted;
  size_rooms(out);
  if (times(scratch_numbers(out), sizeof(float)) < SIZE_MAX / 2 &&
      times(worker_numbers(out), sizeof(float)) < SIZE_MAX / 2)
    return true;
  snprintf(answer->reason, sizeof answer->reason, "%lld keys of width %lld and %lld; their copies exceed the memory",
           (long long)out->keys, (long long)out->width, (long long)out->value_width);
  return false;
}

static uint32_t chunks(int64_t units) { return (uint32_t)(units < 1 ? 1 : units < CHUNKS_MAX ? units : CHUNKS_MAX); }

ord_status flash_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  flash_layout made;
  if (!flash_lay_out(node, &made, answer)) return ORD_NO;
  const int64_t rows = made.batch * made.heads, blocks = made.batch * made.key_heads * made.blocks;
  answer->flags = ord_node_find(node, "cache_k") == ORD_NONE ? 0 : ORD_APPENDS;
  answer->phase_count = 2;
  answer->chunk_limit[0] = chunks(blocks);
  answer->chunk_limit[1] =
      chunks(made.is_decode ? (rows + ROWS_PER_COMBINE - 1) / ROWS_PER_COMBINE : rows * made.parts);
  answer->epilogue_served = 0;
  answer->scratch_bytes = scratch_numbers(&made) * sizeof(float);
  answer->worker_bytes = worker_numbers(&made) * sizeof(float);
  snprintf(answer->variant, sizeof answer->variant, "%s %s", made.level->name,
           made.is_decode ? "split over blocks of 256 keys" : "24 queries x 256 keys");
  return ORD_OK;
}
