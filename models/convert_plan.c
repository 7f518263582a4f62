/* SPDX-License-Identifier: MIT
 *
 * What a conversion writes. A named file to a named file: all its tensors. To a checkpoint: the weights in the model's
 * order, then both moments. From a checkpoint to names: the weights under their file names, slices joined to the tensor
 * that they are slices of.
 */
#include "models/convert.h"

#include <stdlib.h>
#include <string.h>

enum { PART_COUNT = 3 };

static const char *const part_suffix[PART_COUNT] = {"", ORD_ADAM_M, ORD_ADAM_V};

typedef struct planner {
  const ord_weight_file *file;
  const ord_description *description;
  const ord_graph *graph;
  const ord_convert_options *options;
  ord_convert_plan *plan;
  uint32_t *tensor_of; /* [graph->weight_count] */
  ord_error *err;
} planner;

static bool fail_memory(const planner *make) { return ord_fail_memory(make->err, "planning a conversion"); }

static bool is_float(ord_dtype dtype) { return dtype == ORD_F32 || dtype == ORD_F16 || dtype == ORD_BF16; }

static bool add_piece(const planner *make, uint32_t tensor, ord_weight_span span) {
  ord_convert_plan *plan = make->plan;
  if (!ord_arena_grow(&plan->arena, &plan->piece, &plan->piece_capacity, plan->piece_count + 1, sizeof *plan->piece))
    return fail_memory(make);
  const ord_dtype dtype = tensor == ORD_NONE ? ORD_F32 : make->file->tensor[tensor].dtype;
  plan->piece[plan->piece_count++] = (ord_convert_piece){.tensor = tensor, .dtype = dtype, .span = span};
  return true;
}

/* A tensor whose pieces were added since `first_piece`. */
static bool add_tensor(const planner *make, const char *name, const char *type_name, ord_dtype dtype, uint32_t rank,
                       const int64_t *dim, uint64_t bytes, uint32_t first_piece) {
  ord_convert_plan *plan = make->plan;
  ord_convert_tensor tensor = {.name = name,
                               .type_name = type_name,
                               .dtype = dtype,
                               .rank = rank,
                               .bytes = bytes,
                               .first_piece = first_piece,
                               .piece_count = plan->piece_count - first_piece};
  memcpy(tensor.dim, dim, rank * sizeof *dim);
  if (!name || !ord_arena_grow(&plan->arena, &plan->tensor, &plan->tensor_capacity, plan->tensor_count + 1,
                               sizeof *plan->tensor))
    return fail_memory(make);
  plan->tensor[plan->tensor_count++] = tensor;
  return true;
}

/* ---- a named file to a named file ----------------------------------------------------------------------------- */

/* Moments and the scales of I8 tensors are f32 by their meaning. */
static bool keeps_type(const ord_weight_file *file, uint32_t tensor) {
  static const char *const suffix[] = {ORD_ADAM_M, ORD_ADAM_V, ORD_SCALE};
  for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++)
    if (ord_ends_with(file->tensor[tensor].name, suffix[i])) return true;
  return !is_float(file->tensor[tensor].dtype);
}

static bool plan_all(const planner *make) {
  for (uint32_t t = 0; t < make->file->tensor_count; t++) {
    const ord_file_tensor *from = &make->file->tensor[t];
    const ord_dtype dtype = keeps_type(make->file, t) ? 0 : make->options->dtype;
    uint64_t bytes = from->bytes;
    if (dtype) bytes = bytes / ord_dtype_get(from->dtype)->block_bytes * ord_dtype_get(dtype)->block_bytes;
    const uint32_t first_piece = make->plan->piece_count;
    if (!add_piece(make, t, (ord_weight_span){1, 0, from->bytes, from->bytes}) ||
        !add_tensor(make, from->name, dtype ? ord_safetensors_type(dtype) : from->type_name, dtype, from->rank,
                    from->dim, bytes, first_piece))
      return false;
  }
  return true;
}

/* ---- weights of the graph ------------------------------------------------------------------------------------- */

static bool map_weights(planner *make) {
  ord_mapping mapping = {0};
  make->tensor_of = ord_arena_take(&make->plan->arena, make->graph->weight_count, sizeof *make->tensor_of);
  if (!make->tensor_of) return fail_memory(make);
  bool done = ord_mapping_make(make->file, make->description, make->graph, &mapping, NULL, make->err);
  if (done && mapping.fault_count) done = ord_mapping_fail(&mapping, make->file, NULL, make->err);
  for (uint32_t i = 0; done && i < mapping.row_count; i++)
    if (mapping.row[i].state == ORD_MAPS) make->tensor_of[mapping.row[i].weight] = mapping.row[i].tensor;
  ord_mapping_finish(&mapping);
  return done;
}

