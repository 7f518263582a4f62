/* SPDX-License-Identifier: MIT
 *
 * From a node of a bound graph to the ABI's picture of it (ordito_plugin.h, ord_node): operands in the order that the
 * header states, sizes at the plan's maximum, strides in bytes, and a scalar for each size that is known in a run only.
 */
#include "graphs/edit.h"

/* The two arrays grow together. */
typedef struct node_picture {
  const ord_graph *graph;
  ord_arena *arena;
  ord_operand *operand;
  ord_described_operand *is;
  uint32_t count, operand_capacity, is_capacity;
} node_picture;

enum { ALIGN_MEMORY = 6, ALIGN_I64 = 3 };

static const char DOING[] = "describing a node";

static bool append(node_picture *picture, ord_operand operand, ord_described_operand is, ord_error *err) {
  for (uint32_t axis = 0; axis < ORD_RANK_MAX; axis++) operand.extent[axis] = ORD_NONE;
  const uint32_t count = picture->count + 1;
  if (!ord_arena_grow(picture->arena, &picture->operand, &picture->operand_capacity, count, sizeof operand) ||
      !ord_arena_grow(picture->arena, &picture->is, &picture->is_capacity, count, sizeof is))
    return ord_fail_memory(err, DOING);
  picture->operand[picture->count] = operand;
  picture->is[picture->count++] = is;
  return true;
}

static bool append_absent(node_picture *picture, const char *name, ord_error *err) {
  return append(picture, (ord_operand){.name = name, .role = ORD_ABSENT}, (ord_described_operand){.is = ORD_IS_ABSENT},
                err);
}

/* Strides in elements become bytes; of a block type bytes per block, so its blocks must lie along the last axis. */
static bool set_strides(const ord_value *value, ord_operand *operand, ord_error *err) {
  const ord_dtype_info *info = ord_dtype_get(value->dtype);
  if (!info) return ord_fail(err, ORD_INTERNAL, "'%s' has no element type", value->name);
  operand->block_elements = info->block_elements;
  operand->block_bytes = info->block_bytes;
  for (uint32_t axis = 0; axis < value->rank; axis++) {
    const bool is_along = info->block_elements > 1 && axis + 1 == value->rank;
    const int64_t stride = value->stride[axis], unit = is_along ? 1 : info->block_elements;
    if (stride % unit || (is_along && stride != 1))
      return ord_fail(err, ORD_UNSUPPORTED, "'%s' is %s with stride %lld on axis %u; wanted blocks along the last axis",
                      value->name, info->name, (long long)stride, axis);
    if (__builtin_mul_overflow(stride / unit, info->block_bytes, &operand->stride[axis]))
      return ord_fail(err, ORD_INVALID, "'%s' is too large for memory", value->name);
  }
  return true;
}

static uint32_t find_alignment(const ord_value *value) {
  uint32_t align = ALIGN_MEMORY;
  const uint64_t bytes = (uint64_t)value->offset * ord_dtype_get(value->dtype)->block_bytes;
  while (align > 0 && bytes % ((uint64_t)1 << align)) align--;
  return align;
}

static bool set_segments(const node_picture *picture, uint32_t index, ord_operand *operand, ord_error *err) {
  const ord_value *value = &picture->graph->value[index];
  const ord_fused_weight *fused = ord_graph_find_fused(picture->graph, index);
  const uint32_t count = fused ? fused->part_count : 1;
  ord_segment *segment = ord_arena_take(picture->arena, count, sizeof *segment);
  if (!segment) return ord_fail_memory(err, DOING);
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t weight = fused ? fused->part[i] : value->index;
    const ord_graph_weight *declared = &picture->graph->weight[weight];
    segment[i] = (ord_segment){.rows = declared->value_rank ? declared->value_dim[0] : 1, .weight_id = weight};
  }
  operand->segment = segment;
  operand->segment_count = count;
  return true;
}

