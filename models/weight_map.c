/* SPDX-License-Identifier: MIT
 *
 * Which tensor serves which weight, and everything that is wrong with it, all at once: a user must see in one message
 * which names are missing, what the file has instead and where the model file asks for it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/weight_format.h"
#include "runtime/text.h"

enum {
  NEAREST_LIMIT = 4096,     /* tensors compared with a missing name: a hostile file may list millions */
  PREFIX_TRIES = 16,        /* prefixes tried as what all missing names lack */
  MESSAGE_BYTES_MAX = 1600, /* of the faults in one message, so that its end is not lost */
};

typedef struct mapper {
  const ord_weight_file *file;
  const ord_description *description;
  const ord_graph *graph;
  ord_mapping *mapping;
  bool *is_read;       /* [tensor] by a weight, or as its scales or moments */
  const char **unread; /* names offered as the nearest */
  uint32_t unread_count;
  const char *prefix; /* of the file's names, or of the model's if `is_prefix_ours`; NULL: none */
  bool is_prefix_ours;
  ord_error *err;
} mapper;

static bool is_weight_type(ord_dtype dtype) {
  static const ord_dtype known[] = {ORD_F32, ORD_F16, ORD_BF16, ORD_I8};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i] == dtype) return true;
  return false;
}

/* A row with the text "SUBJECT (line N; HINT)"; `place` marks the line for a message that names the file. */
static bool add_fault(mapper *map, ord_mapping_state state, uint32_t weight, uint32_t tensor, const char *subject,
                      const char *hint) {
  const ord_graph_weight *wanted = &map->graph->weight[weight];
  const char *name = ord_weight_file_name_of(map->file, wanted);
  const bool is_renamed = strcmp(name, wanted->name) != 0;
  const char *lead = ord_arena_format(&map->mapping->arena, "%s (%s%s%s", subject, is_renamed ? "weight " : "",
                                      is_renamed ? wanted->name : "", is_renamed ? ", " : "");
  if (!lead) return ord_fail_memory(map->err, "mapping weights");
  const char *text =
      ord_arena_format(&map->mapping->arena, "%sline %u%s%s)", lead, wanted->line, *hint ? "; " : "", hint);
  if (!text) return ord_fail_memory(map->err, "mapping weights");
  ord_mapping_row *row = &map->mapping->row[map->mapping->row_count++];
  *row = (ord_mapping_row){
      .state = state, .weight = weight, .tensor = tensor, .text = text, .place = (uint32_t)strlen(lead)};
  map->mapping->fault_count++;
  return true;
}

/* ---- missing --------------------------------------------------------------------------------------------------- */

/* The embedding table, if the missing weight has its shape: then the file probably ties its head to it. The table is
 * what an op looks rows up in. */
static const ord_graph_weight *find_table(const ord_graph *graph, const ord_graph_weight *missing) {
  if (!missing->has_axes || missing->value_rank != 2) return NULL;
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const ord_graph_node *node = &graph->node[n];
    for (uint32_t slot = 0; slot < node->op->slot_count && slot < node->in_count; slot++) {
      const uint32_t value = node->in[slot];
      if (!(node->op->slot[slot].flags & ORD_SLOT_TABLE) || value == ORD_NONE ||
          graph->value[value].kind != ORD_VALUE_WEIGHT)
        continue;
      const ord_graph_weight *table = &graph->weight[graph->value[value].index];
      if (table != missing && table->value_rank == 2 && table->value_dim[0] == missing->value_dim[0] &&
          table->value_dim[1] == missing->value_dim[1])
        return table;
    }
  }
  return NULL;
}

/* What may help with a missing weight, "" if nothing does; NULL when out of memory. */
static const char *missing_hint(mapper *map, const ord_graph_weight *weight, const char *name) {
  ord_arena *arena = &map->mapping->arena;
  if (map->prefix && map->is_prefix_ours)
    return ord_arena_format(arena, "the file has '%s'", name + strlen(map->prefix));
  if (map->prefix) return ord_arena_format(arena, "the file has '%s%s'", map->prefix, name);
  const ord_graph_weight *table = find_table(map->graph, weight);
  if (table && ord_weight_file_find_tensor(map->file, ord_weight_file_name_of(map->file, table)) != ORD_NONE)
    return ord_arena_format(arena, "a tied head reads the embedding table, '%s'", table->name);
  const char *nearest = ord_nearest_name(name, map->unread, map->unread_count);
  return nearest ? ord_arena_format(arena, "the nearest in the file is '%s'", nearest) : "";
}

