/* SPDX-License-Identifier: MIT
 *
 * What a name in an item stands for: a bound value, a weight or cache that comes into being with its first use, or a
 * number in an expression.
 */
#include <string.h>

#include "models/builder.h"

/* ---- numbers --------------------------------------------------------------------------------------------------- */

/* Is the name bound around the call of the block that is being built? */
static const ord_binding *find_outside(const ord_builder *builder, const char *name) {
  const ord_scope *scope = builder->scope;
  while (scope && scope->outer) scope = scope->outer;
  for (scope = scope ? scope->caller : NULL; scope; scope = scope->outer ? scope->outer : scope->caller) {
    const ord_binding *binding = ord_names_find(&scope->bound, name);
    if (binding) return binding;
  }
  return NULL;
}

bool ord_builder_find_number(void *context, const char *name, ord_size *out, ord_fault *fault) {
  ord_builder *builder = context;
  const ord_binding *binding = ord_binding_find(builder, name);
  if (binding && (binding->kind == ORD_BOUND_INDEX || binding->kind == ORD_BOUND_INT)) {
    if (binding->use) binding->use->is_read = true;
    fault->is_silent = binding->is_unknown_int;
    *out = binding->number;
    return !binding->is_unknown_int;
  }
  const ord_dim *dim = ord_names_find(&builder->description->dim_of_name, name);
  if (dim) builder->dim_is_used[dim->number] = true;
  if (!dim && binding)
    return ord_fault_set(fault, 0, "'%s' is a value; wanted a number: a dim, an index or a parameter of kind int",
                         name);
  const ord_binding *outside = dim ? NULL : find_outside(builder, name);
  if (outside && (outside->kind == ORD_BOUND_INDEX || outside->kind == ORD_BOUND_INT))
    return ord_fault_set(fault, 0, "'%s' is not seen inside a block; wanted a parameter of kind int (takes)", name);
  if (dim) {
    ord_size size;
    if (!ord_dim_find(builder->description, name, &size, fault)) return false;
    fault->out_of_memory = !ord_builder_copy_size(builder, size, out);
    return !fault->out_of_memory;
  }
  if (builder->has_lost_numbers) {
    fault->is_silent = true;
    return false;
  }
  /* What an unknown name may have meant is looked for once, not in each pass. */
  const char *text = ord_names_find(&builder->unknown_numbers, name);
  if (text) return ord_fault_set(fault, 0, "%s", text);
  (void)ord_dim_find(builder->description, name, out, fault);
  const char *key = ord_arena_text(&builder->scratch, name);
  char *copy = ord_arena_text(&builder->scratch, fault->text);
  fault->out_of_memory = !key || !copy || !ord_names_put(&builder->unknown_numbers, &builder->scratch, key, copy);
  return false;
}

/* ---- members of families ---------------------------------------------------------------------------------------- */

/* The dims and the numbers in the holes of one family. */
typedef struct member_scope {
  ord_builder *builder;
  const ord_family *family;
  const int64_t *value;
} member_scope;

static bool find_in_member(void *context, const char *name, ord_size *out, ord_fault *fault) {
  const member_scope *scope = context;
  for (uint32_t i = 0; i < scope->family->hole_count; i++) {
    if (strcmp(scope->family->hole[i], name) != 0) continue;
    fault->out_of_memory = ord_size_constant(scope->builder->fixed.arena, scope->value[i], out) != ORD_SIZE_OK;
    return !fault->out_of_memory;
  }
  const ord_dim *dim = ord_names_find(&scope->builder->description->dim_of_name, name);
  if (dim) scope->builder->dim_is_used[dim->number] = true;
  return ord_dim_find(scope->builder->description, name, out, fault);
}

static ord_expression_scope make_member_scope(member_scope *context) {
  return (ord_expression_scope){.find = find_in_member, .context = context, .arena = context->builder->fixed.arena};
}

static uint32_t add_weight_value(ord_builder *builder, ord_graph_weight *weight) {
  ord_graph *graph = builder->graph;
  ord_value value = {.kind = ORD_VALUE_WEIGHT,
                     .index = graph->weight_count,
                     .name = weight->name,
                     .path = weight->name,
                     .line = weight->line,
                     .dtype = ORD_F32,
                     .rank = weight->value_rank};
  for (uint32_t axis = 0; axis < value.rank; axis++)
    if (ord_size_constant(&graph->arena, weight->value_dim[axis], &value.dim[axis]) != ORD_SIZE_OK) return ORD_NONE;
  if (!ord_arena_grow(&graph->arena, &graph->weight, &builder->weight_capacity, graph->weight_count + 1,
                      sizeof *weight))
    return ORD_NONE;
  graph->weight[graph->weight_count++] = *weight;
  return ord_graph_add_value(graph, &value);
}

