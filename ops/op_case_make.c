/* SPDX-License-Identifier: MIT
 *
 * Completes a conformance case that was read: results by the op's shape rule, then what the host adds to a node, in
 * the order of ordito_plugin.h, memory with margins, and contents that depend on nothing but the row and the seed.
 */
#include <math.h>
#include <string.h>

#include "ops/case.h"

/* ---- shapes and memory --------------------------------------------------------------------------------------------
 */

static const char *const run_dim_name[ORD_RUN_DIM_MAX] = {"r0", "r1", "r2",  "r3",  "r4",  "r5",  "r6",  "r7",
                                                          "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"};

/* Sets dim, run and stride; *out_bytes is what the tensor spans. */
static bool measure(const ord_case_setup *setup, ord_case_tensor *tensor, size_t *out_bytes) {
  const ord_dtype_info *info = ord_dtype_get(tensor->dtype);
  if (info->block_elements > 1 && (tensor->is_reversed || !tensor->rank))
    return ord_case_wrong(setup, "'%s' of blocks cannot be reversed", tensor->name);
  int64_t pitch = info->block_bytes;
  for (uint32_t i = 0; i < tensor->rank; i++) {
    const uint32_t axis = tensor->is_reversed ? i : tensor->rank - 1 - i;
    if (!ord_size_evaluate(tensor->size[axis], setup->run_maximum, &tensor->dim[axis]) ||
        !ord_size_evaluate(tensor->size[axis], setup->run_value, &tensor->run[axis]) || tensor->run[axis] < 0 ||
        tensor->run[axis] > tensor->dim[axis])
      return ord_case_wrong(setup, "axis %u of '%s' has no size", axis, tensor->name);
    int64_t count = tensor->dim[axis];
    if (axis == tensor->rank - 1 && count % info->block_elements)
      return ord_case_wrong(setup, "'%s' is not made of whole blocks", tensor->name);
    if (axis == tensor->rank - 1) count /= info->block_elements;
    if (tensor->has_gaps) count += i ? 1 : 3;
    tensor->stride[axis] = pitch;
    if (__builtin_mul_overflow(pitch, count, &pitch) || pitch > INT32_MAX)
      return ord_case_wrong(setup, "'%s' is too large for a case", tensor->name);
  }
  *out_bytes = (size_t)pitch;
  return true;
}

/* Measures and gives a block. A tensor with gaps begins one element behind an aligned address, as a view may. */
static bool give_memory(const ord_case_setup *setup, ord_case_tensor *tensor) {
  size_t bytes = 0;
  if (!measure(setup, tensor, &bytes)) return false;
  const size_t offset = tensor->has_gaps ? ord_dtype_get(tensor->dtype)->block_bytes : 0;
  tensor->block_bytes = bytes + offset + 3 * ORD_CASE_MARGIN;
  tensor->block = ord_arena_take(setup->arena, tensor->block_bytes, 1);
  if (!tensor->block) return ord_case_out_of_memory(setup);
  memset(tensor->block, 0xff, tensor->block_bytes);
  const size_t ahead = ORD_CASE_MARGIN - (uintptr_t)tensor->block % ORD_CASE_MARGIN;
  tensor->data = tensor->block + ahead + ORD_CASE_MARGIN + offset;
  return true;
}

bool ord_case_copy(ord_case_setup *setup, const ord_case_tensor *from, ord_dtype dtype, ord_case_tensor *out) {
  *out = *from;
  out->dtype = dtype;
  out->is_reversed = out->has_gaps = false;
  return give_memory(setup, out);
}

ord_reference_tensor ord_case_view_whole(const ord_case_tensor *tensor) {
  ord_reference_tensor view = {.data = (char *)tensor->data,
                               .dtype = tensor->dtype,
                               .rank = tensor->rank,
                               .block_elements = ord_dtype_get(tensor->dtype)->block_elements};
  memcpy(view.dim, tensor->dim, sizeof view.dim);
  memcpy(view.stride, tensor->stride, sizeof view.stride);
  return view;
}

ord_reference_tensor ord_case_view(const ord_case_tensor *tensor) {
  ord_reference_tensor view = ord_case_view_whole(tensor);
  memcpy(view.dim, tensor->run, sizeof view.dim);
  return view;
}

/* ---- contents
 * --------------------------------------------------------------------------------------------------------- */