static bool add_missing(mapper *map, uint32_t weight) {
  const ord_graph_weight *wanted = &map->graph->weight[weight];
  const char *name = ord_weight_file_name_of(map->file, wanted);
  const char *hint = missing_hint(map, wanted, name);
  const char *subject = ord_arena_format(&map->mapping->arena, "missing %s", name);
  if (!hint || !subject) return ord_fail_memory(map->err, "mapping weights");
  return add_fault(map, ORD_MISSING, weight, ORD_NONE, subject, hint);
}

/* The next weight from `from` on whose tensor the file lacks; the weight count if there is none. */
static uint32_t next_missing(const mapper *map, uint32_t from) {
  uint32_t weight = from;
  while (weight < map->graph->weight_count &&
         ord_weight_file_find_tensor(map->file, ord_weight_file_name_of(map->file, &map->graph->weight[weight])) !=
             ORD_NONE)
    weight++;
  return weight;
}

/* Are all missing names in the file, if `prefix` is put in front or (`is_ours`) taken away? */
static bool prefix_explains(const mapper *map, const char *prefix, bool is_ours) {
  const size_t length = strlen(prefix);
  for (uint32_t w = next_missing(map, 0); w < map->graph->weight_count; w = next_missing(map, w + 1)) {
    const char *wanted = ord_weight_file_name_of(map->file, &map->graph->weight[w]);
    if (is_ours && strncmp(wanted, prefix, length) != 0) return false;
    const uint32_t tensor = is_ours ? ord_weight_file_find_tensor(map->file, wanted + length)
                                    : ord_weight_file_find_joined(map->file, prefix, wanted);
    if (tensor == ORD_NONE) return false;
  }
  return true;
}

/* A prefix that the file's names have and the model's lack, taken from tensors that end like the first missing name. */
static bool find_their_prefix(mapper *map, const char *missing) {
  const size_t length = strlen(missing);
  uint32_t tries = 0;
  for (uint32_t t = 0; t < map->file->tensor_count && tries < PREFIX_TRIES && !map->prefix; t++) {
    const char *name = map->file->tensor[t].name;
    const size_t whole = strlen(name);
    if (whole <= length || name[whole - length - 1] != '.' || strcmp(name + whole - length, missing) != 0) continue;
    const char *prefix = ord_arena_text_n(&map->mapping->arena, name, whole - length);
    if (!prefix) return ord_fail_memory(map->err, "mapping weights");
    if (prefix_explains(map, prefix, false)) map->prefix = prefix;
    tries++;
  }
  return true;
}

/* A prefix that the model's names have and the file's lack. */
static bool find_our_prefix(mapper *map, const char *missing) {
  uint32_t tries = 0;
  for (const char *dot = strchr(missing, '.'); dot && tries < PREFIX_TRIES && !map->prefix;
       dot = strchr(dot + 1, '.')) {
    const char *prefix = ord_arena_text_n(&map->mapping->arena, missing, (size_t)(dot + 1 - missing));
    if (!prefix) return ord_fail_memory(map->err, "mapping weights");
    if (prefix_explains(map, prefix, true)) map->prefix = prefix;
    tries++;
  }
  map->is_prefix_ours = map->prefix != NULL;
  return true;
}

static bool find_prefix(mapper *map) {
  const uint32_t first = next_missing(map, 0);
  if (first == map->graph->weight_count) return true;
  const char *name = ord_weight_file_name_of(map->file, &map->graph->weight[first]);
  if (!find_their_prefix(map, name)) return false;
  if (!map->prefix && !find_our_prefix(map, name)) return false;
  if (!map->prefix) return true;
  map->mapping->note =
      map->is_prefix_ours
          ? ord_arena_format(&map->mapping->arena, "all missing names are in the file without '%s' in front",
                             map->prefix)
          : ord_arena_format(&map->mapping->arena, "all missing names are in the file with '%s' in front", map->prefix);
  return map->mapping->note || ord_fail_memory(map->err, "mapping weights");
}

/* ---- wrong shape or type --------------------------------------------------------------------------------------- */

static bool fits(const mapper *map, const ord_graph_weight *weight, const ord_file_tensor *tensor) {
  if (tensor->rank != weight->stored_rank) return false;
  for (uint32_t axis = 0; axis < tensor->rank; axis++) {
    const bool is_cut = ord_weight_file_slices(map->file, weight) && axis == weight->slice_axis;
    const int64_t dim = weight->stored_dim[axis];
    if (is_cut ? weight->slice_start < 0 || tensor->dim[axis] < dim || weight->slice_start > tensor->dim[axis] - dim
               : tensor->dim[axis] != dim)
      return false;
  }
  return true;
}