/* The file holds the Adam moments of all weights or of none; then zeros are written. */
static bool check_moments(const planner *make) {
  uint32_t found = 0;
  const char *lacking = NULL;
  for (uint32_t w = 0; w < make->graph->weight_count; w++) {
    const ord_file_tensor *weight = &make->file->tensor[make->tensor_of[w]];
    for (uint32_t part = 1; part < PART_COUNT; part++) {
      const uint32_t index = ord_weight_file_find_companion(make->file, make->tensor_of[w], part_suffix[part]);
      if (index == ORD_NONE) {
        lacking = weight->name;
        continue;
      }
      const ord_file_tensor *moment = &make->file->tensor[index];
      found++;
      if (moment->dtype != ORD_F32 || moment->rank != weight->rank ||
          memcmp(moment->dim, weight->dim, weight->rank * sizeof *weight->dim) != 0)
        return ord_fail(make->err, ORD_INVALID, "%s: tensor '%s' is %s %s, wanted F32 %s", make->file->path,
                        moment->name, moment->type_name, ord_dims_print(moment->rank, moment->dim).bytes,
                        ord_dims_print(weight->rank, weight->dim).bytes);
    }
  }
  if (found && lacking)
    return ord_fail(make->err, ORD_INVALID,
                    "%s: tensor '%s' lacks its Adam moments, others have theirs; wanted all or none", make->file->path,
                    lacking);
  return true;
}

/* Part `part` of a weight, in its place of the checkpoint. */
static bool plan_ordered(const planner *make, uint32_t weight, uint32_t part) {
  const ord_graph_weight *wanted = &make->graph->weight[weight];
  const ord_file_tensor *from = &make->file->tensor[make->tensor_of[weight]];
  const uint32_t first_piece = make->plan->piece_count;
  size_t bytes;
  if (!is_float(from->dtype))
    return ord_fail(make->err, ORD_UNSUPPORTED,
                    "%s: tensor '%s' is %s; a checkpoint holds F32 and takes F32, F16 and BF16", make->file->path,
                    from->name, from->type_name);
  if (!ord_tensor_bytes(ORD_F32, wanted->stored_rank, wanted->stored_dim, &bytes))
    return ord_fail(make->err, ORD_INVALID, "weight '%s' is too large for any file", wanted->name);
  const uint32_t tensor = make->tensor_of[weight];
  const uint32_t source = part ? ord_weight_file_find_companion(make->file, tensor, part_suffix[part]) : tensor;
  const ord_weight_span span =
      source == ORD_NONE ? (ord_weight_span){1, 0, bytes, bytes} : ord_weight_span_make(make->file, source, wanted);
  return add_piece(make, source, span) &&
         add_tensor(make, ord_arena_format(&make->plan->arena, "%s%s", wanted->name, part_suffix[part]),
                    ord_safetensors_type(ORD_F32), ORD_F32, wanted->stored_rank, wanted->stored_dim, bytes,
                    first_piece);
}

static bool plan_checkpoint(planner *make) {
  uint32_t *order = NULL, count;
  if (!ord_checkpoint_order(make->description, make->graph, &make->plan->arena, &order, &count, make->err) ||
      !map_weights(make) || !check_moments(make))
    return false;
  for (uint32_t part = 0; part < PART_COUNT; part++)
    for (uint32_t i = 0; i < count; i++)
      if (!plan_ordered(make, order[i], part)) return false;
  return true;
}

/* ---- a checkpoint to a named file ----------------------------------------------------------------------------- */

static int compare_places(const void *a, const void *b, void *context) {
  const ord_graph *graph = context;
  const ord_graph_weight *one = &graph->weight[*(const uint32_t *)a], *other = &graph->weight[*(const uint32_t *)b];
  const int order = strcmp(one->file_name, other->file_name);
  if (order) return order;
  return one->slice_start < other->slice_start ? -1 : one->slice_start > other->slice_start;
}

/* The weights `member` are all that the tensor `file_name` is made of. *dim receives its shape. */
static bool check_group(const planner *make, const uint32_t *member, uint32_t count, int64_t *dim) {
  const ord_graph_weight *first = &make->graph->weight[member[0]];
  memcpy(dim, first->stored_dim, first->stored_rank * sizeof *dim);
  if (!first->has_slice && count == 1) return true;
  int64_t reached = 0;
  for (uint32_t i = 0; i < count; i++) {
    const ord_graph_weight *weight = &make->graph->weight[member[i]];
    bool joins = weight->has_slice && weight->slice_axis == first->slice_axis &&
                 weight->stored_rank == first->stored_rank && weight->slice_start == reached;
    for (uint32_t axis = 0; joins && axis < weight->stored_rank; axis++)
      joins = axis == weight->slice_axis || weight->stored_dim[axis] == first->stored_dim[axis];
    if (!joins)
      return ord_fail(
          make->err, ORD_INVALID,
          "weight '%s' (line %u) does not join the others to tensor '%s'; wanted slices along one axis without hole "
          "or overlap",
          weight->name, weight->line, weight->file_name);
    if (__builtin_add_overflow(reached, weight->stored_dim[weight->slice_axis], &reached))
      return ord_fail(make->err, ORD_INVALID, "tensor '%s' is too large for any file", weight->file_name);
  }
  dim[first->slice_axis] = reached;
  return true;
}