static bool append_value(node_picture *picture, const char *name, uint32_t role, uint32_t index, ord_error *err) {
  const ord_value *value = &picture->graph->value[index];
  ord_operand operand = {.name = name, .role = (uint16_t)role, .dtype = value->dtype, .rank = value->rank};
  if (!ord_value_dims(picture->graph, value, operand.dim, err) || !set_strides(value, &operand, err)) return false;
  operand.align_log2 = find_alignment(value);
  if (value->kind == ORD_VALUE_WEIGHT) {
    operand.role = ORD_WEIGHT;
    if (!set_segments(picture, index, &operand, err)) return false;
  }
  return append(picture, operand, (ord_described_operand){ORD_IS_VALUE, index, value->dim}, err);
}

static bool append_slots(node_picture *picture, const ord_graph_node *node, ord_error *err) {
  const ord_op *op = node->op;
  for (uint32_t i = 0; i < node->in_count; i++) {
    const char *name = op->slot[i < op->slot_count ? i : op->slot_count - 1].name;
    if (node->in[i] == ORD_NONE ? !append_absent(picture, name, err)
                                : !append_value(picture, name, ORD_INPUT, node->in[i], err))
      return false;
  }
  for (uint32_t i = 0; i < node->out_count; i++)
    if (!append_value(picture, "out", ORD_OUTPUT, node->out[i], err)) return false;
  return true;
}

/* A tensor of the host's: row-major, memory of its own. */
static bool append_host(node_picture *picture, ord_operand operand, ord_operand_is is, const ord_size *size,
                        ord_error *err) {
  for (uint32_t axis = 0; axis < operand.rank; axis++)
    if (!ord_size_evaluate(size[axis], picture->graph->bound, &operand.dim[axis]))
      return ord_fail(err, ORD_INVALID, "%s is too large for memory", operand.name);
  ord_tensor_strides(operand.dtype, operand.rank, operand.dim, operand.stride);
  const ord_dtype_info *info = ord_dtype_get(operand.dtype);
  operand.block_elements = info->block_elements;
  operand.block_bytes = info->block_bytes;
  operand.align_log2 = ALIGN_MEMORY;
  return append(picture, operand, (ord_described_operand){is, ORD_NONE, size}, err);
}

static bool append_cache(node_picture *picture, uint32_t index, ord_error *err) {
  static const char *const NAME[] = {"cache_k", "cache_v"};
  static const ord_operand_is IS[] = {ORD_IS_CACHE_K, ORD_IS_CACHE_V};
  if (index == ORD_NONE) return true;
  const ord_graph_cache *cache = &picture->graph->cache[index];
  const int64_t width[] = {cache->k_dim, cache->v_dim};
  for (uint32_t i = 0; i < 2; i++) {
    ord_size *size = ord_arena_take(picture->arena, 4, sizeof *size); // [batch, g, length, width]
    if (!size) return ord_fail_memory(err, DOING);
    size[0] = cache->batch;
    size[2] = cache->length;
    if (ord_size_constant(picture->arena, cache->kv_heads, &size[1]) != ORD_SIZE_OK ||
        ord_size_constant(picture->arena, width[i], &size[3]) != ORD_SIZE_OK)
      return ord_fail_memory(err, DOING);
    if (!append_host(picture, (ord_operand){.name = NAME[i], .role = ORD_STATE, .dtype = cache->dtype, .rank = 4},
                     IS[i], size, err))
      return false;
  }
  return true;
}

static bool append_past(node_picture *picture, uint32_t index, ord_error *err) {
  if (index == ORD_NONE) return true;
  return append_host(picture, (ord_operand){.name = "past", .role = ORD_SCALAR, .dtype = ORD_I32, .rank = 1},
                     ORD_IS_PAST, &picture->graph->cache[index].batch, err);
}

static bool append_scales(node_picture *picture, const ord_graph_node *node, ord_error *err) {
  for (uint32_t i = 0; i < node->in_count; i++) {
    if (node->in[i] == ORD_NONE) continue;
    const ord_value *value = &picture->graph->value[node->in[i]];
    if (value->kind != ORD_VALUE_WEIGHT || value->dtype != ORD_I8 || value->rank == 0) continue;
    ord_operand scale = {.role = ORD_WEIGHT, .dtype = ORD_F32, .rank = 1};
    scale.name = ord_arena_format(picture->arena, "%s_scale", picture->operand[i].name);
    scale.segment = picture->operand[i].segment;
    scale.segment_count = picture->operand[i].segment_count;
    if (!scale.name) return ord_fail_memory(err, DOING);
    if (!append_host(picture, scale, ORD_IS_SCALE, value->dim, err)) return false;
    picture->is[picture->count - 1].value = node->in[i];
  }
  return true;
}

