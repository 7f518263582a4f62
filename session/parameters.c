/* SPDX-License-Identifier: MIT
 *
 * See parameters.h. One row is made for each (part, weight that it reads); sorting brings equal ones together.
 */
#include "session/parameters.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
  const char *pattern, *part;
  uint32_t weight;
  int64_t numbers;
} reading;

typedef struct readings {
  reading *row;
  uint32_t count, capacity;
  ord_arena *arena;
} readings;

static int by_part(const void *a, const void *b) {
  const reading *x = a, *y = b;
  int order = strcmp(x->pattern, y->pattern);
  if (order == 0) order = strcmp(x->part, y->part);
  return order ? order : (x->weight > y->weight) - (x->weight < y->weight);
}

/* "layer.3.a" -> "layer.*.a". In place: a part is never shorter than its pattern. */
static void fold_numbers(char *path) {
  char *to = path;
  for (const char *from = path; *from;) {
    const bool starts = from == path || from[-1] == '.';
    size_t digits = 0;
    while (isdigit((unsigned char)from[digits])) digits++;
    if (starts && digits > 0 && (from[digits] == '.' || from[digits] == 0)) {
      *to++ = '*';
      from += digits;
    } else {
      *to++ = *from++;
    }
  }
  *to = 0;
}

static bool add_reading(readings *list, const char *path, size_t length, uint32_t weight, int64_t numbers) {
  char *part = ord_arena_text_n(list->arena, path, length);
  char *pattern = ord_arena_text_n(list->arena, path, length);
  if (!part || !pattern ||
      !ord_arena_grow(list->arena, &list->row, &list->capacity, list->count + 1, sizeof *list->row))
    return false;
  fold_numbers(pattern);
  list->row[list->count++] = (reading){pattern, part, weight, numbers};
  return true;
}

static int64_t numbers_of(const ord_graph_weight *weight) {
  int64_t numbers = 1;
  for (uint32_t i = 0; i < weight->stored_rank; i++) numbers *= weight->stored_dim[i];
  return numbers;
}

static bool add_node(readings *list, const ord_graph *graph, const ord_graph_node *node) {
  const char *path = node->path[0];
  for (uint32_t i = 0; i < node->in_count; i++) {
    if (node->in[i] == ORD_NONE || graph->value[node->in[i]].kind != ORD_VALUE_WEIGHT) continue;
    const uint32_t weight = graph->value[node->in[i]].index;
    const int64_t numbers = numbers_of(&graph->weight[weight]);
    if (!add_reading(list, path, 0, weight, numbers)) return false;
    for (const char *end = path; *end;) {
      end += strcspn(end + (*end == '.'), ".") + (*end == '.');
      if (!add_reading(list, path, (size_t)(end - path), weight, numbers)) return false;
    }
  }
  return true;
}

/* Sums the sorted rows: equal (part, weight) once, parts into patterns. */
static uint32_t sum(const readings *list, ord_part *part) {
  uint32_t count = 0;
  const reading *before = NULL;
  for (uint32_t i = 0; i < list->count; i++) {
    const reading *row = &list->row[i];
    const bool same_pattern = before && strcmp(before->pattern, row->pattern) == 0;
    const bool same_part = same_pattern && strcmp(before->part, row->part) == 0;
    const bool is_same = same_part && before->weight == row->weight;
    before = row;
    if (is_same) continue;
    if (!same_pattern) part[count++] = (ord_part){.pattern = row->pattern};
    ord_part *now = &part[count - 1];
    now->count += !same_part;
    now->all += row->numbers;
    if (now->count == 1) now->each += row->numbers;
  }
  return count;
}

bool ord_parts_make(const ord_graph *graph, ord_arena *arena, ord_part **out, uint32_t *out_count, ord_error *err) {
  readings list = {.arena = arena};
  for (uint32_t i = 0; i < graph->node_count; i++)
    if (!add_node(&list, graph, &graph->node[i])) return ord_fail_memory(err, "counting parameters");
  ord_part *part = ord_arena_take(arena, (size_t)list.count + 1, sizeof *part);
  if (!part) return ord_fail_memory(err, "counting parameters");
  if (list.count > 0) qsort(list.row, list.count, sizeof *list.row, by_part);
  *out = part;
  *out_count = sum(&list, part);
  return true;
}
