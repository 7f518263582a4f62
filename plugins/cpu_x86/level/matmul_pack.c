/* SPDX-License-Identifier: MIT
 *
 * Weights, and values that stand for one, to pack32. The bytes do not depend on the level.
 */
#include "matmul_numbers.h"
#include "matmul_transpose.h"
#include "packed_matmul.h"

enum { RUN = 64 }; /* words of a row that are made at a time */

/* Where 32 rows come from. */
typedef struct block_source {
  const char *row[MATMUL_BLOCK]; /* NULL: zeros */
  int64_t stride;                /* bytes from one k to the next */
  int64_t depth;
  uint16_t stored, packed;
  float inverse[MATMUL_BLOCK]; /* int8 from floats: 1 / scale */
} block_source;

/* Elements of k in a word. */
static int64_t elements(uint16_t packed) { return packed == ORD_F32 ? 1 : packed == ORD_BF16 ? 2 : 4; }

static void copy_numbers(char *into, const char *from, int64_t bytes, int64_t stride, int64_t count) {
  if (stride == bytes)
    memcpy(into, from, (size_t)(count * bytes));
  else
    for (int64_t i = 0; i < count; i++) memcpy(into + i * bytes, from + i * stride, (size_t)bytes);
}

/* `count` numbers of row `r` from k `begin` on, as packed, and zero bytes up to `words` words: there activations are 0.
 */
static void fill_row(const block_source *source, int r, int64_t begin, int64_t count, int64_t words, char *into) {
  float number[4 * RUN];
  const bool is_int8 = source->packed == ORD_I8;
  memset(into, 0, (size_t)words * 4);
  if (!source->row[r]) return;
  const char *from = source->row[r] + begin * source->stride;
  if (source->stored == source->packed) {
    copy_numbers(into, from, 4 / elements(source->packed), source->stride, count);
    for (int64_t i = 0; is_int8 && i < count; i++) into[i] = (char)(into[i] ^ 0x80);
    return;
  }
  const plain_read_fn read = plain_reader(source->stored);
  read(source->packed == ORD_F32 ? (float *)into : number, from, source->stride, count);
  if (source->packed == ORD_BF16) numbers_to_bf16(number, count, (uint16_t *)into);
  if (is_int8) numbers_to_int8(number, count, source->inverse[r], 128, (int8_t *)into);
}

/* Rows whose bytes are words already are transposed where they lie. */
static bool is_ready(const block_source *source) {
  return source->stored == source->packed && source->packed != ORD_I8 &&
         source->stride == 4 / elements(source->packed) && source->row[MATMUL_BLOCK - 1];
}

static void pack_block(const block_source *source, char *packed) {
  const int64_t each = elements(source->packed), words = (source->depth + each - 1) / each;
  int64_t word = 0;
  if (is_ready(source)) {
    word = source->depth / each;
    matmul_transpose(source->row, MATMUL_BLOCK, word, packed, MATMUL_GROUP_BYTES);
  }
  for (; word < words; word += RUN) {
    _Alignas(64) char made[MATMUL_BLOCK][RUN * 4];
    const char *row[MATMUL_BLOCK];
    const int64_t begin = word * each, rest = source->depth - begin;
    const int64_t count = rest < RUN * each ? rest : RUN * each, word_count = (count + each - 1) / each;
    for (int r = 0; r < MATMUL_BLOCK; r++) {
      fill_row(source, r, begin, count, word_count, made[r]);
      row[r] = made[r];
    }
    matmul_transpose(row, MATMUL_BLOCK, word_count, packed + word * MATMUL_GROUP_BYTES, MATMUL_GROUP_BYTES);
  }
}

/* The scale of a row of floats: its largest number becomes 127. */
static float find_scale(const block_source *source, int r) {
  const plain_read_fn read = plain_reader(source->stored);
  float number[4 * RUN];
  int32_t largest = 0;
  for (int64_t begin = 0; source->row[r] && begin < source->depth; begin += 4 * RUN) {
    const int64_t rest = source->depth - begin, count = rest < 4 * RUN ? rest : 4 * RUN;
    read(number, source->row[r] + begin * source->stride, source->stride, count);
    const int32_t here = numbers_largest(number, count);
    if (here > largest) largest = here;
  }
  return numbers_scale(largest);
}

static void write_scales(block_source *source, char *into) {
  for (int r = 0; r < MATMUL_BLOCK; r++) {
    const float scale = source->stored == ORD_I8 ? 1.0f : find_scale(source, r);
    source->inverse[r] = numbers_inverse(scale);
    memcpy(into + r * (int)sizeof scale, &scale, sizeof scale);
  }
}

ord_status matmul_pack(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer, uint32_t weight,
                       const void *const *segment, uint32_t slice, uint32_t slice_count, void *packed) {
  const matmul_plan plan = matmul_plan_make(((const matmul_kernel *)kernel)->level, node, answer->epilogue_served);
  if (weight != plan.weight) return plain_pack(kernel, node, answer, weight, segment, slice, slice_count, packed);
  const ord_operand *operand = &node->operand[weight]; // [n, k]
  const int64_t blocks = matmul_blocks(operand->dim[0]), groups = matmul_groups(plan.math, operand->dim[1]);
  block_source source = {
      .stride = operand->stride[1], .depth = operand->dim[1], .stored = operand->dtype, .packed = plan.math->packed};
  for (int64_t block = blocks * slice / slice_count; block < blocks * (slice + 1) / slice_count; block++) {
    char *into = (char *)packed + block * plan.block_bytes;
    for (int r = 0; r < MATMUL_BLOCK; r++) source.row[r] = plain_find_row(operand, segment, block * MATMUL_BLOCK + r);
    if (source.packed == ORD_I8) write_scales(&source, into + groups * MATMUL_GROUP_BYTES);
    pack_block(&source, into);
  }
  return ORD_OK;
}

void matmul_pack_by(const plain_view *by, int64_t block, char *packed) {
  const uint32_t k_axis = by->rank - 2, n_axis = by->rank - 1;
  const int64_t first = block * MATMUL_BLOCK, rest = by->dim[n_axis] - first;
  const int64_t width = rest < MATMUL_BLOCK ? rest : MATMUL_BLOCK;
  const char *data = by->data + first * by->stride[n_axis];
  if (by->stride[n_axis] == (int64_t)sizeof(float)) { /* a row of `by` is a group */
    for (int64_t k = 0; k < by->dim[k_axis]; k++, packed += MATMUL_GROUP_BYTES) {
      memset(packed, 0, MATMUL_GROUP_BYTES);
      memcpy(packed, data + k * by->stride[k_axis], (size_t)width * sizeof(float));
    }
    return;
  }
  block_source source = {.stride = by->stride[k_axis], .depth = by->dim[k_axis], .stored = ORD_F32, .packed = ORD_F32};
  for (int c = 0; c < width; c++) source.row[c] = data + c * by->stride[n_axis];
  pack_block(&source, packed);
}
