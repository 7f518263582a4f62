/* SPDX-License-Identifier: MIT
 *
 * attention: each query mixes the values of the keys that it sees.
 *
 * Prefill. Phase 0: a chunk takes blocks of keys of one key head: appends what is new to the cache, and lays the keys
 * out transposed. Phase 1: a chunk takes tiles of queries of one head through all blocks that they see.
 * Decode. Phase 0: a chunk takes a block of one key head, appends the new key if it falls there, and leaves a record
 * for each head that reads it. Phase 1: records are combined.
 */
#include <math.h>
#include <stdio.h>

#include "flash.h"

/* An operand as [batch, heads, tokens, width], of rank 1 as [.., batch]; what it lacks, and axes of size 1, repeat. */
typedef struct operand {
  uint32_t which; /* ORD_NONE: absent */
  uint32_t dtype;
  int64_t stride[4]; /* bytes */
} operand;

typedef struct flash_state {
  const ord_node *node;
  const ord_host *host;
  flash_layout layout;
  operand q;             // [batch, heads, queries, width]
  operand k, v;          // [batch, key heads, keys, width]: all keys, or those that the cache gets
  operand key, value;    // the same as k and v, or the caches
  operand mask;          // [batch, heads, queries, keys]
  operand lengths, past; // [batch]
  operand out;           // [batch, heads, queries, value width]
  bool is_causal, is_plain;
  int64_t align, window_before, window_after; /* windows: -1 = no limit */
  float scale, soft_cap, exponent;            /* soft_cap: 0 = none */
} flash_state;

/* ---- prepare and retire ----------------------------------------------------------------------------------------- */

/* Where products need nothing but a scale, the exponent takes it. */
static void choose_exponent(flash_state *made, double scale, double soft_cap) {
  const double log2_of_e = 1.4426950408889634;
  made->scale = (float)scale;
  made->soft_cap = (float)soft_cap;
  made->is_plain = made->mask.which == ORD_NONE && !(soft_cap > 0) && scale > 1e-30 && scale < 1e30;
  made->exponent = (float)(made->is_plain ? scale * log2_of_e : log2_of_e);
}

static operand find_operand(const ord_node *node, uint32_t which) {
  operand made = {.which = which};
  if (which == ORD_NONE) return made;
  const ord_operand *found = &node->operand[which];
  made.dtype = found->dtype;
  for (uint32_t axis = 0; axis < found->rank; axis++)
    if (found->dim[axis] != 1) made.stride[axis + 4 - found->rank] = found->stride[axis];
  return made;
}

static ord_status flash_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel, (void)answer;
  flash_state *made = host->allocate(host->context, sizeof *made, _Alignof(flash_state));
  if (!made) {
    snprintf(err->text, sizeof err->text, "out of memory: %zu bytes for the state of attention", sizeof *made);
    return ORD_NO_MEMORY;
  }
  const bool has_cache = ord_node_find(node, "cache_k") != ORD_NONE;
  *made = (flash_state){
      .node = node,
      .host = host,
      .q = find_operand(node, ord_node_find(node, "q")),
      .k = find_operand(node, ord_node_find(node, "k")),
      .v = find_operand(node, ord_node_find(node, "v")),
      .key = find_operand(node, ord_node_find(node, has_cache ? "cache_k" : "k")),
      .value = find_operand(node, ord_node_find(node, has_cache ? "cache_v" : "v")),
      .mask = find_operand(node, ord_node_find(node, "mask")),
      .lengths = find_operand(node, ord_node_find(node, "lengths")),
      .past = find_operand(node, ord_node_find(node, "past")),
      .out = find_operand(node, ord_node_output(node, 0)),
      .is_causal = ord_node_int(node, "causal", 0) != 0,
      .align = ord_node_int(node, "align", ORD_LAST),
      .window_before = ord_node_int(node, "window_before", -1),
      .window_after = ord_node_int(node, "window_after", -1),
  };
  choose_exponent(made, ord_node_number(node, "scale", 1), ord_node_number(node, "soft_cap", 0));
  ord_answer again = {.struct_size = sizeof again};
  if (!flash_lay_out(node, &made->layout, &again)) {
    snprintf(err->text, sizeof err->text, "%s", again.reason);
    host->release(host->context, made);
    return ORD_INTERNAL;
  }
  *state = made;
  return ORD_OK;
}

