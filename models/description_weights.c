/* SPDX-License-Identifier: MIT
 *
 * weights and caches: their keys as families, and what is said about a member of one, worked out once its numbers are
 * known. While reading, families are checked with open numbers, so that a fault shows even if no op uses them.
 */
#include <string.h>

#include "models/description_fields.h"

/* ---- a weight ------------------------------------------------------------------------------------------------- */

/* A shape as it is read: axes in the order of the file, and which of them make the rows. */
typedef struct stored_shape {
  int64_t dim[ORD_RANK_MAX];
  uint32_t rank;
  int64_t out, in; /* products of the named axes; 0: not named */
  bool in_first;
} stored_shape;

static bool add_axis(ord_teller *teller, const ord_expression_scope *scope, const ord_yaml_node *axis,
                     stored_shape *shape, int64_t *product) {
  if (shape->rank == ORD_RANK_MAX) {
    ord_tell(teller, axis, "shape: found more than %d axes; wanted at most %d", ORD_RANK_MAX, ORD_RANK_MAX);
    return false;
  }
  int64_t size = 1;
  const bool is_good = ord_field_whole(teller, scope, axis, "shape", 1, &size);
  shape->dim[shape->rank++] = size;
  if (!__builtin_mul_overflow(*product, size, product) && *product < ORD_SIZE_LIMIT) return is_good;
  ord_tell(teller, axis, "shape: the weight holds too many numbers; found 2^40 or more; wanted fewer");
  return false;
}

/* `out: a` or `in: [a, b]`. */
static bool add_named_axis(ord_teller *teller, const ord_expression_scope *scope, const ord_yaml_node *axis,
                           stored_shape *shape) {
  const ord_yaml_node *key = axis->first;
  const bool is_out = key && strcmp(key->text, "out") == 0, is_in = key && strcmp(key->text, "in") == 0;
  if (axis->count != 1 || (!is_out && !is_in)) {
    ord_tell(teller, axis, "shape: '%.60s' names no axis; wanted out: .. or in: ..", key ? key->text : "");
    return false;
  }
  int64_t *product = is_out ? &shape->out : &shape->in;
  if (*product) {
    ord_tell(teller, axis, "shape: axis '%s' is named twice; wanted out and in once each", key->text);
    return false;
  }
  *product = 1;
  shape->in_first |= is_in && !shape->out;
  if (key->value->kind != ORD_YAML_LIST) return add_axis(teller, scope, key->value, shape, product);
  if (!key->value->first) ord_tell(teller, key->value, "shape: axis '%s' is an empty list; wanted a size", key->text);
  bool is_good = key->value->first != NULL;
  for (const ord_yaml_node *part = key->value->first; part && shape->rank <= ORD_RANK_MAX; part = part->next)
    is_good &= add_axis(teller, scope, part, shape, product);
  return is_good;
}

static bool read_shape(ord_teller *teller, const ord_expression_scope *scope, const ord_yaml_node *node,
                       stored_shape *shape) {
  static const char wanted[] = "a list of axes, [out: .., in: ..] for a matrix";
  if (!ord_field_is_list(teller, node, "shape", wanted)) return false;
  uint32_t named = 0;
  int64_t product = 1;
  bool is_good = true;
  for (const ord_yaml_node *axis = node->first; axis; axis = axis->next) {
    named += axis->kind == ORD_YAML_MAP;
    is_good &= axis->kind == ORD_YAML_MAP ? add_named_axis(teller, scope, axis, shape)
                                          : add_axis(teller, scope, axis, shape, &product);
  }
  if (!is_good) return false;
  if (!node->count) {
    ord_tell(teller, node, "shape: found no axis; wanted %s", wanted);
    return false;
  }
  if (!named || (named == 2 && node->count == 2)) {
    if (!named || (!__builtin_mul_overflow(shape->out, shape->in, &product) && product < ORD_SIZE_LIMIT)) return true;
    ord_tell(teller, node, "shape: the weight holds too many numbers; found 2^40 or more; wanted fewer");
    return false;
  }
  ord_tell(teller, node, "shape: found %u of %u axes named; wanted out and in, or no names", named, node->count);
  return false;
}

