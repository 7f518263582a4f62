/* SPDX-License-Identifier: MIT
 *
 * split. Cuts a value along an axis into parts, one per result: equal ones, or of the sizes given.
 */
#include <string.h>

#include "ops/op_check.h"
#include "ops/reference.h"

static bool split_sizes(ord_infer *infer, const ord_infer_operand *in, uint32_t axis, int64_t size) {
  const ord_attr *sizes = ord_infer_attr(infer, "sizes");
  if (!sizes) {
    const uint32_t count = infer->result_count;
    if (size % count)
      return ord_infer_fail(infer, NULL, 0,
                            "axis %u of in %s leaves a rest of %lld in %u parts; wanted equal parts, or sizes", axis,
                            in->described, (long long)(size % count), count);
    int64_t *equal = ord_arena_take(infer->arena, count, sizeof *equal);
    if (!equal) return ord_infer_fail_memory(infer);
    for (uint32_t i = 0; i < count; i++) equal[i] = size / count;
    return ord_infer_set_ints(infer, "sizes", equal, count);
  }
  if (sizes->count != infer->result_count)
    return ord_infer_fail(infer, "sizes", 0, "sizes lists %u parts, out names %u; wanted one size per name",
                          sizes->count, infer->result_count);
  int64_t sum = 0;
  for (uint32_t i = 0; i < sizes->count; i++) {
    const int64_t part = sizes->value.ints[i];
    if (part < 0 || part > size)
      return ord_infer_fail(infer, "sizes", i, "part %lld of axis %u of in %s; wanted 0 to %lld", (long long)part, axis,
                            in->described, (long long)size);
    sum += part;
  }
  if (sum == size) return true;
  return ord_infer_fail(infer, "sizes", 0, "sizes add up to %lld, axis %u of in %s is %lld; wanted equal",
                        (long long)sum, axis, in->described, (long long)size);
}

static bool split_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in");
  uint32_t axis;
  if (!ord_infer_axis(infer, "axis", in->rank, &axis)) return false;
  int64_t size;
  if (!ord_size_is_constant(in->dim[axis], &size))
    return ord_infer_fail(infer, "axis", 0, "axis %u of in %s is %s; wanted a fixed size", axis, in->described,
                          ord_infer_size_text(infer, in->dim[axis]));
  if (!split_sizes(infer, in, axis, size)) return false;
  const int64_t *sizes = ord_infer_attr(infer, "sizes")->value.ints;
  ord_size dim[ORD_RANK_MAX] = {{0}};
  for (uint32_t other = 0; other < in->rank; other++) dim[other] = in->dim[other];
  for (uint32_t i = 0; i < infer->result_count; i++) {
    if (!ord_infer_size(infer, ord_size_constant(infer->arena, sizes[i], &dim[axis]))) return false;
    ord_infer_set_result(infer, i, in->dtype, in->rank, dim);
  }
  return true;
}

/* Where part `which` begins. */
static int64_t part_begin(const int64_t *sizes, uint32_t which) {
  int64_t begin = 0;
  for (uint32_t i = 0; i < which; i++) begin += sizes[i];
  return begin;
}

static bool split_view(ord_view_request *request) {
  const int64_t axis = ord_attr_find(request->attr, request->attr_count, "axis")->value.i;
  const int64_t *sizes = ord_attr_find(request->attr, request->attr_count, "sizes")->value.ints;
  for (uint32_t i = 0; i < request->out_rank; i++) request->out_stride[i] = request->in_stride[i];
  request->out_offset = part_begin(sizes, request->which) * request->in_stride[axis];
  return true;
}

static ord_status split_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in"); /* [..] */
  const int64_t axis = ord_reference_int(node, "axis", 0);
  const ord_attr *sizes = ord_node_attr(node, "sizes");
  int64_t from[ORD_RANK_MAX] = {0}, to[ORD_RANK_MAX] = {0};
  for (uint32_t part = 0; part < sizes->count; part++) {
    const ord_reference_tensor out = ord_reference_operand(node, exec, 1 + part); /* [..], absent if not asked for */
    if (!out.data) continue;
    for (int64_t i = 0; i < ord_reference_count(&out); i++) {
      ord_reference_index(&out, i, to);
      memcpy(from, to, sizeof from);
      from[axis] += part_begin(sizes->value.ints, part);
      ord_reference_move(&in, from, &out, to);
    }
  }
  return ORD_OK;
}

static const ord_kernel split_reference = {
    .struct_size = sizeof split_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "split_reference",
    .op = "split",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = split_launch,
    .retire = ord_reference_retire,
};

static const ord_case split_cases[] = {
    {"in[4,6]", "axis=1 results=2"},
    {"in[6]", "axis=0 results=6"},
    {"in[7]", "axis=0 results=1"},
    {"in[3,$]", "axis=1 sizes=$,0 results=2 $=1..130"},
    {"in[5,33]", "axis=-1 sizes=1,20,12 results=3"},
    {"in[7,5]", "axis=0 sizes=2,2,2,1 results=4"},
    {"in[2,3,4,5,6,7]", "axis=3 sizes=3,2 results=2"},
    {"in[0,4]", "axis=1 results=2"},
    {"in[0]", "axis=0 results=3"},
    {"in^[6,36]", "axis=1 results=3"},
    {"in+[6,36] out+", "axis=0 results=2"},
    {"in[6,36] out^", "axis=1 results=3"},
    {"in[2,3/8,12]", "axis=2 results=3"},
    {"in[2,0/8,12]", "axis=2 results=2"},
    {"in:i32[6]", "axis=0 results=2"},
    {"in:f16[6,7]", "axis=0 results=2"},
    {"in:bf16[6,7]", "axis=0 results=2"},
    {"in:bool[6,7]", "axis=0 results=3"},
    {"in[6]=nan,inf,-inf,-0,1,3e38", "axis=0 results=2"},
    {NULL, NULL},
};

static const ord_slot split_slot[] = {{"in", 0, 0, NULL}};

static const ord_attr_rule split_attr[] = {
    {.name = "axis",
     .kind = ORD_RULE_INT,
     .required = true,
     .wanted = "the number of an axis, from 0, or -1 for the last"},
    {.name = "sizes", .kind = ORD_RULE_INTS, .default_text = "equal parts", .wanted = "a list with one size per part"},
};

const ord_op ord_op_split = {
    .name = "split",
    .version = 1,
    .slot = split_slot,
    .slot_count = sizeof split_slot / sizeof *split_slot,
    .attr = split_attr,
    .attr_count = sizeof split_attr / sizeof *split_attr,
    .result_min = 1,
    .result_max = UINT32_MAX,
    .about = "one part per `out`",
    .infer = split_infer,
    .view = split_view,
    .reference = &split_reference,
    .cases = split_cases,
};
