/* SPDX-License-Identifier: MIT
 *
 * Lowering, second part: a place for everything. Values and scratch share the arena by their lifetimes; an op writes
 * over an operand that it reads last, where its kernel says that it may; persistent memory lies behind all that.
 */
#include <string.h>

#include "graphs/lower_parts.h"

typedef struct plan_memory {
  ord_lower *lower;
  ord_lifetime *life;    /* [values] */
  uint32_t *memory;      /* [values]: the value in whose memory it lies after ops wrote in place */
  bool *is_kept;         /* [values]: the memory that an output lies in */
  ord_memory_item *item; /* values with memory of their own, then scratch */
  uint32_t item_count;
  uint32_t *item_of; /* [values] */
  uint32_t end;      /* the last step */
  uint32_t weight_count;
} plan_memory;

static const char DOING[] = "placing the values of a plan";

static bool begin(plan_memory *placing, ord_error *err) {
  const ord_graph *graph = placing->lower->graph;
  ord_arena *arena = &placing->lower->arena;
  placing->end = graph->node_count ? graph->node_count - 1 : 0;
  placing->memory = ord_arena_take(arena, graph->value_count, sizeof *placing->memory);
  placing->is_kept = ord_arena_take(arena, graph->value_count, sizeof *placing->is_kept);
  placing->item_of = ord_arena_take(arena, graph->value_count, sizeof *placing->item_of);
  placing->item = ord_arena_take(arena, (size_t)graph->value_count + graph->node_count, sizeof *placing->item);
  if (!placing->memory || !placing->is_kept || !placing->item_of || !placing->item) return ord_fail_memory(err, DOING);
  for (uint32_t i = 0; i < graph->value_count; i++) placing->memory[i] = i;
  for (uint32_t i = 0; i < graph->output_count; i++)
    placing->is_kept[ord_value_base(graph, graph->output[i].value)] = true;
  return ord_graph_lifetimes(graph, arena, &placing->life, err);
}

/* ---- in place ------------------------------------------------------------------------------------------------- */

static bool are_laid_out_alike(const ord_graph *graph, const ord_value *a, const ord_value *b) {
  int64_t dim[ORD_RANK_MAX];
  if (a->dtype != b->dtype || a->rank != b->rank || !ord_value_dims(graph, a, dim, NULL)) return false;
  for (uint32_t axis = 0; axis < a->rank; axis++) {
    if (!ord_size_equal(a->dim[axis], b->dim[axis])) return false;
    if (dim[axis] != 1 && a->stride[axis] != b->stride[axis]) return false;
  }
  return true;
}

static bool is_read_once(const ord_lower *lower, uint32_t step, uint32_t base) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < lower->plan->step[step].node.operand_count; i++)
    if (lower->described[step].operand[i].is == ORD_IS_VALUE)
      count += ord_value_base(lower->graph, lower->described[step].operand[i].value) == base;
  return count == 1;
}

/* May the first output of the step lie where operand number `which` does? */
static bool may_overwrite(const plan_memory *placing, uint32_t step, uint32_t which, uint32_t out) {
  const ord_lower *lower = placing->lower;
  const ord_graph *graph = lower->graph;
  if (which >= lower->plan->step[step].node.operand_count || lower->described[step].operand[which].is != ORD_IS_VALUE)
    return false;
  const ord_value *value = &graph->value[lower->described[step].operand[which].value];
  const uint32_t base = ord_value_base(graph, lower->described[step].operand[which].value);
  if (base == out || graph->value[base].kind != ORD_VALUE_RESULT || placing->is_kept[base]) return false;
  return placing->life[base].last == step && value->offset == 0 &&
         placing->life[base].bytes == placing->life[out].bytes && is_read_once(lower, step, base) &&
         are_laid_out_alike(graph, value, &graph->value[out]);
}

static void overwrite(plan_memory *placing, uint32_t step) {
  const ord_graph_node *node = &placing->lower->graph->node[step];
  const uint32_t mask = placing->lower->plan->step[step].choice.answer.alias_mask;
  if (node->out_count == 0 || placing->lower->graph->value[node->out[0]].storage != ORD_STORAGE_OWN) return;
  for (uint32_t which = 0; which < 32; which++) {
    if (!(mask >> which & 1) || !may_overwrite(placing, step, which, node->out[0])) continue;
    const uint32_t base = ord_value_base(placing->lower->graph, placing->lower->described[step].operand[which].value);
    const uint32_t memory = placing->memory[base];
    const ord_lifetime *made = &placing->life[node->out[0]];
    placing->memory[node->out[0]] = memory;
    /* Later steps ask for the last reader of the value itself, so only the owner's life grows. */
    ord_memory_item *item = &placing->item[placing->item_of[memory]];
    if (made->first < item->first) item->first = made->first;
    if (made->last > item->last) item->last = made->last;
    return;
  }
}

