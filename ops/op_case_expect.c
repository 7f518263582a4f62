/* SPDX-License-Identifier: MIT
 *
 * What is wanted of a conformance case: the op's reference, then those of the epilogue's items one after the other,
 * on tensors of their own.
 */
#include <math.h>
#include <string.h>

#include "ops/case.h"

/* The operands of one reference: what it reads and writes, then the scalars of the setup. */
typedef struct reference_run {
  ord_case_tensor tensor[ORD_CASE_TENSOR_MAX];
  uint32_t count;
} reference_run;

static void add(reference_run *run, const ord_case_tensor *tensor) { run->tensor[run->count++] = *tensor; }

static void add_absent(reference_run *run, const char *name) {
  run->tensor[run->count++] = (ord_case_tensor){.name = name, .role = ORD_ABSENT, .dtype = ORD_F32, .slot = ORD_NONE};
}

/* Appends the scalars; extents count in the setup's node and are moved to where the scalars are now. */
static void add_scalars(reference_run *run, const ord_case_setup *setup) {
  const uint32_t first = run->count;
  for (uint32_t i = 0; i < first; i++)
    for (uint32_t axis = 0; axis < run->tensor[i].rank; axis++)
      if (run->tensor[i].extent[axis] != ORD_NONE) run->tensor[i].extent[axis] += first - setup->first_scalar;
  for (uint32_t i = setup->first_scalar; i < setup->tensor_count; i++) {
    add(run, &setup->tensor[i]);
    ord_case_tensor *scalar = &run->tensor[run->count - 1];
    for (uint32_t axis = 0; axis < scalar->rank; axis++)
      if (scalar->extent[axis] != ORD_NONE) scalar->extent[axis] += first - setup->first_scalar;
  }
}

static ord_status launch_all(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                             const ord_exec *exec, ord_plugin_error *err) {
  void *state = NULL;
  ord_status status = kernel->prepare(kernel, node, answer, NULL, &state, err);
  ord_exec chunk = *exec;
  for (chunk.phase = 0; status == ORD_OK && chunk.phase < answer->phase_count; chunk.phase++) {
    chunk.chunk_count = answer->chunk_limit[chunk.phase];
    for (chunk.chunk = 0; status == ORD_OK && chunk.chunk < chunk.chunk_count; chunk.chunk++)
      status = kernel->launch(state, &chunk, err);
  }
  kernel->retire(state);
  return status;
}

/* Runs the reference of `op`, an attention's on states that hold the new tokens if it does not append them; it needs
 * no packing, no services and no persistent memory. */
static bool run_reference(ord_case_setup *setup, const ord_op *op, const ord_attr *attr, uint32_t attr_count,
                          reference_run *run) {
  add_scalars(run, setup);
  const ord_operand *operand = ord_case_operands(setup->arena, run->tensor, run->count);
  ord_pack *pack = ord_arena_take(setup->arena, run->count, sizeof *pack);
  if (!operand || !pack) return ord_case_out_of_memory(setup);
  const ord_node node = {.struct_size = sizeof node,
                         .op_version = op->version,
                         .op = op->name,
                         .label = "reference",
                         .operand_count = run->count,
                         .attr_count = attr_count,
                         .compute = ORD_F32,
                         .operand = operand,
                         .attr = attr,
                         .device = setup->options->device};
  ord_answer answer = {.struct_size = sizeof answer, .pack = pack};
  if (op->reference->query(op->reference, &node, &answer) != ORD_OK)
    return ord_case_wrong(setup, "the reference of %s refuses: %s", op->name, answer.reason);
  if (!ord_case_append(setup, op, &answer, run->tensor, run->count)) return false;
  void *address[ORD_CASE_TENSOR_MAX];
  for (uint32_t i = 0; i < run->count; i++) address[i] = run->tensor[i].data;
  const ord_exec exec = {.struct_size = sizeof exec,
                         .operand = address,
                         .scratch = ord_arena_take(setup->arena, answer.scratch_bytes, 1),
                         .worker = ord_arena_take(setup->arena, answer.worker_bytes, 1)};
  if (!exec.scratch || !exec.worker) return ord_case_out_of_memory(setup);
  ord_plugin_error err = {.struct_size = sizeof err};
  if (launch_all(op->reference, &node, &answer, &exec, &err) == ORD_OK) return true;
  return ord_case_wrong(setup, "the reference of %s fails: %s", op->name, err.text);
}

static double largest_of(const ord_case_tensor *tensor, double largest) {
  const ord_reference_tensor view = ord_case_view(tensor);
  int64_t index[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&view); i++) {
    ord_reference_index(&view, i, index);
    const double size = fabs(ord_reference_read(&view, index));
    if (isfinite(size) && size > largest) largest = size;
  }
  return largest;
}