/* Tensor number `part` of a group: the weights side by side along the axis of their slices. */
static bool plan_group(const planner *make, const uint32_t *member, uint32_t count, uint32_t part) {
  const ord_graph_weight *first = &make->graph->weight[member[0]];
  const ord_dtype dtype = part || !make->options->dtype ? ORD_F32 : make->options->dtype;
  int64_t dim[ORD_FILE_RANK_MAX];
  if (!check_group(make, member, count, dim)) return false;
  uint64_t outer = 1;
  for (uint32_t axis = 0; first->has_slice && axis < first->slice_axis; axis++) outer *= (uint64_t)dim[axis];
  const uint32_t first_piece = make->plan->piece_count;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t tensor = make->tensor_of[member[i]];
    const uint32_t from = part ? ord_weight_file_find_companion(make->file, tensor, part_suffix[part]) : tensor;
    const uint64_t run = make->file->tensor[from].bytes / outer;
    if (!add_piece(make, from, (ord_weight_span){outer, 0, run, run})) return false;
  }
  size_t bytes;
  if (!ord_tensor_bytes(dtype, first->stored_rank, dim, &bytes))
    return ord_fail(make->err, ORD_INVALID, "tensor '%s' is too large for any file", first->file_name);
  return add_tensor(make, ord_arena_format(&make->plan->arena, "%s%s", first->file_name, part_suffix[part]),
                    ord_safetensors_type(dtype), dtype, first->stored_rank, dim, bytes, first_piece);
}

static int compare_tensors(const void *a, const void *b) {
  return strcmp(((const ord_convert_tensor *)a)->name, ((const ord_convert_tensor *)b)->name);
}

static bool plan_named(planner *make) {
  const ord_graph *graph = make->graph;
  if (!map_weights(make)) return false;
  uint32_t *member = ord_arena_take(&make->plan->arena, graph->weight_count, sizeof *member);
  if (!member) return fail_memory(make);
  for (uint32_t w = 0; w < graph->weight_count; w++) member[w] = w;
  qsort_r(member, graph->weight_count, sizeof *member, compare_places, (void *)graph);
  for (uint32_t first = 0; first < graph->weight_count;) {
    const char *name = graph->weight[member[first]].file_name;
    uint32_t next = first + 1;
    while (next < graph->weight_count && strcmp(graph->weight[member[next]].file_name, name) == 0) next++;
    for (uint32_t part = 0; part < PART_COUNT; part++)
      if (!plan_group(make, member + first, next - first, part)) return false;
    first = next;
  }
  ord_convert_plan *plan = make->plan;
  if (plan->tensor_count) qsort(plan->tensor, plan->tensor_count, sizeof *plan->tensor, compare_tensors);
  for (uint32_t i = 1; i < plan->tensor_count; i++)
    if (strcmp(plan->tensor[i - 1].name, plan->tensor[i].name) == 0)
      return ord_fail(make->err, ORD_INVALID, "two weights would be tensor '%s'; wanted one", plan->tensor[i].name);
  return true;
}

bool ord_convert_plan_make(const ord_weight_file *file, const ord_description *description, const ord_graph *graph,
                           const ord_convert_options *options, ord_convert_plan *plan, ord_error *err) {
  planner make = {
      .file = file, .description = description, .graph = graph, .options = options, .plan = plan, .err = err};
  const bool to_checkpoint = options->kind == ORD_FILE_CHECKPOINT;
  if (options->dtype && (!is_float(options->dtype) || (to_checkpoint && options->dtype != ORD_F32)))
    return ord_fail(err, ORD_INVALID, "found type %s; wanted %s", ord_dtype_name(options->dtype),
                    to_checkpoint ? "f32, the type of a checkpoint" : "f32, f16 or bf16");
  if (to_checkpoint) return plan_checkpoint(&make);
  if (file->kind != ORD_FILE_CHECKPOINT) return plan_all(&make);
  return graph ? plan_named(&make)
               : ord_fail(err, ORD_INVALID, "%s: a checkpoint has no names; wanted a model", file->path);
}