/* A well mixed number for each counter (the finaliser of splitmix64). */
static uint64_t mix(uint64_t counter) {
  counter += UINT64_C(0x9e3779b97f4a7c15);
  counter = (counter ^ counter >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  counter = (counter ^ counter >> 27) * UINT64_C(0x94d049bb133111eb);
  return counter ^ counter >> 31;
}

static uint64_t seed_of(const ord_case_setup *setup, uint32_t tensor) {
  uint64_t seed = mix(setup->options->seed) + tensor;
  for (const char *at = setup->row->operands; *at; at++) seed = mix(seed ^ (unsigned char)*at);
  return seed;
}

/* In [0, 1). */
static double fraction(uint64_t random) { return (double)(random >> 11) * 0x1p-53; }

static double random_number(const ord_case_tensor *tensor, uint64_t random) {
  if (tensor->dtype == ORD_BOOL) return random % 4 != 0;
  if (tensor->dtype == ORD_I8) return (double)(random % 255) - 127;
  if (tensor->dtype == ORD_I32 || tensor->dtype == ORD_I64)
    return (double)(random % (uint64_t)(tensor->limit > 0 ? tensor->limit : 4));
  return tensor->low + (tensor->high - tensor->low) * fraction(random);
}

/* A block: random bytes behind an f16 scale (and offset) that keep its numbers within low .. high. */
static void fill_block(const ord_case_tensor *tensor, uint64_t seed, char *block) {
  const uint16_t bytes = ord_dtype_get(tensor->dtype)->block_bytes;
  for (uint16_t i = 0; i < bytes; i++) block[i] = (char)mix(seed + i);
  const double part = 0.5 + fraction(seed) / 2; /* of the range */
  const uint16_t head[2] = {ord_reference_to_half(tensor->high * part / (tensor->dtype == ORD_Q8_0 ? 128 : 8)),
                            ord_reference_to_half(tensor->low * part)};
  memcpy(block, head, tensor->dtype == ORD_Q4_1 ? 4 : 2);
}

static void fill(const ord_case_setup *setup, uint32_t which) {
  const ord_case_tensor *tensor = &setup->tensor[which];
  ord_reference_tensor view = ord_case_view_whole(tensor);
  const bool is_blocks = view.block_elements > 1;
  if (is_blocks) view.dim[view.rank - 1] /= view.block_elements;
  const uint64_t seed = seed_of(setup, which);
  int64_t index[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&view); i++) {
    ord_reference_index(&view, i, index);
    const uint64_t random = mix(seed + (uint64_t)i);
    if (is_blocks)
      fill_block(tensor, random, ord_reference_at(&view, index));
    else if (tensor->value)
      ord_reference_write(&view, index, tensor->value[i % tensor->value_count]);
    else
      ord_reference_write(&view, index, random_number(tensor, random));
  }
}

/* ---- the node
 * ---------------------------------------------------------------------------------------------------------- */

static ord_case_tensor *append(ord_case_setup *setup, ord_case_tensor tensor) {
  if (setup->tensor_count == ORD_CASE_TENSOR_MAX) {
    ord_case_wrong(setup, "more than %d operands", ORD_CASE_TENSOR_MAX);
    return NULL;
  }
  setup->tensor[setup->tensor_count] = tensor;
  return &setup->tensor[setup->tensor_count++];
}

/* A weight is made of one segment at least, as the host makes them; the ids count up through the node. */
static bool number_segments(ord_case_setup *setup, ord_case_tensor *tensor) {
  const uint32_t count = tensor->segment_count ? tensor->segment_count : 1;
  ord_segment *segment = ord_arena_take(setup->arena, count, sizeof *segment);
  int64_t rows = 1;
  if (!segment) return ord_case_out_of_memory(setup);
  if (tensor->rank && !ord_size_is_constant(tensor->size[0], &rows))
    return ord_case_wrong(setup, "weight '%s' has a first dim that only a run knows", tensor->name);
  for (uint32_t i = 0; i < count; i++) {
    segment[i].rows = tensor->segment_count ? tensor->segment[i].rows : rows;
    segment[i].weight_id = setup->segment_count++;
  }
  tensor->segment = segment;
  tensor->segment_count = count;
  return true;
}

/* Entries in the order of the slots; a slot that is not given becomes an absent operand. */
static bool order_slots(ord_case_setup *setup) {
  const uint32_t read_count = setup->tensor_count;
  const ord_case_tensor *read = ord_arena_copy(setup->arena, setup->tensor, read_count, sizeof *read);
  if (!read) return ord_case_out_of_memory(setup);
  setup->tensor_count = 0;
  for (uint32_t slot = 0; slot < setup->op->slot_count; slot++) {
    uint32_t entries = 0;
    for (uint32_t i = 0; i < read_count; i++) {
      if (read[i].slot != slot) continue;
      entries++;
      ord_case_tensor *entry = append(setup, read[i]);
      if (!entry || (entry->role == ORD_WEIGHT && !number_segments(setup, entry))) return false;
    }
    const ord_case_tensor absent = {
        .name = setup->op->slot[slot].name, .role = ORD_ABSENT, .dtype = ORD_F32, .slot = slot};
    if (!entries && !(setup->op->slot[slot].flags & ORD_SLOT_LIST) && !append(setup, absent)) return false;
  }
  setup->entry_count = setup->tensor_count;
  return true;
}