static bool read_slice(ord_teller *teller, const ord_expression_scope *scope, const ord_yaml_node *slice,
                       ord_graph_weight *weight) {
  static const ord_key known[] = {{"axis", "the number of the axis that is cut, from 0"},
                                  {"start", "where the part begins"}};
  if (!ord_field_is_map(teller, slice, "slice", "{axis: .., start: ..}")) return false;
  if (!ord_field_check_keys(teller, slice, "slice", known, 2)) return false;
  int64_t axis = 0;
  const ord_yaml_node *axis_node = ord_yaml_find(slice, "axis");
  const bool has_axis = ord_field_whole(teller, scope, axis_node, "axis", 0, &axis);
  const bool has_start =
      ord_field_whole(teller, scope, ord_yaml_find(slice, "start"), "start", 0, &weight->slice_start);
  if (has_axis && axis >= weight->stored_rank) {
    ord_tell(teller, axis_node, "axis: found %lld; the weight has %u axes; wanted 0 to %u", (long long)axis,
             weight->stored_rank, weight->stored_rank - 1);
    return false;
  }
  weight->has_slice = true;
  weight->slice_axis = (uint32_t)axis;
  return has_axis && has_start;
}

/* The value that ops see: [out, in] if the axes are named, whatever their order in the file. */
static void set_value_shape(ord_graph_weight *weight, const stored_shape *shape) {
  weight->stored_rank = shape->rank;
  memcpy(weight->stored_dim, shape->dim, sizeof weight->stored_dim);
  weight->has_axes = shape->out != 0;
  weight->in_first = shape->in_first;
  if (weight->has_axes) {
    weight->value_rank = 2;
    weight->value_dim[0] = shape->out;
    weight->value_dim[1] = shape->in;
    weight->value_stride[0] = shape->in_first ? 1 : shape->in;
    weight->value_stride[1] = shape->in_first ? shape->out : 1;
    return;
  }
  weight->value_rank = shape->rank;
  int64_t stride = 1;
  for (uint32_t axis = shape->rank; axis-- > 0;) {
    weight->value_dim[axis] = shape->dim[axis];
    weight->value_stride[axis] = stride;
    stride *= shape->dim[axis];
  }
}

static bool read_from(ord_teller *teller, const ord_expression_scope *scope, const ord_yaml_node *from,
                      ord_arena *arena, const char **out) {
  ord_fault fault;
  if (!ord_field_is_scalar(teller, from, "from", "the name of a tensor in the weight file")) return false;
  /* What characters the name of a tensor holds is the file's affair, but braces are a slip. */
  const bool is_sound = from->bytes > 0 && !strpbrk(from->text, "{}");
  if (is_sound ? ord_pattern_expand(scope, from->text, arena, out, &fault)
               : ord_pattern_check("from", from->text, &fault))
    return true;
  ord_tell_fault(teller, from, &fault);
  return false;
}

bool ord_weight_resolve(ord_teller *teller, const ord_expression_scope *scope, const ord_family *family,
                        ord_arena *arena, ord_graph_weight *out) {
  static const ord_key known[] = {
      {"shape", "a list of axes, [out: .., in: ..] for a matrix"}, {"from", NULL}, {"slice", NULL}};
  const ord_yaml_node *map = family->key->value;
  if (!ord_field_is_map(teller, map, family->name, "{shape: [..]}")) return false;
  bool is_good = ord_field_check_keys(teller, map, "a weight", known, 3);
  const ord_yaml_node *shape_node = ord_yaml_find(map, "shape"), *from = ord_yaml_find(map, "from"),
                      *slice = ord_yaml_find(map, "slice");
  stored_shape shape = {.rank = 0};
  is_good &= shape_node && read_shape(teller, scope, shape_node, &shape);
  set_value_shape(out, &shape);
  out->line = family->key->line;
  out->column = family->key->column;
  if (from) is_good &= read_from(teller, scope, from, arena, &out->file_name);
  if (slice && is_good) is_good &= read_slice(teller, scope, slice, out);
  return is_good;
}

bool ord_cache_resolve(ord_teller *teller, const ord_expression_scope *scope, const ord_family *family, int64_t *out) {
  static const ord_key known[] = {{"length", "how many tokens it holds"}};
  const ord_yaml_node *map = family->key->value;
  *out = 1;
  if (!ord_field_is_map(teller, map, family->name, "{length: ..}")) return false;
  if (!ord_field_check_keys(teller, map, "a cache", known, 1)) return false;
  return ord_field_whole(teller, scope, ord_yaml_find(map, "length"), "length", 1, out);
}