static bool append_epilogue(node_picture *picture, const ord_graph_epilogue *from, ord_epilogue *to, ord_error *err) {
  *to = (ord_epilogue){.op = from->op->name, .operand = {ORD_NONE, ORD_NONE}, .output = ORD_NONE};
  to->attr = ord_attrs_copy(picture->arena, from->attr, from->attr_count);
  to->attr_count = from->attr_count;
  if (!to->attr) return ord_fail_memory(err, DOING);
  for (uint32_t i = 0; i < 2; i++) {
    if (from->operand[i] == ORD_NONE) continue;
    to->operand[i] = picture->count;
    if (!append_value(picture, "epilogue", ORD_INPUT, from->operand[i], err)) return false;
  }
  if (from->result == ORD_NONE) return true;
  to->output = picture->count;
  return append_value(picture, "epilogue_out", ORD_OUTPUT, from->result, err);
}

/* The operand that holds a size, which is appended if nobody asked for it before. */
static bool find_extent(node_picture *picture, uint32_t first, const ord_size *size, uint32_t *out, ord_error *err) {
  for (uint32_t i = first; i < picture->count; i++)
    if (ord_size_equal(*picture->is[i].size, *size)) {
      *out = i;
      return true;
    }
  const ord_operand scalar = {.name = "extent",
                              .role = ORD_SCALAR,
                              .dtype = ORD_I64,
                              .block_elements = 1,
                              .block_bytes = sizeof(int64_t),
                              .align_log2 = ALIGN_I64};
  *out = picture->count;
  return append(picture, scalar, (ord_described_operand){ORD_IS_EXTENT, ORD_NONE, size}, err);
}

static bool append_extents(node_picture *picture, ord_error *err) {
  const uint32_t first = picture->count;
  for (uint32_t i = 0; i < first; i++)
    for (uint32_t axis = 0; axis < picture->operand[i].rank; axis++) {
      int64_t exact;
      const ord_size *size = &picture->is[i].size[axis];
      uint32_t extent;
      if (ord_size_is_constant(*size, &exact)) continue;
      if (!find_extent(picture, first, size, &extent, err)) return false;
      picture->operand[i].extent[axis] = extent;
    }
  return true;
}

bool ord_describe_node(const ord_graph *graph, const ord_graph_node *node, const ord_chooser *chooser, ord_arena *arena,
                       ord_described *out, ord_error *err) {
  node_picture picture = {.graph = graph, .arena = arena};
  ord_epilogue *epilogue = ord_arena_take(arena, node->epilogue_count, sizeof *epilogue);
  const ord_attr *attr = ord_attrs_copy(arena, node->attr, node->attr_count);
  const char *label = ord_arena_text(arena, node->path[0]);
  if (!epilogue || !attr || !label) return ord_fail_memory(err, DOING);
  if (!append_slots(&picture, node, err) || !append_cache(&picture, node->cache, err) ||
      !append_scales(&picture, node, err))
    return false;
  for (uint32_t i = 0; i < node->epilogue_count; i++)
    if (!append_epilogue(&picture, &node->epilogue[i], &epilogue[i], err)) return false;
  if (!append_past(&picture, node->cache, err) || !append_extents(&picture, err)) return false;
  out->operand = picture.is;
  out->node = (ord_node){.struct_size = sizeof out->node,
                         .op_version = node->op->version,
                         .op = node->op->name,
                         .label = label,
                         .operand_count = picture.count,
                         .attr_count = node->attr_count,
                         .epilogue_count = node->epilogue_count,
                         .compute = chooser->compute,
                         .operand = picture.operand,
                         .attr = attr,
                         .epilogue = epilogue,
                         .device = chooser->device};
  return true;
}