/* Weights that are multiplied have a variance of 1 / in, so that results stay near 1. */
static void set_ranges(ord_case_setup *setup) {
  for (uint32_t i = 0; i < setup->entry_count; i++) {
    ord_case_tensor *tensor = &setup->tensor[i];
    if (tensor->role != ORD_WEIGHT || tensor->rank != 2 || !(setup->op->slot[tensor->slot].flags & ORD_SLOT_MATRIX))
      continue;
    int64_t in;
    if (ord_size_is_constant(tensor->size[1], &in) && in > 0) tensor->high = sqrt(3.0 / (double)in);
    tensor->low = -tensor->high;
  }
}

static const char *described(const ord_case_setup *setup, const ord_case_tensor *tensor) {
  const bool has_axes =
      tensor->role == ORD_WEIGHT && tensor->rank == 2 && (setup->op->slot[tensor->slot].flags & ORD_SLOT_MATRIX);
  ord_text text = {0};
  ord_text_add(&text, "%s'%s' [", tensor->role == ORD_WEIGHT ? "weight " : "", tensor->name);
  for (uint32_t axis = 0; axis < tensor->rank; axis++) {
    ord_text_add(&text, "%s%s", axis ? ", " : "", !has_axes ? "" : axis ? "in " : "out ");
    ord_size_print(&text, tensor->size[axis], run_dim_name);
  }
  ord_text_add(&text, "]");
  const char *made = text.failed ? NULL : ord_arena_text(setup->arena, text.bytes);
  ord_text_finish(&text);
  return made;
}

static void report(ord_infer *infer, const char *slot_or_attr, uint32_t entry, const char *text) {
  (void)slot_or_attr, (void)entry;
  ord_case_setup *setup = infer->report_context;
  ord_fail(setup->err, infer->out_of_memory ? ORD_NO_MEMORY : ORD_INVALID, "%s", text);
}

/* Runs the shape rule and appends the results. */
static bool infer_results(ord_case_setup *setup) {
  ord_infer_operand *operand = ord_arena_take(setup->arena, setup->entry_count, sizeof *operand);
  ord_infer_result *result = ord_arena_take(setup->arena, setup->result_count, sizeof *result);
  if (!operand || !result) return ord_case_out_of_memory(setup);
  for (uint32_t i = 0; i < setup->entry_count; i++) {
    const ord_case_tensor *tensor = &setup->tensor[i];
    operand[i] = (ord_infer_operand){.slot = tensor->slot,
                                     .is_absent = tensor->role == ORD_ABSENT,
                                     .is_weight = tensor->role == ORD_WEIGHT,
                                     .has_number = tensor->has_number,
                                     .number = tensor->number,
                                     .name = tensor->name,
                                     .described = described(setup, tensor),
                                     .dtype = tensor->role == ORD_WEIGHT ? ORD_F32 : tensor->dtype,
                                     .rank = tensor->rank};
    memcpy(operand[i].dim, tensor->size, sizeof tensor->size);
    if (!operand[i].described) return ord_case_out_of_memory(setup);
  }
  ord_infer infer = {.op = setup->op,
                     .arena = setup->arena,
                     .run_dim_name = run_dim_name,
                     .operand = operand,
                     .operand_count = setup->entry_count,
                     .attr = setup->attr,
                     .attr_count = setup->attr_count,
                     .shape = setup->shape,
                     .shape_rank = setup->shape_rank,
                     .has_cache = setup->has_cache,
                     .result_count = setup->result_count,
                     .result = result,
                     .report = report,
                     .report_context = setup};
  if (ord_size_constant(setup->arena, setup->cache_length, &infer.cache_length) != ORD_SIZE_OK)
    return ord_case_out_of_memory(setup);
  if (!setup->op->infer(&infer)) return false;
  setup->attr_count = infer.attr_count;
  for (uint32_t i = 0; i < setup->result_count; i++) {
    ord_case_tensor *made = append(setup, (ord_case_tensor){.name = "out",
                                                            .role = ORD_OUTPUT,
                                                            .slot = ORD_NONE,
                                                            .dtype = result[i].dtype,
                                                            .rank = result[i].rank,
                                                            .is_reversed = setup->out_layout.is_reversed,
                                                            .has_gaps = setup->out_layout.has_gaps});
    if (!made) return false;
    memcpy(made->size, result[i].dim, sizeof made->size);
  }
  return true;
}