/* ---- the arena ------------------------------------------------------------------------------------------------ */

static void add_value_items(plan_memory *placing) {
  for (uint32_t i = 0; i < placing->lower->graph->value_count; i++) {
    const ord_lifetime *life = &placing->life[i];
    if (!life->has_memory) continue;
    placing->item_of[i] = placing->item_count;
    placing->item[placing->item_count++] =
        (ord_memory_item){.bytes = life->bytes, .first = life->first, .last = life->last};
  }
}

/* What lies in another's memory needs none. */
static void drop_overwriting_items(plan_memory *placing) {
  for (uint32_t i = 0; i < placing->lower->graph->value_count; i++)
    if (placing->memory[i] != i) placing->item[placing->item_of[i]].bytes = 0;
}

static bool check_request(const ord_step *step, uint64_t bytes, const char *what, ord_error *err) {
  return bytes <= PTRDIFF_MAX ||
         ord_fail(err, ORD_NO_MEMORY, "%s: kernel %s wants %llu bytes of %s, more than an address can count",
                  step->node.label, step->choice.kernel->name, (unsigned long long)bytes, what);
}

/* A plugin's word: sums of what passes cannot wrap unseen. */
static bool check_requests(const ord_plan *plan, ord_error *err) {
  for (uint32_t n = 0; n < plan->step_count; n++) {
    const ord_answer *answer = &plan->step[n].choice.answer;
    if (!check_request(&plan->step[n], answer->scratch_bytes, "scratch", err) ||
        !check_request(&plan->step[n], answer->worker_bytes, "memory for each thread", err) ||
        !check_request(&plan->step[n], answer->persistent_bytes, "persistent memory", err))
      return false;
  }
  return true;
}

static bool place_arena(plan_memory *placing, ord_error *err) {
  ord_plan *plan = placing->lower->plan;
  const uint32_t first_scratch = placing->item_count;
  if (!check_requests(plan, err)) return false;
  for (uint32_t n = 0; n < plan->step_count; n++)
    placing->item[placing->item_count++] =
        (ord_memory_item){.bytes = plan->step[n].choice.answer.scratch_bytes, .first = n, .last = n};
  if (!placing->lower->graph->shares_memory)
    for (uint32_t i = 0; i < placing->item_count; i++) {
      placing->item[i].first = 0;
      placing->item[i].last = placing->end;
    }
  if (!ord_memory_place(placing->item, placing->item_count, &plan->persistent_begin, err)) return false;
  size_t end = plan->persistent_begin;
  for (uint32_t n = 0; n < plan->step_count; n++) {
    ord_step *step = &plan->step[n];
    step->scratch_offset = placing->item[first_scratch + n].offset;
    step->persistent_offset = end;
    size_t behind;
    if (!ord_size_add(end, step->choice.answer.persistent_bytes, &behind) || !ord_memory_round_up(behind, &end))
      return ord_fail(err, ORD_NO_MEMORY, "%s: kernel %s wants %llu bytes of persistent memory; no address is left",
                      step->node.label, step->choice.kernel->name,
                      (unsigned long long)step->choice.answer.persistent_bytes);
  }
  plan->arena_bytes = end;
  return true;
}

/* ---- locations ------------------------------------------------------------------------------------------------ */

static ord_location locate_value(const plan_memory *placing, uint32_t index) {
  const ord_graph *graph = placing->lower->graph;
  const ord_value *value = &graph->value[index];
  const uint32_t memory = placing->memory[ord_value_base(graph, index)];
  const size_t offset = (size_t)value->offset * ord_dtype_get(value->dtype)->block_bytes;
  return (ord_location){.space = ORD_SPACE_ARENA, .offset = placing->item[placing->item_of[memory]].offset + offset};
}

/* Each weight operand has an entry of its own: how it is packed differs from kernel to kernel. */
static ord_location locate_weight(plan_memory *placing, const ord_value *value) {
  const size_t offset = value ? (size_t)value->offset * ord_dtype_get(value->dtype)->block_bytes : 0;
  return (ord_location){.space = ORD_SPACE_WEIGHT, .index = placing->weight_count++, .offset = offset};
}

static bool locate_extent(plan_memory *placing, ord_size size, ord_location *out, ord_error *err) {
  ord_plan *plan = placing->lower->plan;
  uint32_t index = 0;
  while (index < plan->extent_count && !ord_size_equal(plan->extent[index], size)) index++;
  *out = (ord_location){.space = ORD_SPACE_EXTENT, .index = index};
  if (index < plan->extent_count) return true;
  uint32_t capacity = plan->extent_count;
  if (!ord_size_copy(&plan->arena, &size) ||
      !ord_arena_grow(&plan->arena, &plan->extent, &capacity, plan->extent_count + 1, sizeof size))
    return ord_fail_memory(err, DOING);
  plan->extent[plan->extent_count++] = size;
  return true;
}