/* The weight's value, ORD_NONE after a fault. */
static uint32_t make_weight(ord_builder *builder, const char *name, const ord_family *family, const int64_t *hole) {
  ord_graph_weight weight = {.name = ord_arena_text(&builder->graph->arena, name)};
  weight.file_name = weight.name;
  member_scope context = {builder, family, hole};
  const ord_expression_scope scope = make_member_scope(&context);
  builder->weight_is_used[family->number] = true;
  if (!weight.name) {
    (void)ord_builder_fail_memory(builder);
    return ORD_NONE;
  }
  if (!family->is_known || !ord_weight_resolve(&builder->teller, &scope, family, &builder->graph->arena, &weight))
    return ORD_NONE;
  const uint32_t value = add_weight_value(builder, &weight);
  if (value == ORD_NONE) (void)ord_builder_fail_memory(builder);
  return value;
}

/* graph->cache, ORD_NONE after a fault. */
static uint32_t make_cache(ord_builder *builder, const char *name, const ord_family *family, const int64_t *hole) {
  ord_graph *graph = builder->graph;
  member_scope context = {builder, family, hole};
  const ord_expression_scope scope = make_member_scope(&context);
  int64_t length;
  builder->cache_is_used[family->number] = true;
  if (!family->is_known || !ord_cache_resolve(&builder->teller, &scope, family, &length)) return ORD_NONE;
  const int64_t context_length = builder->description->context;
  if (context_length && length > context_length) length = context_length;
  ord_graph_cache cache = {.name = ord_arena_text(&graph->arena, name), .dtype = ORD_F32};
  if (!cache.name || ord_size_constant(&graph->arena, length, &cache.length) != ORD_SIZE_OK ||
      !ord_arena_grow(&graph->arena, &graph->cache, &builder->cache_capacity, graph->cache_count + 1, sizeof cache)) {
    (void)ord_builder_fail_memory(builder);
    return ORD_NONE;
  }
  graph->cache[graph->cache_count] = cache;
  return graph->cache_count++;
}

typedef struct member_kind {
  const ord_families *families;
  ord_names *known;
  uint32_t (*make)(ord_builder *builder, const char *name, const ord_family *family, const int64_t *hole);
} member_kind;