static void flash_retire(void *state) {
  const flash_state *made = state;
  if (made) made->host->release(made->host->context, state);
}

/* ---- operands in a run ------------------------------------------------------------------------------------------ */

typedef struct run {
  const flash_state *state;
  const flash_layout *layout;
  const ord_exec *exec;
  int64_t batch, queries, keys;
  int64_t given; /* of operand k: all keys, or those that the cache gets */
} run;

static run open_run(const flash_state *state, const ord_exec *exec) {
  return (run){
      .state = state,
      .layout = &state->layout,
      .exec = exec,
      .batch = ord_exec_dim(state->node, exec, state->q.which, 0),
      .queries = ord_exec_dim(state->node, exec, state->q.which, 2),
      .keys = ord_exec_dim(state->node, exec, state->key.which, 2),
      .given = ord_exec_dim(state->node, exec, state->k.which, 2),
  };
}

static char *place(const run *a, const operand *of, int64_t n, int64_t head, int64_t token) {
  return (char *)a->exec->operand[of->which] + n * of->stride[0] + head * of->stride[1] + token * of->stride[2];
}

/* From this place on: rows along axis `axis`, the last axis as columns. */
static flash_matrix matrix_at(const operand *of, const char *data, uint32_t axis) {
  return (flash_matrix){data, of->stride[axis], of->stride[3], of->dtype};
}