const ord_case_tensor *ord_case_entry(const ord_case_setup *setup, const char *slot) {
  for (uint32_t i = 0; i < setup->entry_count; i++)
    if (setup->tensor[i].role != ORD_ABSENT && strcmp(setup->tensor[i].name, slot) == 0) return &setup->tensor[i];
  return NULL;
}

/* cache_k and cache_v, shaped after k and v but for the token axis, which is the cache's. */
static bool append_states(ord_case_setup *setup) {
  static const char *const slot[] = {"k", "v"}, *const state[] = {"cache_k", "cache_v"};
  setup->first_state = setup->tensor_count;
  for (uint32_t i = 0; setup->has_cache && i < 2; i++) {
    const ord_case_tensor *entry = ord_case_entry(setup, slot[i]);
    if (!entry || entry->rank != 4) return ord_case_wrong(setup, "a cache needs operand '%s' of 4 axes", slot[i]);
    ord_case_tensor *made = append(setup, (ord_case_tensor){.name = state[i],
                                                            .role = ORD_STATE,
                                                            .slot = ORD_NONE,
                                                            .dtype = setup->cache_dtype,
                                                            .rank = 4,
                                                            .low = -1,
                                                            .high = 1});
    if (!made) return false;
    memcpy(made->size, entry->size, sizeof made->size);
    if (ord_size_constant(setup->arena, setup->cache_length, &made->size[2]) != ORD_SIZE_OK)
      return ord_case_out_of_memory(setup);
  }
  return true;
}

/* The operand NAME_scale of each i8 weight. */
static bool append_scales(ord_case_setup *setup) {
  for (uint32_t i = 0; i < setup->entry_count; i++) {
    const ord_case_tensor *weight = &setup->tensor[i];
    if (weight->role != ORD_WEIGHT || weight->dtype != ORD_I8) continue;
    const char *name = ord_arena_format(setup->arena, "%s_scale", weight->name);
    if (!name) return ord_case_out_of_memory(setup);
    const ord_case_tensor scale = {.name = name,
                                   .role = ORD_WEIGHT,
                                   .slot = ORD_NONE,
                                   .dtype = ORD_F32,
                                   .rank = 1,
                                   .size = {weight->size[0]},
                                   .segment = weight->segment,
                                   .segment_count = weight->segment_count,
                                   .low = weight->high / 254,
                                   .high = weight->high / 127};
    if (!append(setup, scale)) return false;
  }
  return true;
}

static bool append_epilogue(ord_case_setup *setup) {
  setup->first_item = setup->tensor_count;
  for (uint32_t i = 0; i < setup->item_count; i++) {
    ord_case_item *item = &setup->item[i];
    for (uint32_t which = 0; which < 2; which++) {
      if (item->operand[which] == ORD_NONE) continue;
      ord_case_tensor *operand = append(setup, setup->item_tensor[item->operand[which]]);
      if (!operand || (operand->role == ORD_WEIGHT && !number_segments(setup, operand))) return false;
      operand->name = "epilogue";
      item->operand[which] = setup->tensor_count - 1;
    }
    if (item->output == ORD_NONE) continue;
    ord_case_tensor *output = append(setup, setup->tensor[setup->entry_count]);
    if (!output) return false;
    output->name = "epilogue_out";
    item->output = setup->tensor_count - 1;
  }
  return true;
}

