/* SPDX-License-Identifier: MIT
 *
 * What a conversion writes. A named file to a named file: all its tensors. To a checkpoint: the weights in the model's
 * order, then both moments. From a checkpoint to names: the weights under their file names, slices joined to the tensor
 * that they are slices of. The readers of a tensor, the weights of the graph, say what its rows are.
 */
#include "models/convert.h"

#include <stdlib.h>
#include <string.h>

enum { PART_COUNT = 3 };

static const char *const part_suffix[PART_COUNT] = {"", ORD_ADAM_M, ORD_ADAM_V};

/* What the weights that read a tensor make of it. */
typedef struct readers {
  const ord_graph_weight *first, *other; /* other: sees its rows on other axes */
  ord_weight_rows rows;
  bool is_multiplied; /* by a matmul: a slot of some op takes it as a matrix */
} readers;

typedef struct planner {
  const ord_weight_file *file;
  const ord_description *description;
  const ord_graph *graph;
  const ord_convert_options *options;
  ord_convert_plan *plan;
  uint32_t *tensor_of; /* [graph->weight_count] */
  bool *is_multiplied; /* [graph->weight_count] */
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

/* Adds `tensor` with the shape `dim` and, behind codes, its scales. The pieces are those since `first_piece`. */
static bool add_tensor(const planner *make, ord_convert_tensor tensor, const int64_t *dim, uint32_t first_piece) {
  ord_convert_plan *plan = make->plan;
  const bool has_scales = tensor.make == ORD_MAKE_INT8;
  tensor.first_piece = first_piece;
  tensor.piece_count = plan->piece_count - first_piece;
  memcpy(tensor.dim, dim, tensor.rank * sizeof *dim);
  if (!tensor.name || !ord_arena_grow(&plan->arena, &plan->tensor, &plan->tensor_capacity,
                                      plan->tensor_count + 1 + has_scales, sizeof *plan->tensor))
    return fail_memory(make);
  plan->tensor[plan->tensor_count++] = tensor;
  if (!has_scales) return true;
  tensor.name = ord_arena_format(&plan->arena, "%s" ORD_SCALE, tensor.name);
  if (!tensor.name) return fail_memory(make);
  tensor.make = ORD_MAKE_SCALES;
  tensor.dtype = ORD_F32;
  tensor.type_name = ord_safetensors_type(ORD_F32);
  tensor.rank = 1;
  tensor.dim[0] = (int64_t)tensor.rows.count;
  tensor.bytes = tensor.rows.count * sizeof(float);
  plan->tensor[plan->tensor_count++] = tensor;
  return true;
}

/* ---- weights and what reads them ------------------------------------------------------------------------------- */

/* Ends the conversion where the file does not serve the model. */
static bool map_weights(planner *make) {
  ord_mapping mapping = {0};
  make->tensor_of = ord_arena_take(&make->plan->arena, make->graph->weight_count, sizeof *make->tensor_of);
  if (!make->tensor_of) return fail_memory(make);
  bool done = ord_mapping_make(make->file, make->description, make->graph, &mapping, make->options->list, make->err);
  if (done && mapping.fault_count) done = ord_mapping_fail(&mapping, make->file, make->options->model_file, make->err);
  for (uint32_t i = 0; done && i < mapping.row_count; i++)
    if (mapping.row[i].state == ORD_MAPS) make->tensor_of[mapping.row[i].weight] = mapping.row[i].tensor;
  ord_mapping_finish(&mapping);
  return done;
}

static bool find_multiplied(planner *make) {
  const ord_graph *graph = make->graph;
  make->is_multiplied = ord_arena_take(&make->plan->arena, graph->weight_count, sizeof *make->is_multiplied);
  if (!make->is_multiplied) return fail_memory(make);
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const ord_graph_node *node = &graph->node[n];
    for (uint32_t slot = 0; slot < node->op->slot_count && slot < node->in_count; slot++) {
      const ord_value *value = node->in[slot] == ORD_NONE ? NULL : &graph->value[node->in[slot]];
      if (value && value->kind == ORD_VALUE_WEIGHT && (node->op->slot[slot].flags & ORD_SLOT_MATRIX))
        make->is_multiplied[value->index] = true;
    }
  }
  return true;
}

/* `dim`: of the tensor that the weight reads. */
static void note_reader(const planner *make, readers *of, uint32_t weight, uint32_t rank, const int64_t *dim) {
  const ord_graph_weight *reader = &make->graph->weight[weight];
  ord_weight_rows rows = {0};
  if (!ord_weight_rows_find(rank, dim, reader, &rows)) rows.count = 0;
  if (of->first && (rows.count != of->rows.count || rows.inner != of->rows.inner)) of->other = reader;
  if (!of->first) *of = (readers){.first = reader, .rows = rows};
  of->is_multiplied |= make->is_multiplied[weight];
}