/* Number `row` of an i32 [batch]. */
static int64_t number_of(const run *a, const operand *of, int64_t row, int64_t otherwise) {
  if (of->which == ORD_NONE) return otherwise;
  int32_t number;
  memcpy(&number, (const char *)a->exec->operand[of->which] + row * of->stride[3], sizeof number);
  return number;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

/* ---- which keys ------------------------------------------------------------------------------------------------- */

/* A sum of positions; so far away that no key lies there where it does not fit. */
static int64_t plus(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? INT64_MIN : INT64_MAX;
}

/* Keys that lengths, causal and windows let query `i` of row `n` see. */
static flash_span find_span(const run *a, int64_t n, int64_t i) {
  const flash_state *state = a->state;
  const bool has_cache = state->past.which != ORD_NONE;
  const int64_t past = number_of(a, &state->past, n, 0), given = a->given;
  const int64_t valid = clamp(past + clamp(number_of(a, &state->lengths, n, given), 0, given), 0, a->keys);
  const int64_t start = has_cache ? past : state->align == ORD_LAST ? valid - a->queries : state->align;
  const int64_t after = plus(plus(i, start), 1); /* what a causal query does not see */
  flash_span seen = {0, valid};
  if (state->window_before >= 0) seen.first = clamp(plus(i, plus(start, -state->window_before)), 0, valid);
  if (state->window_after >= 0) seen.end = clamp(plus(after, state->window_after), 0, seen.end);
  if (state->is_causal) seen.end = clamp(after, 0, seen.end);
  if (seen.end < seen.first) seen.end = seen.first;
  return seen;
}

/* What any query from `first` up to before `end` of row `n` sees: spans only move forward. */
static flash_span find_spans(const run *a, int64_t n, int64_t first, int64_t end) {
  if (end <= first) return (flash_span){0, 0};
  return (flash_span){find_span(a, n, first).first, find_span(a, n, end - 1).end};
}

/* The part of `span` in block number `number`, counted from the block's first key. */
static flash_span span_in_block(flash_span span, int64_t number) {
  const int64_t first = number * FLASH_BLOCK;
  return (flash_span){clamp(span.first - first, 0, FLASH_BLOCK), clamp(span.end - first, 0, FLASH_BLOCK)};
}

/* ---- the cache -------------------------------------------------------------------------------------------------- */

/* To nearest even; a NaN keeps its upper bits and stays one. */
static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void append_row(const operand *from, const char *row, const operand *cache, char *into, int64_t width) {
  const int64_t stride = from->stride[3];
  if (cache->dtype == ORD_F32 && (stride == 4 || width == 1)) {
    memcpy(into, row, (size_t)width * 4);
    return;
  }
  for (int64_t c = 0; c < width; c++, row += stride) {
    float value;
    memcpy(&value, row, sizeof value);
    if (cache->dtype == ORD_F32) {
      memcpy(into + c * 4, row, 4);
    } else {
      const uint16_t half = to_bf16(value);
      memcpy(into + c * 2, &half, sizeof half);
    }
  }
}

/* Writes the new tokens of row `n` that belong into block `number` of the cache. */
static void append_block(const run *a, int64_t n, int64_t g, int64_t number) {
  const flash_state *state = a->state;
  if (state->past.which == ORD_NONE) return;
  const int64_t past = number_of(a, &state->past, n, 0), given = a->given;
  const int64_t count = clamp(number_of(a, &state->lengths, n, given), 0, given), first = number * FLASH_BLOCK;
  const int64_t end = clamp(past + count, 0, clamp(first + FLASH_BLOCK, 0, a->keys));
  for (int64_t key = past < first ? first : past; key < end; key++) {
    append_row(&state->k, place(a, &state->k, n, g, key - past), &state->key, place(a, &state->key, n, g, key),
               a->layout->width);
    append_row(&state->v, place(a, &state->v, n, g, key - past), &state->value, place(a, &state->value, n, g, key),
               a->layout->value_width);
  }
}

/* ---- a block ---------------------------------------------------------------------------------------------------- */

/* What both ways share: the keys and values of block `number`, and the thread's memory. */
static flash_block open_block(const run *a, int64_t n, int64_t g, int64_t number, float *worker) {
  const flash_layout *layout = a->layout;
  const flash_state *state = a->state;
  const int64_t first = number * FLASH_BLOCK;
  return (flash_block){
      .width = layout->width,
      .value_width = layout->value_width,
      .query = worker,
      .key = matrix_at(&state->key, place(a, &state->key, n, g, first), 2),
      .value = matrix_at(&state->value, place(a, &state->value, n, g, first), 2),
      .body = layout->body,
      .is_plain = state->is_plain,
      .scale = state->scale,
      .soft_cap = state->soft_cap,
      .exponent = state->exponent,
      .score = worker + layout->query_room,
      .record_stride = layout->record_stride,
  };
}

/* Rows of the mask from row [n, head, query] on, along `axis`. */
static void open_mask(const run *a, int64_t n, int64_t head, int64_t query, int64_t number, uint32_t axis,
                      flash_block *block) {
  const operand *mask = &a->state->mask;
  if (mask->which == ORD_NONE) return;
  const char *at = place(a, mask, n, head, query) + number * FLASH_BLOCK * mask->stride[3];
  block->mask = matrix_at(mask, at, axis);
}

/* ---- prefill ---------------------------------------------------------------------------------------------------- */

static float *panels_of(const run *a, int64_t n, int64_t g) {
  const flash_layout *layout = a->layout;
  return (float *)a->exec->scratch +
         (uint64_t)(n * layout->key_heads + g) * (layout->panels_room + layout->values_room);
}

/* Lays out what the queries of this run see of a block. */
static void lay_out_block(const run *a, int64_t n, int64_t g, int64_t number) {
  const flash_layout *layout = a->layout;
  const flash_level *level = layout->level;
  const flash_span all = find_spans(a, n, 0, a->queries), part = span_in_block(all, number);
  const int64_t first = number * FLASH_BLOCK, rest = flash_round_up(layout->value_width - layout->body, level->lanes);
  float *panels = panels_of(a, n, g) + first * layout->width;
  float *values = panels_of(a, n, g) + layout->panels_room + first * rest;
  for (int64_t key = part.first / level->panel * level->panel; key < part.end; key += level->panel) {
    const int64_t count = clamp(part.end - key, 0, level->panel);
    const flash_matrix keys = matrix_at(&a->state->key, place(a, &a->state->key, n, g, first + key), 2);
    const flash_matrix value = matrix_at(&a->state->value, place(a, &a->state->value, n, g, first + key), 2);
    level->pack_keys(&keys, count, layout->width, panels + key * layout->width);
    if (rest) level->pack_values(&value, count, layout->body, layout->value_width, values + key * rest);
  }
}

static void prefill_keys(const run *a) {
  const flash_layout *layout = a->layout;
  const int64_t turns = a->batch * layout->key_heads * layout->blocks;
  for (int64_t turn = a->exec->chunk; turn < turns; turn += a->exec->chunk_count) {
    const int64_t number = turn % layout->blocks, g = turn / layout->blocks % layout->key_heads;
    const int64_t n = turn / layout->blocks / layout->key_heads;
    append_block(a, n, g, number);
    lay_out_block(a, n, g, number);
  }
}

typedef struct unit {
  int64_t n, head, query, rows;
  flash_span seen[FLASH_UNIT_ROWS];
} unit;

static void attend_unit_block(const run *a, const unit *of, int64_t number, float *total) {
  const flash_layout *layout = a->layout;
  const flash_level *level = layout->level;
  const int64_t g = of->head * layout->key_heads / layout->heads, first = number * FLASH_BLOCK;
  const int64_t rest = flash_round_up(layout->value_width - layout->body, level->lanes);
  flash_span seen[FLASH_UNIT_ROWS];
  flash_block block = open_block(a, of->n, g, number, a->exec->worker);
  for (int64_t i = 0; i < of->rows; i++) seen[i] = span_in_block(of->seen[i], number);
  block.rows = of->rows;
  block.seen = seen;
  block.begin = seen[0].first / level->panel * level->panel;
  block.end = seen[of->rows - 1].end;
  block.panel = panels_of(a, of->n, g) + first * layout->width;
  block.value_packed = panels_of(a, of->n, g) + layout->panels_room + first * rest;
  block.record = block.score + layout->score_room;
  open_mask(a, of->n, of->head, of->query, number, 2, &block);
  level->attend(&block);
  for (int64_t i = 0; i < of->rows; i++)
    level->combine(total + i * layout->record_stride, block.record + i * layout->record_stride, layout->padded,
                   block.exponent);
}

static void begin_total(const flash_layout *layout, float *total) {
  memset(total, 0, (size_t)layout->record_stride * sizeof *total);
  total[layout->padded] = -INFINITY;
}

/* Queries [query, query + rows) of one head. */
static void attend_unit(const run *a, int64_t n, int64_t head, int64_t query, int64_t rows) {
  const flash_layout *layout = a->layout;
  const flash_level *level = layout->level;
  float *worker = a->exec->worker, *total = worker + layout->query_room + layout->score_room + layout->record_room;
  unit of = {n, head, query, rows, {{0, 0}}};
  const flash_matrix queries = matrix_at(&a->state->q, place(a, &a->state->q, n, head, query), 2);
  level->pack_queries(&queries, rows, layout->width, worker);
  for (int64_t i = 0; i < rows; i++) {
    of.seen[i] = find_span(a, n, query + i);
    begin_total(layout, total + i * layout->record_stride);
  }
  const flash_span all = {of.seen[0].first, of.seen[rows - 1].end};
  for (int64_t number = all.first / FLASH_BLOCK; number * FLASH_BLOCK < all.end; number++)
    attend_unit_block(a, &of, number, total);
  for (int64_t i = 0; i < rows; i++)
    level->finish(total + i * layout->record_stride, layout->padded, layout->value_width,
                  place(a, &a->state->out, n, head, query + i), a->state->out.stride[3]);
}

/* Part p takes every parts-th unit of a head, the last queries (which see most) first. */
static void prefill_queries(const run *a) {
  const flash_layout *layout = a->layout;
  const int64_t queries = a->queries, all = a->batch * layout->heads * layout->parts;
  const int64_t units = flash_round_up(queries, FLASH_UNIT_ROWS) / FLASH_UNIT_ROWS;
  for (int64_t number = a->exec->chunk; number < all; number += a->exec->chunk_count) {
    const int64_t head = number / layout->parts % layout->heads, n = number / layout->parts / layout->heads;
    for (int64_t i = units - 1 - number % layout->parts; i >= 0; i -= layout->parts) {
      const int64_t query = i * FLASH_UNIT_ROWS;
      attend_unit(a, n, head, query, clamp(queries - query, 0, FLASH_UNIT_ROWS));
    }
  }
}

/* ---- decode ----------------------------------------------------------------------------------------------------- */

static float *record_of(const run *a, int64_t n, int64_t head, int64_t number) {
  const flash_layout *layout = a->layout;
  return (float *)a->exec->scratch + ((n * layout->blocks + number) * layout->heads + head) * layout->record_stride;
}

/* Some of the heads that read key head `g`. */
static void attend_heads(const run *a, int64_t n, int64_t g, int64_t number, int64_t head, int64_t rows) {
  const flash_layout *layout = a->layout;
  const flash_span part = span_in_block(find_span(a, n, 0), number);
  flash_span seen[FLASH_UNIT_ROWS];
  for (int64_t i = 0; i < rows; i++) seen[i] = part;
  float *worker = a->exec->worker;
  const flash_matrix queries = matrix_at(&a->state->q, place(a, &a->state->q, n, head, 0), 1);
  layout->level->pack_queries(&queries, rows, layout->width, worker);
  flash_block block = open_block(a, n, g, number, worker);
  block.rows = rows;
  block.seen = seen;
  block.begin = part.first / layout->level->panel * layout->level->panel;
  block.end = part.end;
  block.panel_room = block.score + layout->score_room;
  block.value_room = block.panel_room + layout->panel_room;
  block.record = record_of(a, n, head, number);
  open_mask(a, n, head, 0, number, 1, &block);
  layout->level->attend(&block);
}

static void decode_blocks(const run *a) {
  const flash_layout *layout = a->layout;
  const int64_t turns = a->batch * layout->key_heads * layout->blocks, group = layout->heads / layout->key_heads;
  for (int64_t turn = a->exec->chunk; turn < turns; turn += a->exec->chunk_count) {
    const int64_t number = turn % layout->blocks, g = turn / layout->blocks % layout->key_heads;
    const int64_t n = turn / layout->blocks / layout->key_heads;
    append_block(a, n, g, number);
    const flash_span part = span_in_block(find_spans(a, n, 0, a->queries), number);
    for (int64_t i = 0; part.first < part.end && i < group; i += FLASH_UNIT_ROWS)
      attend_heads(a, n, g, number, g * group + i, clamp(group - i, 0, FLASH_UNIT_ROWS));
  }
}

static void decode_rows(const run *a) {
  const flash_layout *layout = a->layout;
  const int64_t rows = a->queries ? a->batch * layout->heads : 0;
  const int64_t last = rows * (a->exec->chunk + 1) / a->exec->chunk_count;
  float *total = (float *)a->exec->worker + layout->query_room + layout->score_room;
  for (int64_t row = rows * a->exec->chunk / a->exec->chunk_count; row < last; row++) {
    const int64_t n = row / layout->heads, head = row % layout->heads;
    const flash_span seen = find_span(a, n, 0);
    begin_total(layout, total);
    for (int64_t number = seen.first / FLASH_BLOCK; seen.first < seen.end && number * FLASH_BLOCK < seen.end; number++)
      layout->level->combine(total, record_of(a, n, head, number), layout->padded, a->state->exponent);
    layout->level->finish(total, layout->padded, layout->value_width, place(a, &a->state->out, n, head, 0),
                          a->state->out.stride[3]);
  }
}

/* ---- launch ----------------------------------------------------------------------------------------------------- */

static ord_status flash_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  static void (*const phases[2][2])(const run *) = {{prefill_keys, prefill_queries}, {decode_blocks, decode_rows}};
  const run a = open_run(state, exec);
  phases[a.layout->is_decode][exec->phase](&a);
  return ORD_OK;
}

const ord_kernel attention_flash = {
    .struct_size = sizeof attention_flash,
    .priority = 10,
    .name = "attention_flash",
    .op = "attention",
    .query = flash_query,
    .prepare = flash_prepare,
    .launch = flash_launch,
    .retire = flash_retire,
};
