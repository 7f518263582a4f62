/* SPDX-License-Identifier: MIT
 *
 * Weights packed to dense f32, row-major: biases, norm weights and the like, which are small. One layout, one key. And
 * the rows of those that a kernel packs in a layout of its own.
 */
#include "plain.h"

const char *plain_find_row(const ord_operand *operand, const void *const *segment, int64_t row) {
  for (uint32_t i = 0; i < operand->segment_count; i++) {
    const int64_t rows = operand->segment[i].rows;
    if (row < rows) return (const char *)segment[i] + row * operand->stride[0];
    row -= rows;
  }
  return NULL;
}

static void convert_run(const void *context, char *const *at, const int64_t *stride, int64_t count) {
  const ord_operand *operand = context;
  plain_reader(operand->dtype)((float *)at[0], at[1], stride[1], count);
}

/* Segment `number` as it is stored and as it will lie in the packed weight, from element `begin` on. */
static void view_segment(const ord_operand *operand, uint32_t number, const void *stored, char *packed,
                         plain_view view[2]) {
  view[0] = view[1] = (plain_view){.rank = operand->rank};
  int64_t dense = sizeof(float);
  for (uint32_t axis = operand->rank; axis-- > 0;) {
    view[0].dim[axis] = view[1].dim[axis] = axis == 0 ? operand->segment[number].rows : operand->dim[axis];
    view[0].stride[axis] = dense;
    view[1].stride[axis] = operand->stride[axis];
    dense *= view[0].dim[axis];
  }
  view[0].data = packed;
  view[1].data = (char *)(uintptr_t)stored;
}

ord_status plain_pack(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer, uint32_t weight,
                      const void *const *segment, uint32_t slice, uint32_t slice_count, void *packed) {
  (void)kernel, (void)answer;
  const ord_operand *operand = &node->operand[weight];
  const int64_t count = plain_count(operand);
  const int64_t first = count * slice / slice_count, end = count * (slice + 1) / slice_count;
  int64_t begin = 0; /* of the segment, in elements of the whole */
  for (uint32_t i = 0; i < operand->segment_count; i++) {
    plain_view view[2];
    view_segment(operand, i, segment[i], (char *)packed + begin * (int64_t)sizeof(float), view);
    const int64_t length = plain_view_count(view);
    const plain_range range = {first > begin ? first - begin : 0, end - begin < length ? end - begin : length};
    if (range.first < range.end) plain_walk(view, 2, range, convert_run, operand);
    begin += length;
  }
  return ORD_OK;
}
