/* SPDX-License-Identifier: MIT
 *
 * What a kernel asks of a node before it says yes, and the prepared state that all kernels share.
 */
#include <stdarg.h>
#include <stdio.h>

#include "plain.h"

enum { OP_VERSION = 1, CHUNKS_MAX = 64 };

/* Names the layout "dense f32": other kernels that want it may use the same number. */
#define KEY_DENSE_F32 UINT64_C(0x6f7264f32d000001)

static const struct {
  const char *name, *instructions;
  uint64_t features;      /* of the device: bits that the instructions need */
  int64_t work_per_chunk; /* a microsecond or two */
} levels[] = {
    [PLAIN_LEVEL_plain] = {"plain", "", 0, 16384},
    [PLAIN_LEVEL_baseline] = {"baseline", "", 0, 16384},
    [PLAIN_LEVEL_avx2] = {"avx2", "AVX2", ORD_CPU_AVX2, 65536},
    [PLAIN_LEVEL_avx512] = {"avx512", "AVX-512", ORD_CPU_AVX2 | ORD_CPU_AVX512, 65536},
};

const char *plain_type_name(uint16_t type) {
  static const char *const names[] = {[ORD_F32] = "f32", [ORD_F16] = "f16", [ORD_BF16] = "bf16", [ORD_I8] = "i8",
                                      [ORD_I32] = "i32", [ORD_I64] = "i64", [ORD_BOOL] = "bool"};
  static const char *const blocks[] = {"q8_0", "q4_0", "q4_1"};
  if (type >= ORD_F32 && type <= ORD_BOOL) return names[type];
  return type >= ORD_Q8_0 && type <= ORD_Q4_1 ? blocks[type - ORD_Q8_0] : "an unknown type";
}

ord_status plain_refuse(ord_answer *answer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(answer->reason, sizeof answer->reason, format, arguments);
  va_end(arguments);
  return ORD_NO;
}

/* "f32, f16 or bf16" */
static void print_types(uint32_t types, char *text, size_t bytes) {
  size_t used = 0;
  text[0] = 0;
  for (uint16_t type = ORD_F32; type <= ORD_BOOL && used < bytes; type++) {
    if (!(types & 1u << type)) continue;
    types &= ~(1u << type);
    used += (size_t)snprintf(text + used, bytes - used, "%s%s",
                             used == 0 ? ""
                             : types   ? ", "
                                       : " or ",
                             plain_type_name(type));
  }
}

static const plain_rule *find_rule(const plain_rule *rule, const ord_operand *operand) {
  const char *name = operand->role == ORD_OUTPUT ? "out" : operand->name;
  while (rule->name && strcmp(rule->name, name) != 0) rule++;
  return rule->name ? rule : NULL;
}

static ord_status check_operand(const ord_operand *operand, const plain_rule *rule, ord_answer *answer) {
  const bool is_packed = rule->flags & PLAIN_PACKED && operand->role == ORD_WEIGHT;
  const uint32_t types = rule->flags & PLAIN_PACKED && !is_packed ? PLAIN_F32 : rule->types;
  if (!plain_is_one_of(operand->dtype, types)) {
    char wanted[64];
    print_types(types, wanted, sizeof wanted);
    return plain_refuse(answer, "%s is %s; wanted %s", operand->name, plain_type_name(operand->dtype), wanted);
  }
  if (!(rule->flags & PLAIN_UNIT) || is_packed || operand->rank == 0) return ORD_OK;
  const uint32_t last = operand->rank - 1;
  if (operand->dim[last] > 1 && operand->stride[last] != operand->block_bytes)
    return plain_refuse(answer, "elements of the last axis of %s lie %lld bytes apart; wanted %u", operand->name,
                        (long long)operand->stride[last], operand->block_bytes);
  return ORD_OK;
}

static bool is_dense(const ord_operand *operand) {
  int64_t stride = sizeof(float);
  for (uint32_t axis = operand->rank; axis-- > 0;) {
    if (operand->dim[axis] > 1 && operand->stride[axis] != stride) return false;
    stride *= operand->dim[axis];
  }
  return operand->dtype == ORD_F32;
}

