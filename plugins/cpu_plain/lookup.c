/* SPDX-License-Identifier: MIT
 *
 * embedding and position: rows of a table, read as the table is stored. A row that the table does not have is zeros.
 */
#include "plain.h"

typedef struct lookup_state {
  plain_state base;
  uint32_t in; /* what the row is added to, or ORD_NONE */
  uint32_t ids, table, scale, out;
  int64_t offset;
  plain_read_fn read, read_f32;
  plain_write_fn write;
} lookup_state;

static ord_status lookup_query(const ord_node *node, uint32_t in, const char *ids, ord_answer *answer) {
  const plain_rule rules[] = {{ids, PLAIN_I32, 0},
                              {"weight", PLAIN_NUMBERS, 0},
                              {"weight_scale", PLAIN_F32, PLAIN_UNIT},
                              {"out", PLAIN_F32, 0},
                              {in == ORD_NONE ? NULL : node->operand[in].name, PLAIN_F32, 0},
                              {NULL, 0, 0}};
  const ord_operand *out = &node->operand[ord_node_output(node, 0)];
  const uint64_t row_bytes = (uint64_t)plain_multiply(out->dim[out->rank - 1], sizeof(float));
  answer->worker_bytes = in == ORD_NONE ? row_bytes : 2 * row_bytes;
  return plain_check(node, rules, plain_chunks(PLAIN_HERE, plain_count(out)), answer);
}

static ord_status embedding_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  return lookup_query(node, ORD_NONE, "in", answer);
}

static ord_status position_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  if (plain_is_laid_out_alike(node, 0)) answer->alias_mask = 1u << 0;
  return lookup_query(node, 0, "positions", answer);
}

static ord_status lookup_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                 const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  lookup_state *made = plain_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  const uint32_t positions = ord_node_find(node, "positions");
  made->in = positions == ORD_NONE ? ORD_NONE : ord_node_find(node, "in");
  made->ids = positions == ORD_NONE ? ord_node_find(node, "in") : positions;
  made->table = ord_node_find(node, "weight");
  made->scale = ord_node_find(node, "weight_scale");
  made->out = ord_node_output(node, 0);
  made->offset = ord_node_int(node, "offset", 0);
  made->read = plain_reader(node->operand[made->table].dtype);
  made->read_f32 = plain_reader(ORD_F32);
  made->write = plain_writer(ORD_F32);
  *state = made;
  return ORD_OK;
}

/* Row `row` of the table in f32. */
static void read_table(const lookup_state *state, const plain_view *table, const float *scale, int64_t row,
                       float *into) {
  const int64_t width = table->dim[1];
  if (row < 0 || row >= table->dim[0]) {
    memset(into, 0, (size_t)width * sizeof *into);
    return;
  }
  state->read(into, table->data + row * table->stride[0], table->stride[1], width);
  if (scale)
    for (int64_t i = 0; i < width; i++) into[i] *= scale[row];
}

static ord_status lookup_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const lookup_state *made = state;
  const plain_view out = plain_view_of(&made->base, exec, made->out), ids = plain_view_of(&made->base, exec, made->ids);
  const plain_view table = plain_view_of(&made->base, exec, made->table);
  const plain_view in = plain_view_of(&made->base, exec, made->in);
  const float *scale = made->scale == ORD_NONE ? NULL : exec->operand[made->scale];
  const plain_view out_rows = plain_view_leading(out, out.rank - 1), in_rows = plain_view_leading(in, out.rank - 1);
  const int64_t width = table.dim[1], out_stride = out.stride[out.rank - 1];
  const bool in_place = !in.data && out_stride == (int64_t)sizeof(float);
  const plain_range range = plain_chunk_range(exec, plain_view_count(&ids));
  for (int64_t i = range.first; i < range.end; i++) {
    int32_t id;
    memcpy(&id, ids.data + plain_view_offset(&ids, i), sizeof id);
    char *into = out.data + plain_view_offset(&out_rows, i);
    float *found = in_place ? (float *)into : exec->worker, *row = found;
    read_table(made, &table, scale, id + made->offset, found);
    if (in.data) {
      row = found + width;
      made->read_f32(row, in.data + plain_view_offset(&in_rows, i), in.stride[in.rank - 1], width);
      for (int64_t d = 0; d < width; d++) row[d] += found[d];
    }
    if (!in_place) made->write(into, out_stride, row, width);
  }
  return ORD_OK;
}

PLAIN_KERNEL(embedding, embedding_query, .prepare = lookup_prepare, .launch = lookup_launch);

PLAIN_KERNEL(position, position_query, .prepare = lookup_prepare, .launch = lookup_launch);
