/* SPDX-License-Identifier: MIT
 *
 * Scopes: what names are bound to, how they end, and the paths of what is built.
 */
#include <stdio.h>
#include <string.h>

#include "models/builder.h"

/* ---- paths ---------------------------------------------------------------------------------------------------- */

static void show_path(ord_builder *builder) {
  if (builder->path.failed) (void)ord_builder_fail_memory(builder);
  builder->teller.path = builder->path.bytes && builder->path.length ? builder->path.bytes : "";
}

/* The part as it stands in this scope's paths: "q", the second time "q#2"; NULL when out of memory. */
static const char *number_part(ord_builder *builder, const char *part) {
  ord_names *parts = &builder->scope->parts;
  uint32_t *count = ord_names_find(parts, part);
  if (!count) {
    count = ord_builder_take(builder, 1, sizeof *count);
    if (!count) return NULL;
    if (!ord_names_put(parts, &builder->scratch, part, count)) {
      (void)ord_builder_fail_memory(builder);
      return NULL;
    }
  }
  if (++*count == 1) return part;
  const char *numbered = ord_arena_format(&builder->scratch, "%s#%u", part, *count);
  if (!numbered) (void)ord_builder_fail_memory(builder);
  return numbered;
}

void ord_path_add(ord_builder *builder, const char *part) {
  ord_text_add(&builder->path, "%s%s", builder->path.length ? "." : "", part);
  show_path(builder);
}

size_t ord_path_enter(ord_builder *builder, const ord_yaml_node *place, const char *part) {
  const size_t length = builder->path.length;
  const char *numbered = number_part(builder, part);
  if (numbered) ord_path_add(builder, numbered);
  if (builder->path.length > ORD_PATH_BYTES_MAX && !builder->has_stopped) {
    builder->has_stopped = true;
    builder->teller.path = "";
    ord_tell(&builder->teller, place, "the path of an op grows too long; found more than %d bytes; wanted fewer",
             ORD_PATH_BYTES_MAX);
  }
  return length;
}

void ord_path_leave(ord_builder *builder, size_t length) {
  builder->path.length = length;
  if (builder->path.bytes) builder->path.bytes[length] = '\0';
  show_path(builder);
}

const char *ord_path_of(ord_builder *builder, const char *part) {
  const char *numbered = number_part(builder, part);
  if (!numbered || !builder->path.length) return numbered;
  const char *path = ord_arena_format(&builder->scratch, "%s.%s", builder->path.bytes, numbered);
  if (!path) (void)ord_builder_fail_memory(builder);
  return path;
}

/* ---- bindings -------------------------------------------------------------------------------------------------- */

ord_place_use *ord_use_of(ord_builder *builder, const ord_yaml_node *place, const char *warning) {
  char key[32];
  snprintf(key, sizeof key, "%u:%u", place->line, place->column);
  ord_place_use *use = ord_names_find(&builder->use_of_place, key);
  if (use) return use;
  use = ord_builder_take(builder, 1, sizeof *use);
  const char *copy = ord_arena_text(&builder->scratch, key);
  if (!use || !copy || !ord_names_put(&builder->use_of_place, &builder->scratch, copy, use)) {
    (void)ord_builder_fail_memory(builder);
    return NULL;
  }
  *use = (ord_place_use){.place = place, .warning = warning};
  return use;
}

ord_binding *ord_binding_find(const ord_builder *builder, const char *name) {
  for (const ord_scope *scope = builder->scope; scope; scope = scope->outer) {
    ord_binding *binding = ord_names_find(&scope->bound, name);
    if (binding) return binding;
  }
  return NULL;
}

ord_binding *ord_binding_add(ord_builder *builder, const char *name, ord_bound_kind kind, ord_place_use *use) {
  ord_binding *binding = ord_builder_take(builder, 1, sizeof *binding);
  if (!binding) return NULL;
  *binding = (ord_binding){.name = name, .kind = kind, .value = ORD_NONE, .use = use};
  if (ord_names_put(&builder->scope->bound, &builder->scratch, name, binding)) return binding;
  (void)ord_builder_fail_memory(builder);
  return NULL;
}

/* Notes, in each pass that does not own the name, with which value it came in. */
static void note_carried(ord_builder *builder, ord_binding *binding) {
  for (ord_scope *scope = builder->scope; scope && !ord_names_find(&scope->bound, binding->name);
       scope = scope->outer) {
    if (ord_names_find(&scope->carried, binding->name)) continue;
    ord_carried *carried = ord_builder_take(builder, 1, sizeof *carried);
    if (!carried) return;
    *carried = (ord_carried){binding, binding->value};
    if (!ord_names_put(&scope->carried, &builder->scratch, binding->name, carried))
      (void)ord_builder_fail_memory(builder);
  }
}

void ord_bind_result(ord_builder *builder, const ord_yaml_node *name, uint32_t value) {
  ord_place_use *use = ord_use_of(builder, name, "unread-value");
  ord_binding *binding = ord_binding_find(builder, name->text);
  if (binding)
    note_carried(builder, binding);
  else
    binding = ord_binding_add(builder, name->text, ORD_BOUND_VALUE, use);
  if (!binding) return;
  binding->kind = value == ORD_NONE ? ORD_BOUND_UNKNOWN : ORD_BOUND_VALUE;
  binding->value = value;
  binding->use = use;
}