/* past, then one scalar for each size that depends on a run-time dim. */
static bool append_scalars(ord_case_setup *setup) {
  setup->first_scalar = setup->tensor_count;
  if (setup->has_cache) {
    const ord_case_tensor past = {.name = "past",
                                  .role = ORD_SCALAR,
                                  .slot = ORD_NONE,
                                  .dtype = ORD_I32,
                                  .rank = 1,
                                  .size = {setup->tensor[setup->first_state].size[0]},
                                  .value = setup->past ? setup->past : &(const double){0},
                                  .value_count = setup->past ? setup->past_count : 1};
    ord_case_tensor *made = append(setup, past);
    if (!made) return false;
    made->value = ord_arena_copy(setup->arena, made->value, made->value_count, sizeof *made->value);
    if (!made->value) return ord_case_out_of_memory(setup);
  }
  ord_size known[ORD_CASE_TENSOR_MAX];
  uint32_t known_count = 0;
  const uint32_t first = setup->tensor_count;
  for (uint32_t i = 0; i < first; i++) {
    ord_case_tensor *tensor = &setup->tensor[i];
    for (uint32_t axis = 0; axis < tensor->rank; axis++) {
      int64_t value;
      tensor->extent[axis] = ORD_NONE;
      if (ord_size_is_constant(tensor->size[axis], &value)) continue;
      uint32_t which = 0;
      while (which < known_count && !ord_size_equal(known[which], tensor->size[axis])) which++;
      tensor->extent[axis] = first + which;
      if (which < known_count) continue;
      double *copy = ord_arena_take(setup->arena, 1, sizeof *copy);
      if (!copy) return ord_case_out_of_memory(setup);
      if (!ord_size_evaluate(tensor->size[axis], setup->run_value, &value))
        return ord_case_wrong(setup, "a size overflows");
      *copy = (double)value;
      known[known_count++] = tensor->size[axis];
      if (!append(setup, (ord_case_tensor){.name = "extent",
                                           .role = ORD_SCALAR,
                                           .slot = ORD_NONE,
                                           .dtype = ORD_I64,
                                           .value = copy,
                                           .value_count = 1}))
        return false;
    }
  }
  return true;
}

ord_operand *ord_case_operands(ord_arena *arena, const ord_case_tensor *tensor, uint32_t count) {
  ord_operand *operand = ord_arena_take(arena, count, sizeof *operand);
  if (!operand) return NULL;
  for (uint32_t i = 0; i < count; i++) {
    const ord_dtype_info *info = ord_dtype_get(tensor[i].dtype);
    operand[i] =
        (ord_operand){.name = tensor[i].name,
                      .role = tensor[i].role,
                      .dtype = tensor[i].dtype,
                      .rank = tensor[i].rank,
                      .block_elements = info->block_elements,
                      .block_bytes = info->block_bytes,
                      .align_log2 = (uint32_t)__builtin_ctz(tensor[i].has_gaps ? info->block_bytes : ORD_CASE_MARGIN),
                      .segment_count = tensor[i].segment_count,
                      .segment = tensor[i].segment};
    memcpy(operand[i].dim, tensor[i].dim, sizeof operand[i].dim);
    memcpy(operand[i].stride, tensor[i].stride, sizeof operand[i].stride);
    for (uint32_t axis = 0; axis < ORD_RANK_MAX; axis++)
      operand[i].extent[axis] = axis < tensor[i].rank ? tensor[i].extent[axis] : ORD_NONE;
  }
  return operand;
}

static bool make_node(ord_case_setup *setup) {
  ord_epilogue *epilogue = ord_arena_take(setup->arena, setup->item_count, sizeof *epilogue);
  const ord_operand *operand = ord_case_operands(setup->arena, setup->tensor, setup->tensor_count);
  if (!epilogue || !operand) return ord_case_out_of_memory(setup);
  for (uint32_t i = 0; i < setup->item_count; i++) {
    const ord_case_item *item = &setup->item[i];
    epilogue[i] = (ord_epilogue){.op = item->op->name,
                                 .operand = {item->operand[0], item->operand[1]},
                                 .output = item->output,
                                 .attr_count = item->attr_count,
                                 .attr = item->attr};
  }
  for (uint32_t i = 0; i < setup->entry_count; i++)
    if (setup->tensor[i].has_number)
      setup->attr[setup->attr_count++] =
          (ord_attr){.name = "number", .kind = ORD_ATTR_NUMBER, .count = 1, .value.f = setup->tensor[i].number};
  setup->node = (ord_node){.struct_size = sizeof setup->node,
                           .op_version = setup->op->version,
                           .op = setup->op->name,
                           .label = "case",
                           .operand_count = setup->tensor_count,
                           .attr_count = setup->attr_count,
                           .epilogue_count = setup->item_count,
                           .compute = setup->compute,
                           .operand = operand,
                           .attr = setup->attr,
                           .epilogue = epilogue,
                           .device = setup->options->device};
  return true;
}

bool ord_case_make(ord_case_setup *setup) {
  if (!order_slots(setup)) return false;
  set_ranges(setup);
  if (!infer_results(setup) || !append_states(setup) || !append_scales(setup) || !append_epilogue(setup) ||
      !append_scalars(setup))
    return false;
  for (uint32_t i = 0; i < setup->tensor_count; i++) {
    if (setup->tensor[i].role == ORD_ABSENT) continue;
    if (!give_memory(setup, &setup->tensor[i])) return false;
    if (setup->tensor[i].role != ORD_OUTPUT) fill(setup, i);
  }
  return make_node(setup);
}
