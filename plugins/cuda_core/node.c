/* SPDX-License-Identifier: MIT
 *
 * What a kernel asks of a node before it says yes, the prepared state that all kernels share, and how they are
 * launched.
 */
#include <stdarg.h>
#include <stdio.h>

#include "core.h"

enum { OP_VERSION = 1, BLOCKS_MAX = 2048 };

/* ---- query ---- */

const char *core_type_name(uint16_t type) {
  static const char *const names[] = {[ORD_F32] = "f32", [ORD_F16] = "f16", [ORD_BF16] = "bf16", [ORD_I8] = "i8",
                                      [ORD_I32] = "i32", [ORD_I64] = "i64", [ORD_BOOL] = "bool"};
  static const char *const blocks[] = {"q8_0", "q4_0", "q4_1"};
  if (type >= ORD_F32 && type <= ORD_BOOL) return names[type];
  return type >= ORD_Q8_0 && type <= ORD_Q4_1 ? blocks[type - ORD_Q8_0] : "an unknown type";
}

ord_status core_refuse(ord_answer *answer, const char *format, ...) {
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
    const char *between = used == 0 ? "" : types ? ", " : " or ";
    used += (size_t)snprintf(text + used, bytes - used, "%s%s", between, core_type_name(type));
  }
}

static const core_rule *find_rule(const core_rule *rule, const ord_operand *operand) {
  const char *name = operand->role == ORD_OUTPUT ? "out" : operand->name;
  while (rule->name && strcmp(rule->name, name) != 0) rule++;
  return rule->name ? rule : NULL;
}

ord_status core_check(const ord_node *node, const core_rule *rule, ord_answer *answer) {
  if (node->op_version != OP_VERSION)
    return core_refuse(answer, "%s is of version %u; wanted %d", node->op, node->op_version, OP_VERSION);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    const ord_operand *operand = &node->operand[i];
    const core_rule *found = operand->role == ORD_ABSENT ? NULL : find_rule(rule, operand);
    if (!found || core_is_one_of(operand->dtype, found->types)) continue;
    char wanted[64];
    print_types(found->types, wanted, sizeof wanted);
    return core_refuse(answer, "%s is %s; wanted %s", operand->name, core_type_name(operand->dtype), wanted);
  }
  answer->phase_count = 1;
  answer->epilogue_served = 0;
  return ORD_OK;
}

bool core_is_laid_out_alike(const ord_node *node, uint32_t which) {
  const ord_operand *in = &node->operand[which], *out = &node->operand[ord_node_output(node, 0)];
  if (in->role != ORD_INPUT || in->dtype != out->dtype || in->rank != out->rank) return false;
  for (uint32_t axis = 0; axis < in->rank; axis++)
    if (in->dim[axis] != out->dim[axis] || in->stride[axis] != out->stride[axis]) return false;
  return true;
}

int64_t core_multiply(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

int64_t core_count(const ord_operand *operand) {
  int64_t count = 1;
  for (uint32_t axis = 0; axis < operand->rank; axis++) count = core_multiply(count, operand->dim[axis]);
  return count;
}

bool core_word_is(const ord_node *node, const char *attr, const char *word) {
  const ord_attr *found = ord_node_attr(node, attr);
  return found && strcmp(found->value.s, word) == 0;
}

uint32_t core_axis(const ord_node *node, uint32_t rank) {
  const int64_t axis = ord_node_int(node, "axis", -1);
  return (uint32_t)(axis < 0 ? axis + rank : axis);
}

/* ---- state ---- */

void *core_state_create(const ord_node *node, const ord_answer *answer, const ord_host *host, size_t bytes,
                        ord_plugin_error *err) {
  core_state *made = host->allocate(host->context, bytes, _Alignof(max_align_t));
  if (!made) {
    snprintf(err->text, sizeof err->text, "out of memory: %zu bytes for the state of %s", bytes, node->op);
    return NULL;
  }
  memset(made, 0, bytes);
  *made = (core_state){node, answer, host};
  return made;
}

void core_retire(void *state) {
  const core_state *made = state;
  if (made) made->host->release(made->host->context, state);
}

ord_status core_state_prepared(void *made, ord_status status, void **state) {
  if (status == ORD_OK)
    *state = made;
  else
    core_retire(made);
  return status;
}

/* ---- work ---- */

ord_status core_work_prepare(const core_state *state, const char *image, const char *symbol, uint32_t shared_bytes,
                             core_work *work, ord_plugin_error *err) {
  const ord_host *host = state->host;
  for (int axis = 0; axis < 3; axis++) {
    if (work->blocks[axis] == 0) work->blocks[axis] = 1;
    if (work->threads[axis] == 0) work->threads[axis] = 1;
  }
  work->shared_bytes = shared_bytes;
  return host->image_kernel(host->context, image, symbol, shared_bytes, &work->kernel, err);
}

ord_status core_work_launch(const core_state *state, const ord_exec *exec, const core_work *work, const void *argument,
                            size_t argument_bytes, ord_plugin_error *err) {
  const uint32_t bytes = (uint32_t)argument_bytes;
  ord_gpu_launch launch = {.argument_count = 1,
                           .flags = ORD_LAUNCH_DEPENDENT,
                           .shared_bytes = work->shared_bytes,
                           .kernel = work->kernel,
                           .argument = &argument,
                           .argument_bytes = &bytes};
  for (int axis = 0; axis < 3; axis++) {
    launch.grid[axis] = work->blocks[axis];
    launch.block[axis] = work->threads[axis];
  }
  return state->host->gpu_launch(state->host->context, exec->stream, &launch, err);
}

void core_work_spread(core_work *work, int64_t count, uint32_t threads) {
  const int64_t blocks = core_divide_up(count, threads);
  work->threads[0] = threads;
  work->blocks[0] = (uint32_t)(blocks < 1 ? 1 : blocks > BLOCKS_MAX ? BLOCKS_MAX : blocks);
}