/* NULL if no key fits, or out of memory. */
static ord_member *find_member(ord_builder *builder, const member_kind *kind, const char *name,
                               const ord_yaml_node *place) {
  ord_member *member = ord_names_find(kind->known, name);
  if (member) return member;
  int64_t hole[ORD_HOLE_MAX];
  const ord_family *second, *family = ord_families_find(kind->families, name, hole, &second);
  if (!family) return NULL;
  member = ord_builder_take(builder, 1, sizeof *member);
  const char *copy = ord_arena_text(&builder->scratch, name);
  if (!member || !copy || !ord_names_put(kind->known, &builder->scratch, copy, member)) {
    (void)ord_builder_fail_memory(builder);
    return NULL;
  }
  *member = (ord_member){.number = ORD_NONE};
  if (!second) {
    member->number = kind->make(builder, copy, family, hole);
    return member;
  }
  if (second->number < family->number) {
    const ord_family *swapped = family;
    family = second;
    second = swapped;
  }
  ord_tell(&builder->teller, place, "'%s' fits two keys, '%s' (line %u) and '%s' (line %u); wanted one", name,
           family->name, family->key->line, second->name, second->key->line);
  return member;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* Checks a name and writes out its indices; NULL after a fault. */
static const char *expand(ord_builder *builder, const ord_yaml_node *node, const char *what) {
  ord_fault fault;
  const char *name = NULL;
  if (ord_pattern_check(what, node->text, &fault) &&
      (!strchr(node->text, '<') || ord_pattern_expand(&builder->fixed, node->text, &builder->scratch, &name, &fault)))
    return name ? name : node->text;
  ord_tell_fault(&builder->teller, node, &fault);
  return NULL;
}

static const char *nearest_key(ord_builder *builder, const ord_families *families, const char *name,
                               const char **candidate, uint32_t count) {
  enum { COMPARED_KEY_MAX = 1000 };
  const uint32_t key_count = families->count < COMPARED_KEY_MAX ? families->count : COMPARED_KEY_MAX;
  const char **all = ord_builder_take(builder, (size_t)count + key_count, sizeof *all);
  if (!all || builder->teller.list->error_count >= ORD_DIAGNOSTIC_LIMIT) return NULL;
  for (uint32_t i = 0; i < count; i++) all[i] = candidate[i];
  for (uint32_t i = 0; i < key_count; i++) all[count + i] = families->item[i].name;
  return ord_nearest_name(name, all, (size_t)count + key_count);
}

static void tell_no_value(ord_builder *builder, const ord_yaml_node *node, const char *name) {
  const ord_description *description = builder->description;
  ord_teller *teller = &builder->teller;
  for (const ord_scope *scope = builder->scope; scope; scope = scope->outer) {
    const ord_yaml_node *repeat = ord_names_find(&scope->ended, name);
    if (!repeat) continue;
    ord_tell(teller, node, "'%s' ended with the repeat of line %u; wanted a value that is bound before it", name,
             repeat->line);
    return;
  }
  if (find_outside(builder, name) || ord_names_find(&description->input_of_name, name)) {
    ord_tell(teller, node, "'%s' is not seen inside a block; wanted a parameter (takes)", name);
    return;
  }
  if (ord_names_find(&description->dim_of_name, name)) {
    ord_tell(teller, node, "'%s' is a dim; wanted a value or a weight", name);
    return;
  }
  if (builder->has_lost_names) return;
  uint32_t count;
  const char **candidate = ord_builder_candidates(builder, &count);
  /* What was written is nearer to a key of a family than what it was expanded to. */
  const char *nearest = candidate ? nearest_key(builder, &description->weights, node->text, candidate, count) : NULL;
  ord_tell(teller, node, "'%s' is neither a value bound above nor a weight%s%s%s", name,
           nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

bool ord_read_value(ord_builder *builder, const ord_yaml_node *node, const char *slot, uint32_t *out) {
  *out = ORD_NONE;
  if (!ord_builder_spend(builder, node)) return false;
  if (!ord_field_is_scalar(&builder->teller, node, slot, "the name of a value")) return false;
  const char *name = expand(builder, node, "a value or a weight");
  if (!name) return false;
  const ord_binding *binding = ord_binding_find(builder, name);
  if (binding && (binding->kind == ORD_BOUND_INDEX || binding->kind == ORD_BOUND_INT)) {
    ord_tell(&builder->teller, node, "'%s' is a number; wanted a value or a weight", name);
    return false;
  }
  if (binding) {
    if (binding->use) binding->use->is_read = true;
    *out = binding->value;
    return binding->kind == ORD_BOUND_VALUE;
  }
  const member_kind kind = {&builder->description->weights, &builder->weight_of_name, make_weight};
  const ord_member *member = find_member(builder, &kind, name, node);
  if (member) *out = member->number;
  if (!member && !builder->has_stopped && ord_tell_is_new(&builder->teller, node)) tell_no_value(builder, node, name);
  return *out != ORD_NONE;
}

static void tell_no_cache(ord_builder *builder, const ord_yaml_node *node, const char *name) {
  if (builder->has_lost_names) return;
  const char *nearest = nearest_key(builder, &builder->description->caches, node->text, NULL, 0);
  ord_tell(&builder->teller, node, "'%s' is not a cache; %s%s%s", name,
           nearest ? "did you mean '" : "wanted the name of a cache that is declared", nearest ? nearest : "",
           nearest ? "'?" : "");
}

bool ord_read_cache(ord_builder *builder, const ord_yaml_node *node, const char *path, uint32_t *out) {
  ord_teller *teller = &builder->teller;
  *out = ORD_NONE;
  if (!ord_field_is_scalar(teller, node, "cache", "the name of a cache")) return false;
  const char *name = expand(builder, node, "a cache");
  if (!name) return false;
  const member_kind kind = {&builder->description->caches, &builder->cache_of_name, make_cache};
  ord_member *member = find_member(builder, &kind, name, node);
  if (!member) {
    if (!builder->has_stopped && ord_tell_is_new(teller, node)) tell_no_cache(builder, node, name);
    return false;
  }
  if (member->path) {
    const char *scope_path = teller->path;
    teller->path = path;
    ord_tell(teller, node, "cache '%s' is used twice; first at line %u in %s; wanted one attention per cache", name,
             member->line, member->path);
    teller->path = scope_path;
    return false;
  }
  member->line = node->line;
  member->path = path;
  *out = member->number;
  return member->number != ORD_NONE;
}