/* ---- the parts ------------------------------------------------------------------------------------------------ */

/* Over the dims, and over the holes of a family, whose numbers are not known yet. */
typedef struct family_scope {
  const ord_expression_scope *dims;
  const ord_family *family;
  bool is_open;
} family_scope;

static bool find_in_family(void *context, const char *name, ord_size *out, ord_fault *fault) {
  family_scope *scope = context;
  for (uint32_t i = 0; i < scope->family->hole_count; i++) {
    if (strcmp(scope->family->hole[i], name) != 0) continue;
    scope->is_open = true;
    fault->out_of_memory = ord_size_constant(scope->dims->arena, 1, out) != ORD_SIZE_OK;
    return !fault->out_of_memory;
  }
  return scope->dims->find(scope->dims->context, name, out, fault);
}

static bool read_key(ord_reader *reader, const ord_yaml_node *key, const char *what, ord_family *family) {
  ord_fault fault;
  *family = (ord_family){.name = key->text, .key = key};
  if (!ord_pattern_check(what, key->text, &fault) ||
      !ord_pattern_read_holes(key->text, &reader->description->arena, family, &fault)) {
    ord_tell_fault(&reader->teller, key, &fault);
    return false;
  }
  for (uint32_t i = 0; i < family->hole_count; i++) {
    const ord_dim *dim = ord_names_find(&reader->description->dim_of_name, family->hole[i]);
    if (!dim) continue;
    ord_tell(&reader->teller, key, "<%s> in the name of %s is a dim (line %u); wanted a new name for the index",
             family->hole[i], what, dim->key->line);
    return false;
  }
  return true;
}

static void read_families(ord_reader *reader, const ord_yaml_node *map, const char *what, ord_families *families,
                          bool (*check)(ord_reader *reader, const ord_family *family,
                                        const ord_expression_scope *scope)) {
  families->item = ord_reader_take(reader, map->count, sizeof *families->item);
  if (!families->item) return;
  for (const ord_yaml_node *key = map->first; key; key = key->next) {
    ord_family *family = &families->item[families->count];
    if (!read_key(reader, key, what, family)) {
      reader->description->has_lost_names = true;
      continue;
    }
    family->number = families->count++;
    family_scope context = {&reader->fixed, family, false};
    ord_expression_scope scope = reader->fixed;
    scope.find = find_in_family;
    scope.context = &context;
    scope.is_open = &context.is_open;
    family->is_known = check(reader, family, &scope);
  }
  const ord_family *crowded;
  if (!ord_families_index(families, &reader->description->arena, &crowded)) (void)ord_tell_memory(&reader->teller);
  if (!crowded) return;
  ord_tell(&reader->teller, crowded->key, "more than %d keys like '%s' differ in a number only; wanted a second <..>",
           ORD_FAMILY_MAX, crowded->name);
  /* What is looked for in them would take long: the graph is not built. */
  reader->is_hopeless = true;
}

static bool check_weight(ord_reader *reader, const ord_family *family, const ord_expression_scope *scope) {
  ord_graph_weight weight = {.name = family->name};
  return ord_weight_resolve(&reader->teller, scope, family, &reader->description->arena, &weight);
}

static bool check_cache(ord_reader *reader, const ord_family *family, const ord_expression_scope *scope) {
  int64_t length;
  return ord_cache_resolve(&reader->teller, scope, family, &length);
}

void ord_description_read_weights(ord_reader *reader, const ord_yaml_node *weights) {
  if (!ord_field_is_map(&reader->teller, weights, "weights", "a mapping of names to {shape: [..]}")) {
    reader->description->has_lost_names = true;
    return;
  }
  read_families(reader, weights, "a weight", &reader->description->weights, check_weight);
}

void ord_description_read_caches(ord_reader *reader, const ord_yaml_node *caches) {
  if (!ord_field_is_map(&reader->teller, caches, "caches", "a mapping of names to {length: ..}")) {
    reader->description->has_lost_names = true;
    return;
  }
  read_families(reader, caches, "a cache", &reader->description->caches, check_cache);
}