/* ---- which names are free ---------------------------------------------------------------------------------------- */

/* What of the whole file has this name already, and may not be hidden; NULL if nothing has. */
static const char *find_global(const ord_builder *builder, const char *name) {
  const ord_description *description = builder->description;
  int64_t value[ORD_HOLE_MAX];
  const ord_family *second;
  if (ord_names_find(&description->dim_of_name, name)) return "a dim";
  if (ord_names_find(&description->block_of_name, name)) return "a block";
  if (ord_families_find(&description->weights, name, value, &second)) return "a weight";
  return NULL;
}

static bool check_name(ord_builder *builder, const ord_yaml_node *name, const char *what) {
  ord_fault fault;
  if (ord_scalar_name(what, name->text, &fault)) return true;
  ord_tell_fault(&builder->teller, name, &fault);
  return false;
}

bool ord_name_is_free(ord_builder *builder, const ord_yaml_node *name) {
  if (!check_name(builder, name, "a value")) return false;
  const ord_binding *binding = ord_binding_find(builder, name->text);
  const char *other = binding && binding->kind == ORD_BOUND_INDEX ? "an index"
                      : binding && binding->kind == ORD_BOUND_INT ? "a parameter of kind int"
                                                                  : find_global(builder, name->text);
  if (other) ord_tell(&builder->teller, name, "'%s' is %s and cannot be bound; wanted another name", name->text, other);
  return !other;
}

bool ord_name_is_new(ord_builder *builder, const ord_yaml_node *name) {
  if (!check_name(builder, name, "an index")) return false;
  const char *other = ord_binding_find(builder, name->text) ? "bound above" : find_global(builder, name->text);
  if (other) ord_tell(&builder->teller, name, "index '%s' is %s already; wanted a new name", name->text, other);
  return !other;
}

/* ---- the end of a pass ----------------------------------------------------------------------------------------- */

static bool is_same_type(const ord_value *a, const ord_value *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (uint32_t axis = 0; axis < a->rank; axis++)
    if (!ord_size_equal(a->dim[axis], b->dim[axis])) return false;
  return true;
}

static void check_carried(ord_builder *builder, const ord_carried *carried, const ord_yaml_node *body) {
  const ord_graph *graph = builder->graph;
  ord_binding *binding = carried->binding;
  if (carried->entering == ORD_NONE || binding->kind != ORD_BOUND_VALUE) return;
  const ord_value *entering = &graph->value[carried->entering], *leaving = &graph->value[binding->value];
  if (is_same_type(entering, leaving)) return;
  ord_text from = {0}, to = {0};
  ord_graph_print_shape(&from, graph, carried->entering);
  ord_graph_print_shape(&to, graph, binding->value);
  if (from.failed || to.failed)
    (void)ord_builder_fail_memory(builder);
  else
    ord_tell(&builder->teller, body, "'%s' enters the body as %s %s and leaves it as %s %s; wanted the same",
             binding->name, ord_dtype_name(entering->dtype), from.bytes, ord_dtype_name(leaving->dtype), to.bytes);
  ord_text_finish(&from);
  ord_text_finish(&to);
  binding->kind = ORD_BOUND_UNKNOWN;
  binding->value = ORD_NONE;
}

void ord_pass_end(ord_builder *builder, ord_scope *pass, const ord_yaml_node *body, const ord_yaml_node *repeat) {
  for (uint32_t i = 0; i < pass->carried.count; i++) check_carried(builder, pass->carried.entry[i].item, body);
  for (uint32_t i = 0; i < pass->bound.count; i++)
    if (!ord_names_put(&pass->outer->ended, &builder->scratch, pass->bound.entry[i].name, (void *)repeat))
      (void)ord_builder_fail_memory(builder);
  for (uint32_t i = 0; i < pass->ended.count; i++)
    if (!ord_names_put(&pass->outer->ended, &builder->scratch, pass->ended.entry[i].name, pass->ended.entry[i].item))
      (void)ord_builder_fail_memory(builder);
  ord_names_clear(&pass->bound);
  ord_names_clear(&pass->ended);
  ord_names_clear(&pass->carried);
  ord_names_clear(&pass->parts);
}

/* ---- did you mean ---------------------------------------------------------------------------------------------- */

const char **ord_builder_candidates(ord_builder *builder, uint32_t *out_count) {
  enum { COMPARED_NAME_MAX = 1000 };
  const char **candidate = ord_builder_take(builder, COMPARED_NAME_MAX, sizeof *candidate);
  uint32_t count = 0;
  for (const ord_scope *scope = builder->scope; scope && candidate; scope = scope->outer)
    for (uint32_t i = 0; i < scope->bound.count && count < COMPARED_NAME_MAX; i++) {
      const ord_binding *binding = scope->bound.entry[i].item;
      if (binding->kind == ORD_BOUND_VALUE || binding->kind == ORD_BOUND_UNKNOWN) candidate[count++] = binding->name;
    }
  *out_count = count;
  return candidate;
}