static bool add_wrong_shape(mapper *map, uint32_t weight, uint32_t tensor) {
  const ord_graph_weight *wanted = &map->graph->weight[weight];
  const ord_file_tensor *found = &map->file->tensor[tensor];
  char cut[96] = "";
  if (ord_weight_file_slices(map->file, wanted))
    snprintf(cut, sizeof cut, " from %lld on along axis %u", (long long)wanted->slice_start, wanted->slice_axis);
  const char *subject = ord_arena_format(&map->mapping->arena, "%s is %s, wanted %s%s", found->name,
                                         ord_dims_print(found->rank, found->dim).bytes,
                                         ord_dims_print(wanted->stored_rank, wanted->stored_dim).bytes, cut);
  if (!subject) return ord_fail_memory(map->err, "mapping weights");
  return add_fault(map, ORD_WRONG_SHAPE, weight, tensor, subject, "");
}

static bool add_wrong_type(mapper *map, uint32_t weight, uint32_t tensor) {
  const ord_file_tensor *found = &map->file->tensor[tensor];
  const char *subject =
      ord_arena_format(&map->mapping->arena, "%s is %s, wanted F32, F16, BF16 or I8", found->name, found->type_name);
  if (!subject) return ord_fail_memory(map->err, "mapping weights");
  return add_fault(map, ORD_WRONG_DTYPE, weight, tensor, subject, "");
}

/* An i8 tensor is nothing without one scale a row. *out_is_fault: a row was added. */
static bool check_scale(mapper *map, uint32_t weight, uint32_t tensor, bool *out_is_fault) {
  const ord_graph_weight *wanted = &map->graph->weight[weight];
  const ord_file_tensor *found = &map->file->tensor[tensor];
  ord_arena *arena = &map->mapping->arena;
  ord_weight_span span;
  uint64_t rows;
  *out_is_fault = true;
  if (!ord_weight_span_scale(found, wanted, &span, &rows)) {
    const char *subject = ord_arena_format(arena, "%s is I8 without rows, wanted F32, F16 or BF16", found->name);
    return subject ? add_fault(map, ORD_WRONG_DTYPE, weight, tensor, subject, "")
                   : ord_fail_memory(map->err, "mapping weights");
  }
  const uint32_t scale = ord_weight_file_find_companion(map->file, tensor, ORD_SCALE);
  if (scale == ORD_NONE) {
    const char *subject = ord_arena_format(arena, "missing %s" ORD_SCALE, found->name);
    return subject
               ? add_fault(map, ORD_MISSING, weight, ORD_NONE, subject, "the scales of an I8 tensor, F32, one a row")
               : ord_fail_memory(map->err, "mapping weights");
  }
  map->is_read[scale] = true;
  const ord_file_tensor *given = &map->file->tensor[scale];
  if (given->dtype == ORD_F32 && given->rank == 1 && (uint64_t)given->dim[0] == rows) {
    *out_is_fault = false;
    return true;
  }
  const char *subject = ord_arena_format(arena, "%s is %s %s, wanted F32 [%" PRIu64 "]", given->name, given->type_name,
                                         ord_dims_print(given->rank, given->dim).bytes, rows);
  return subject ? add_fault(map, ORD_WRONG_SHAPE, weight, tensor, subject, "")
                 : ord_fail_memory(map->err, "mapping weights");
}

/* ---- all rows -------------------------------------------------------------------------------------------------- */

static bool map_weight(mapper *map, uint32_t weight) {
  const ord_graph_weight *wanted = &map->graph->weight[weight];
  const uint32_t tensor = ord_weight_file_find_tensor(map->file, ord_weight_file_name_of(map->file, wanted));
  if (tensor == ORD_NONE) return add_missing(map, weight);
  const ord_file_tensor *found = &map->file->tensor[tensor];
  if (!fits(map, wanted, found)) return add_wrong_shape(map, weight, tensor);
  if (!is_weight_type(found->dtype)) return add_wrong_type(map, weight, tensor);
  bool is_fault = false;
  if (found->dtype == ORD_I8 && !check_scale(map, weight, tensor, &is_fault)) return false;
  if (!is_fault)
    map->mapping->row[map->mapping->row_count++] =
        (ord_mapping_row){.state = ORD_MAPS, .weight = weight, .tensor = tensor};
  return true;
}

/* Marks the tensors that weights name, and their Adam moments, and offers the rest as nearest names. */
static void mark_read(mapper *map) {
  static const char *const companions[] = {ORD_ADAM_M, ORD_ADAM_V};
  for (uint32_t w = 0; w < map->graph->weight_count; w++) {
    const uint32_t tensor =
        ord_weight_file_find_tensor(map->file, ord_weight_file_name_of(map->file, &map->graph->weight[w]));
    if (tensor == ORD_NONE) continue;
    map->is_read[tensor] = true;
    for (size_t i = 0; i < sizeof companions / sizeof *companions; i++) {
      const uint32_t companion = ord_weight_file_find_companion(map->file, tensor, companions[i]);
      if (companion != ORD_NONE) map->is_read[companion] = true;
    }
  }
  for (uint32_t t = 0; t < map->file->tensor_count && map->unread_count < NEAREST_LIMIT; t++)
    if (!map->is_read[t]) map->unread[map->unread_count++] = map->file->tensor[t].name;
}