void plain_want_dense(const ord_node *node, uint32_t which, ord_answer *answer) {
  const ord_operand *operand = &node->operand[which];
  if (operand->role != ORD_WEIGHT || is_dense(operand)) return;
  answer->pack[which] = (ord_pack){KEY_DENSE_F32, (uint64_t)plain_multiply(plain_count(operand), sizeof(float)), 0};
}

ord_status plain_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  const plain_kernel *asked = (const plain_kernel *)kernel;
  if (node->device->kind != ORD_DEVICE_CPU)
    return plain_refuse(answer, "the device is no CPU (kind %u); this plugin computes on a CPU", node->device->kind);
  if (levels[asked->level].features & ~node->device->features)
    return plain_refuse(answer, "the CPU has no %s; this kernel is compiled for it", levels[asked->level].instructions);
  snprintf(answer->variant, sizeof answer->variant, "%s", levels[asked->level].name);
  return asked->query(kernel, node, answer);
}

ord_status plain_check(const ord_node *node, const plain_rule *rule, int64_t chunk_count, ord_answer *answer) {
  if (node->op_version != OP_VERSION)
    return plain_refuse(answer, "%s is of version %u; wanted %d", node->op, node->op_version, OP_VERSION);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    const ord_operand *operand = &node->operand[i];
    const plain_rule *found = operand->role == ORD_ABSENT ? NULL : find_rule(rule, operand);
    if (!found) continue;
    const ord_status status = check_operand(operand, found, answer);
    if (status != ORD_OK) return status;
    if (found->flags & PLAIN_PACKED) plain_want_dense(node, i, answer);
  }
  answer->phase_count = 1;
  answer->chunk_limit[0] = (uint32_t)(chunk_count < 1 ? 1 : chunk_count);
  answer->epilogue_served = 0;
  return ORD_OK;
}

bool plain_is_laid_out_alike(const ord_node *node, uint32_t which) {
  const ord_operand *in = &node->operand[which], *out = &node->operand[ord_node_output(node, 0)];
  if (in->role != ORD_INPUT || in->dtype != out->dtype || in->rank != out->rank) return false;
  for (uint32_t axis = 0; axis < in->rank; axis++)
    if (in->dim[axis] != out->dim[axis] || in->stride[axis] != out->stride[axis]) return false;
  return true;
}

int64_t plain_multiply(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

int64_t plain_count(const ord_operand *operand) {
  int64_t count = 1;
  for (uint32_t axis = 0; axis < operand->rank; axis++) count = plain_multiply(count, operand->dim[axis]);
  return count;
}

int64_t plain_dense_count(const ord_operand *operand) {
  if (operand->role == ORD_ABSENT || !is_dense(operand)) return -1;
  for (uint32_t axis = 0; axis < operand->rank; axis++)
    if (operand->extent[axis] != ORD_NONE) return -1;
  return plain_count(operand);
}

int64_t plain_chunks(plain_level level, int64_t work) {
  const int64_t chunks = work / levels[level].work_per_chunk + 1;
  return chunks > CHUNKS_MAX ? CHUNKS_MAX : chunks;
}

bool plain_word_is(const ord_node *node, const char *attr, const char *word) {
  const ord_attr *found = ord_node_attr(node, attr);
  return found && strcmp(found->value.s, word) == 0;
}

uint32_t plain_axis(const ord_node *node, uint32_t rank) {
  const int64_t axis = ord_node_int(node, "axis", -1);
  return (uint32_t)(axis < 0 ? axis + rank : axis);
}

void *plain_state_create(const ord_node *node, const ord_answer *answer, const ord_host *host, size_t bytes,
                         ord_plugin_error *err) {
  plain_state *made = host->allocate(host->context, bytes, _Alignof(max_align_t));
  if (!made) {
    snprintf(err->text, sizeof err->text, "out of memory: %zu bytes for the state of %s", bytes, node->op);
    return NULL;
  }
  memset(made, 0, bytes);
  *made = (plain_state){node, answer, host};
  return made;
}

void plain_retire(void *state) {
  const plain_state *made = state;
  if (made) made->host->release(made->host->context, state);
}