/* One scale per row needs one opinion about the rows. */
static bool check_rows(const planner *make, const readers *of, const char *tensor) {
  return !of->other || ord_fail(make->err, ORD_INVALID,
                                "tensor '%s': weights '%s' (line %u) and '%s' (line %u) have its rows on different "
                                "axes; wanted the same ones, for the scales of I8",
                                tensor, of->first->name, of->first->line, of->other->name, of->other->line);
}

/* ---- a named file to a named file ----------------------------------------------------------------------------- */

/* By tensor: the I8 tensor whose scales it is, or ORD_NONE. NULL when out of memory. */
static uint32_t *find_codes(const planner *make) {
  const ord_weight_file *file = make->file;
  uint32_t *codes_of = ord_arena_take(&make->plan->arena, file->tensor_count, sizeof *codes_of);
  if (!codes_of) return NULL;
  for (uint32_t t = 0; t < file->tensor_count; t++) codes_of[t] = ORD_NONE;
  for (uint32_t t = 0; t < file->tensor_count; t++) {
    const uint32_t scale =
        file->tensor[t].dtype == ORD_I8 ? ord_weight_file_find_companion(file, t, ORD_SCALE) : ORD_NONE;
    if (scale != ORD_NONE) codes_of[scale] = t;
  }
  return codes_of;
}

/* Moments are f32 by their meaning. */
static bool is_moment(const char *name) { return ord_ends_with(name, ORD_ADAM_M) || ord_ends_with(name, ORD_ADAM_V); }

static ord_convert_make choose(const planner *make, const ord_file_tensor *from, const readers *of) {
  const ord_dtype wanted = make->options->dtype;
  if (is_float(wanted) && from->dtype == ORD_I8 && of->first) return ORD_MAKE_NUMBERS;
  if (!is_float(from->dtype) || is_moment(from->name)) return ORD_MAKE_COPY;
  if (wanted == ORD_I8) return of->is_multiplied ? ORD_MAKE_INT8 : ORD_MAKE_COPY;
  return wanted && wanted != from->dtype ? ORD_MAKE_FLOAT : ORD_MAKE_COPY;
}

static bool plan_one(const planner *make, uint32_t index, const readers *of, ord_convert_make how) {
  const ord_file_tensor *from = &make->file->tensor[index];
  const uint32_t scale = ord_weight_file_find_companion(make->file, index, ORD_SCALE);
  const uint32_t first_piece = make->plan->piece_count;
  ord_convert_tensor tensor = {.name = from->name,
                               .type_name = from->type_name,
                               .make = how,
                               .rank = from->rank,
                               .bytes = from->bytes,
                               .rows = of->rows,
                               .scale = scale};
  if (how != ORD_MAKE_COPY) {
    tensor.dtype = make->options->dtype;
    tensor.type_name = ord_safetensors_type(tensor.dtype);
    tensor.bytes = from->bytes / ord_dtype_get(from->dtype)->block_bytes * ord_dtype_get(tensor.dtype)->block_bytes;
  }
  if ((how == ORD_MAKE_INT8 || how == ORD_MAKE_NUMBERS) && !check_rows(make, of, from->name)) return false;
  if (how == ORD_MAKE_INT8 && scale != ORD_NONE)
    return ord_fail(make->err, ORD_INVALID,
                    "%s: holds a tensor '%s" ORD_SCALE "'; wanted that name free, for the scales of '%s' as I8",
                    make->file->path, from->name, from->name);
  return add_piece(make, index, (ord_weight_span){1, 0, from->bytes, from->bytes}) &&
         add_tensor(make, tensor, from->dim, first_piece);
}

static bool plan_all(planner *make) {
  const ord_weight_file *file = make->file;
  readers *of = ord_arena_take(&make->plan->arena, file->tensor_count, sizeof *of);
  const uint32_t *codes_of = find_codes(make);
  if (!of || !codes_of) return fail_memory(make);
  if (make->graph && (!map_weights(make) || !find_multiplied(make))) return false;
  for (uint32_t w = 0; make->graph && w < make->graph->weight_count; w++) {
    const uint32_t tensor = make->tensor_of[w];
    note_reader(make, &of[tensor], w, file->tensor[tensor].rank, file->tensor[tensor].dim);
  }
  for (uint32_t t = 0; t < file->tensor_count; t++) {
    const uint32_t codes = codes_of[t];
    /* The numbers take their scales in; beside codes these stay f32, whatever is wanted. */
    if (codes != ORD_NONE && choose(make, &file->tensor[codes], &of[codes]) == ORD_MAKE_NUMBERS) continue;
    const ord_convert_make how = codes != ORD_NONE ? ORD_MAKE_COPY : choose(make, &file->tensor[t], &of[t]);
    if (!plan_one(make, t, &of[t], how)) return false;
  }
  return true;
}