/* The op without its epilogue. The value between op and epilogue is f32 whatever the result is. */
static bool run_op(ord_case_setup *setup, ord_case_wanted *out) {
  reference_run run = {.count = 0};
  for (uint32_t i = 0; i < setup->entry_count; i++) add(&run, &setup->tensor[i]);
  for (uint32_t i = 0; i < setup->result_count; i++) {
    const ord_case_tensor *result = &setup->tensor[setup->entry_count + i];
    const ord_dtype dtype = setup->item_count && i == 0 ? ORD_F32 : result->dtype;
    if (!ord_case_copy(setup, result, dtype, &out->tensor[i])) return false;
    add(&run, &out->tensor[i]);
  }
  out->count = setup->result_count;
  for (uint32_t i = setup->first_state; i < setup->first_item; i++) {
    const ord_case_tensor *tensor = &setup->tensor[i];
    if (tensor->role == ORD_STATE) {
      ord_case_tensor *state = &out->state[out->state_count++];
      if (!ord_case_copy(setup, tensor, tensor->dtype, state)) return false;
      memcpy(state->data, tensor->data, tensor->block_bytes - 3 * ORD_CASE_MARGIN); /* both are dense */
      tensor = state;
    }
    add(&run, tensor);
  }
  if (!run_reference(setup, setup->op, setup->attr, setup->attr_count, &run)) return false;
  for (uint32_t i = 0; i < setup->result_count; i++) out->largest = largest_of(&out->tensor[i], out->largest);
  return true;
}

/* The item's op on the running value and the item's operands, which take the slots in order. */
static bool run_item(ord_case_setup *setup, const ord_case_item *item, ord_case_tensor *running) {
  reference_run run = {.count = 0};
  add(&run, running);
  const uint32_t entries = item->op->slot[0].flags & ORD_SLOT_LIST ? item->op->slot[0].entries : item->op->slot_count;
  for (uint32_t i = 1; i < entries; i++) {
    const uint32_t operand = i <= 2 ? item->operand[i - 1] : ORD_NONE;
    const char *name = item->op->slot[item->op->slot_count == 1 ? 0 : i].name;
    if (operand == ORD_NONE)
      add_absent(&run, name);
    else
      add(&run, &setup->tensor[operand]);
    run.tensor[run.count - 1].name = name;
  }
  run.tensor[0].name = item->op->slot[0].name;
  run.tensor[0].role = ORD_INPUT;
  ord_case_tensor made;
  if (!ord_case_copy(setup, running, ORD_F32, &made)) return false;
  add(&run, &made);
  if (!run_reference(setup, item->op, item->attr, item->attr_count, &run)) return false;
  *running = made;
  return true;
}

bool ord_case_expect(ord_case_setup *setup, ord_case_wanted *out) {
  memset(out, 0, sizeof *out);
  if (!run_op(setup, out)) return false;
  for (uint32_t i = 0; i < setup->item_count; i++) {
    if (!run_item(setup, &setup->item[i], &out->tensor[0])) return false;
    out->largest = largest_of(&out->tensor[0], out->largest);
    if (setup->item[i].output != ORD_NONE) out->tensor[out->count++] = out->tensor[0];
  }
  return true;
}

bool ord_case_append(ord_case_setup *setup, const ord_op *attends, const ord_answer *answer,
                     const ord_case_tensor *tensor, uint32_t count) {
  if (!setup->has_cache || !(attends->flags & ORD_OP_ATTENDS) || (answer->flags & ORD_APPENDS)) return true;
  const ord_op *op = ord_op_find("cache_append");
  reference_run run = {.count = 0};
  for (uint32_t slot = 0; slot < op->slot_count; slot++) {
    const ord_case_tensor *entry = ord_case_entry(setup, op->slot[slot].name);
    if (entry)
      add(&run, entry);
    else
      add_absent(&run, op->slot[slot].name);
  }
  for (uint32_t i = 0; i < count; i++)
    if (tensor[i].role == ORD_STATE) add(&run, &tensor[i]);
  return run_reference(setup, op, NULL, 0, &run);
}

bool ord_case_compute(const ord_op *op, const ord_case *row, uint32_t which, ord_arena *arena, ord_case_values *out,
                      ord_error *err) {
  static const ord_case_options options = {.device = &ord_case_cpu};
  ord_error fault = ORD_ERROR_INIT;
  ord_case_setup *setup = ord_arena_take(arena, 1, sizeof *setup);
  ord_case_wanted *wanted = ord_arena_take(arena, 1, sizeof *wanted);
  if (!setup || !wanted) return ord_fail_memory(err, "making a case");
  *setup = (ord_case_setup){.op = op, .row = row, .options = &options, .arena = arena, .err = &fault};
  if (!ord_case_read(setup) || !ord_case_make(setup) || !ord_case_expect(setup, wanted)) {
    if (err) *err = fault;
    return false;
  }
  if (which >= wanted->count + wanted->state_count)
    return ord_fail(err, ORD_INVALID, "result %u of %u", which, wanted->count + wanted->state_count);
  const ord_case_tensor *tensor =
      which < wanted->count ? &wanted->tensor[which] : &wanted->state[which - wanted->count];
  const ord_reference_tensor view = ord_case_view(tensor);
  *out = (ord_case_values){.dtype = tensor->dtype, .rank = tensor->rank, .count = ord_reference_count(&view)};
  memcpy(out->dim, tensor->run, sizeof out->dim);
  double *value = ord_arena_take(arena, (size_t)out->count, sizeof *value);
  if (!value) return ord_fail_memory(err, "making a case");
  int64_t index[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < out->count; i++) {
    ord_reference_index(&view, i, index);
    value[i] = ord_reference_read(&view, index);
  }
  out->value = value;
  return true;
}