static void add_unread(mapper *map) {
  for (uint32_t t = 0; t < map->file->tensor_count; t++) {
    if (map->is_read[t]) continue;
    const bool is_ignored = map->description && ord_description_ignores(map->description, map->file->tensor[t].name);
    map->mapping->row[map->mapping->row_count++] =
        (ord_mapping_row){.state = is_ignored ? ORD_IGNORED : ORD_UNUSED,
                          .weight = ORD_NONE,
                          .tensor = t,
                          .text = is_ignored ? "checkpoint.ignore covers it" : "no weight reads it"};
  }
}

static bool warn_unused(const mapper *map, ord_diagnostics *list) {
  ord_text names = {0};
  uint32_t count = 0;
  for (uint32_t i = 0; i < map->mapping->row_count; i++) {
    const ord_mapping_row *row = &map->mapping->row[i];
    if (row->state != ORD_UNUSED) continue;
    if (count < ORD_LIST_MAX) ord_text_add(&names, "%s%s", count ? ", " : "", map->file->tensor[row->tensor].name);
    count++;
  }
  if (count > ORD_LIST_MAX) ord_text_add(&names, " and %u more", count - ORD_LIST_MAX);
  if (count && !names.failed)
    ord_diagnose_warning(list, "unused-tensor", 0, 0,
                         "%s: no weight reads %u tensor%s: %s; wanted checkpoint.ignore to name %s", map->file->path,
                         count, ord_plural(count), names.bytes, count == 1 ? "it" : "them");
  const bool done = !names.failed;
  ord_text_finish(&names);
  return done || ord_fail_memory(map->err, "mapping weights");
}

bool ord_mapping_make(const ord_weight_file *file, const ord_description *description, const ord_graph *graph,
                      ord_mapping *mapping, ord_diagnostics *list, ord_error *err) {
  mapper map = {.file = file, .description = description, .graph = graph, .mapping = mapping, .err = err};
  const size_t rows = (size_t)graph->weight_count + file->tensor_count;
  mapping->row = ord_arena_take(&mapping->arena, rows, sizeof *mapping->row);
  map.is_read = ord_arena_take(&mapping->arena, file->tensor_count, sizeof *map.is_read);
  map.unread = ord_arena_take(&mapping->arena, file->tensor_count, sizeof *map.unread);
  if (!mapping->row || !map.is_read || !map.unread) return ord_fail_memory(err, "mapping weights");
  mark_read(&map);
  if (!find_prefix(&map)) return false;
  for (uint32_t weight = 0; weight < graph->weight_count; weight++)
    if (!map_weight(&map, weight)) return false;
  add_unread(&map);
  if (!list) return true;
  if (!ord_weight_warn_holes(file, graph, mapping, list, err) || !warn_unused(&map, list)) return false;
  return !list->out_of_memory || ord_fail_memory(err, "mapping weights");
}

void ord_mapping_finish(ord_mapping *mapping) {
  ord_arena_finish(&mapping->arena);
  *mapping = (ord_mapping){0};
}

static void add_fault_text(ord_text *text, const ord_mapping_row *row, const char *model_file) {
  static const char line[] = "line ";
  if (!model_file) {
    ord_text_add(text, "%s", row->text);
    return;
  }
  ord_text_add_n(text, row->text, row->place);
  ord_text_add(text, "%s:%s", model_file, row->text + row->place + sizeof line - 1);
}

bool ord_mapping_fail(const ord_mapping *mapping, const ord_weight_file *file, const char *model_file, ord_error *err) {
  ord_text faults = {0};
  uint32_t told = 0;
  for (uint32_t i = 0; i < mapping->row_count && told < ORD_LIST_MAX && faults.length < MESSAGE_BYTES_MAX; i++) {
    if (mapping->row[i].weight == ORD_NONE || mapping->row[i].state == ORD_MAPS) continue;
    if (told++) ord_text_add(&faults, "; ");
    add_fault_text(&faults, &mapping->row[i], model_file);
  }
  if (told < mapping->fault_count) ord_text_add(&faults, " and %u more", mapping->fault_count - told);
  if (faults.failed)
    ord_fail_memory(err, "mapping weights");
  else
    ord_fail(err, ORD_INVALID, "%s: %u fault%s for %s: %s%s%s", file->path, mapping->fault_count,
             ord_plural(mapping->fault_count), model_file ? model_file : "the model",
             mapping->note ? mapping->note : "", mapping->note ? "; " : "", told ? faults.bytes : "none");
  ord_text_finish(&faults);
  return false;
}