/* ---- a checkpoint ---------------------------------------------------------------------------------------------- */

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
    return ord_fail(make->err, ORD_INVALID, "%s: tensor '%s' is %s; a checkpoint holds F32 and takes F32, F16 and BF16",
                    make->file->path, from->name, from->type_name);
  if (!ord_tensor_bytes(ORD_F32, wanted->stored_rank, wanted->stored_dim, &bytes))
    return ord_fail(make->err, ORD_INVALID, "weight '%s' is too large for any file", wanted->name);
  const uint32_t index = make->tensor_of[weight];
  const uint32_t source = part ? ord_weight_file_find_companion(make->file, index, part_suffix[part]) : index;
  const ord_weight_span span =
      source == ORD_NONE ? (ord_weight_span){1, 0, bytes, bytes} : ord_weight_span_make(make->file, source, wanted);
  const ord_convert_tensor tensor = {.name =
                                         ord_arena_format(&make->plan->arena, "%s%s", wanted->name, part_suffix[part]),
                                     .type_name = ord_safetensors_type(ORD_F32),
                                     .make = ORD_MAKE_FLOAT,
                                     .dtype = ORD_F32,
                                     .rank = wanted->stored_rank,
                                     .bytes = bytes};
  return add_piece(make, source, span) && add_tensor(make, tensor, wanted->stored_dim, first_piece);
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

/* What the weights of a group make of their tensor. */
static readers note_group(const planner *make, const uint32_t *member, uint32_t count, const int64_t *dim) {
  readers of = {0};
  for (uint32_t i = 0; i < count; i++)
    note_reader(make, &of, member[i], make->graph->weight[member[i]].stored_rank, dim);
  return of;
}

/* Tensor number `part` of a group: the weights side by side along the axis of their slices. */
static bool plan_group(const planner *make, const uint32_t *member, uint32_t count, uint32_t part) {
  const ord_graph_weight *first = &make->graph->weight[member[0]];
  const ord_dtype wanted = part ? 0 : make->options->dtype;
  int64_t dim[ORD_FILE_RANK_MAX];
  if (!check_group(make, member, count, dim)) return false;
  const readers of = note_group(make, member, count, dim);
  const bool encodes = wanted == ORD_I8 && of.is_multiplied;
  if (encodes && !check_rows(make, &of, first->file_name)) return false;
  uint64_t outer = 1;
  for (uint32_t axis = 0; first->has_slice && axis < first->slice_axis; axis++) outer *= (uint64_t)dim[axis];
  const uint32_t first_piece = make->plan->piece_count;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t tensor = make->tensor_of[member[i]];
    const uint32_t from = part ? ord_weight_file_find_companion(make->file, tensor, part_suffix[part]) : tensor;
    const uint64_t run = make->file->tensor[from].bytes / outer;
    if (!add_piece(make, from, (ord_weight_span){outer, 0, run, run})) return false;
  }
  const ord_dtype dtype = encodes ? ORD_I8 : is_float(wanted) ? wanted : ORD_F32;
  size_t bytes;
  if (!ord_tensor_bytes(dtype, first->stored_rank, dim, &bytes))
    return ord_fail(make->err, ORD_INVALID, "tensor '%s' is too large for any file", first->file_name);
  const ord_convert_tensor tensor = {
      .name = ord_arena_format(&make->plan->arena, "%s%s", first->file_name, part_suffix[part]),
      .type_name = ord_safetensors_type(dtype),
      .make = encodes ? ORD_MAKE_INT8 : ORD_MAKE_FLOAT,
      .dtype = dtype,
      .rank = first->stored_rank,
      .bytes = bytes,
      .rows = of.rows};
  return add_tensor(make, tensor, dim, first_piece);
}

static int compare_tensors(const void *a, const void *b) {
  return strcmp(((const ord_convert_tensor *)a)->name, ((const ord_convert_tensor *)b)->name);
}

static bool plan_named(planner *make) {
  const ord_graph *graph = make->graph;
  if (!map_weights(make) || !find_multiplied(make)) return false;
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
      return ord_fail(make->err, ORD_INVALID, "two tensors would be called '%s'; wanted one", plan->tensor[i].name);
  return true;
}

bool ord_convert_plan_make(const ord_weight_file *file, const ord_description *description, const ord_graph *graph,
                           const ord_convert_options *options, ord_convert_plan *plan, ord_error *err) {
  planner make = {
      .file = file, .description = description, .graph = graph, .options = options, .plan = plan, .err = err};
  const bool to_checkpoint = options->kind == ORD_FILE_CHECKPOINT;
  const bool is_known = options->dtype == 0 || is_float(options->dtype) || options->dtype == ORD_I8;
  if (!is_known || (to_checkpoint && options->dtype != 0 && options->dtype != ORD_F32))
    return ord_fail(err, ORD_INVALID, "found type %s; wanted %s", ord_dtype_name(options->dtype),
                    to_checkpoint ? "f32, the type of a checkpoint" : "f32, f16, bf16 or i8");
  if (!graph && (to_checkpoint || options->dtype == ORD_I8 || file->kind == ORD_FILE_CHECKPOINT))
    return ord_fail(err, ORD_INVALID, "%s: wanted a model, for %s", file->path,
                    options->dtype == ORD_I8 ? "what is multiplied" : "the names and the order of a checkpoint");
  if (to_checkpoint) return plan_checkpoint(&make);
  return file->kind == ORD_FILE_CHECKPOINT ? plan_named(&make) : plan_all(&make);
}