static bool locate_operand(plan_memory *placing, uint32_t step, uint32_t which, ord_location *out, ord_error *err) {
  ord_lower *lower = placing->lower;
  const ord_described_operand *operand = &lower->described[step].operand[which];
  const uint32_t cache = lower->graph->node[step].cache;
  switch (operand->is) {
  case ORD_IS_ABSENT:
    *out = (ord_location){.space = ORD_SPACE_NONE};
    return true;
  case ORD_IS_CACHE_K:
    *out = (ord_location){.space = ORD_SPACE_CACHE, .index = 2 * cache};
    return true;
  case ORD_IS_CACHE_V:
    *out = (ord_location){.space = ORD_SPACE_CACHE, .index = 2 * cache + 1};
    return true;
  case ORD_IS_PAST:
    *out = (ord_location){.space = ORD_SPACE_PAST};
    return true;
  case ORD_IS_EXTENT:
    return locate_extent(placing, operand->size[0], out, err);
  case ORD_IS_SCALE:
    *out = locate_weight(placing, NULL);
    return true;
  case ORD_IS_VALUE:
    break;
  }
  const uint32_t base = ord_value_base(lower->graph, operand->value);
  *out = lower->graph->value[base].kind == ORD_VALUE_WEIGHT
             ? locate_weight(placing, &lower->graph->value[operand->value])
             : locate_value(placing, operand->value);
  return true;
}

static bool locate_operands(plan_memory *placing, ord_error *err) {
  ord_plan *plan = placing->lower->plan;
  for (uint32_t n = 0; n < plan->step_count; n++) {
    ord_step *step = &plan->step[n];
    ord_location *place = ord_arena_take(&plan->arena, step->node.operand_count, sizeof *place);
    if (!place) return ord_fail_memory(err, DOING);
    for (uint32_t i = 0; i < step->node.operand_count; i++)
      if (!locate_operand(placing, n, i, &place[i], err)) return false;
    step->place = place;
  }
  plan->weight = ord_arena_take(&plan->arena, placing->weight_count, sizeof *plan->weight);
  if (!plan->weight) return ord_fail_memory(err, DOING);
  plan->weight_count = placing->weight_count;
  return true;
}

/* ---- inputs and outputs --------------------------------------------------------------------------------------- */

static bool fill_tensor(const plan_memory *placing, const char *name, uint32_t index, ord_plan_tensor *out,
                        ord_error *err) {
  const ord_graph *graph = placing->lower->graph;
  ord_arena *arena = &placing->lower->plan->arena;
  const ord_value *value = &graph->value[index];
  *out = (ord_plan_tensor){.dtype = value->dtype, .rank = value->rank, .place = locate_value(placing, index)};
  out->name = ord_arena_text(arena, name);
  if (!out->name) return ord_fail_memory(err, DOING);
  const int64_t bytes = ord_dtype_get(value->dtype)->block_bytes;
  for (uint32_t axis = 0; axis < value->rank; axis++) {
    out->size[axis] = value->dim[axis];
    if (!ord_size_copy(arena, &out->size[axis])) return ord_fail_memory(err, DOING);
    if (__builtin_mul_overflow(value->stride[axis], bytes, &out->stride[axis]))
      return ord_fail(err, ORD_INVALID, "'%s' is too large for memory", value->name);
  }
  return ord_value_dims(graph, value, out->dim, err);
}

static bool fill_tensors(const plan_memory *placing, ord_error *err) {
  const ord_graph *graph = placing->lower->graph;
  ord_plan *plan = placing->lower->plan;
  plan->input = ord_arena_take(&plan->arena, graph->input_count, sizeof *plan->input);
  plan->output = ord_arena_take(&plan->arena, graph->output_count, sizeof *plan->output);
  if (!plan->input || !plan->output) return ord_fail_memory(err, DOING);
  for (; plan->input_count < graph->input_count; plan->input_count++) {
    const ord_graph_input *input = &graph->input[plan->input_count];
    if (!fill_tensor(placing, input->name, input->value, &plan->input[plan->input_count], err)) return false;
  }
  for (; plan->output_count < graph->output_count; plan->output_count++) {
    const ord_graph_output *output = &graph->output[plan->output_count];
    if (!fill_tensor(placing, output->name, output->value, &plan->output[plan->output_count], err)) return false;
  }
  return true;
}

bool ord_lower_place(ord_lower *lower, ord_error *err) {
  plan_memory placing = {.lower = lower};
  if (!begin(&placing, err)) return false;
  add_value_items(&placing);
  if (lower->graph->shares_memory)
    for (uint32_t n = 0; n < lower->plan->step_count; n++) overwrite(&placing, n);
  drop_overwriting_items(&placing);
  return place_arena(&placing, err) && locate_operands(&placing, err) && fill_tensors(&placing, err);
}
