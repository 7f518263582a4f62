/* SPDX-License-Identifier: MIT
 *
 * sizes and dims. All names are registered first, so that a use of a dim that is set further down can say where.
 */
#include <string.h>

#include "models/description_fields.h"
#include "runtime/text.h"

static const char dim_wanted[] = "a number";

/* ---- names ---------------------------------------------------------------------------------------------------- */

static bool check_dim_name(ord_reader *reader, const ord_yaml_node *key) {
  ord_fault fault;
  if (ord_scalar_name("a dim", key->text, &fault)) return true;
  ord_tell_fault(&reader->teller, key, &fault);
  return false;
}

static void add_dim(ord_reader *reader, const ord_yaml_node *key, bool is_set) {
  ord_description *description = reader->description;
  if (!check_dim_name(reader, key)) {
    description->has_lost_dims = true;
    return;
  }
  ord_dim *dim = &description->dim[description->dim_count];
  *dim = (ord_dim){.name = key->text, .key = key, .number = description->dim_count, .is_set = is_set};
  if (!ord_names_put(&description->dim_of_name, &description->arena, dim->name, dim)) {
    (void)ord_tell_memory(&reader->teller);
    return;
  }
  description->dim_count++;
}

/* The row that the caller chose; NULL after a fault. */
static const ord_yaml_node *choose_row(ord_reader *reader, const ord_yaml_node *sizes) {
  const char *wanted = reader->options->size;
  const ord_yaml_node *row = wanted ? ord_yaml_find(sizes, wanted) : NULL;
  if (row) return row;
  const char **name = ord_reader_take(reader, (size_t)sizes->count + 1, sizeof *name);
  if (!name) return NULL;
  uint32_t count = 0;
  for (const ord_yaml_node *key = sizes->first; key; key = key->next) name[count++] = key->text;
  char list[400];
  const char *nearest = wanted ? ord_nearest_name(wanted, name, count) : NULL;
  ord_join_words(name, ", ", list, sizeof list);
  if (!wanted)
    ord_tell(&reader->teller, sizes, "the model comes in sizes %s; found no choice; wanted one (--size)", list);
  else
    ord_tell(&reader->teller, sizes, "the model comes in sizes %s; found --size %.60s%s%s%s", list, wanted,
             nearest ? "; did you mean '" : "; wanted one of them", nearest ? nearest : "", nearest ? "'?" : "");
  return NULL;
}

static bool list_keys(ord_reader *reader, const ord_yaml_node *map, ord_names *out) {
  for (const ord_yaml_node *key = map->first; key; key = key->next)
    if (!ord_names_put(out, &reader->description->arena, key->text, (void *)key))
      return ord_tell_memory(&reader->teller);
  return true;
}

/* Every row sets what the first one sets. */
static void compare_rows(ord_reader *reader, const ord_yaml_node *key, const ord_yaml_node *first,
                         const ord_names *first_names) {
  ord_names names = {0};
  if (!list_keys(reader, key->value, &names)) return;
  for (const ord_yaml_node *dim = first->value->first; dim; dim = dim->next)
    if (!ord_names_find(&names, dim->text))
      ord_tell(&reader->teller, key,
               "size '%s' does not set dim '%s'; size '%s' sets it (line %u); wanted the same dims in each", key->text,
               dim->text, first->text, dim->line);
  for (const ord_yaml_node *dim = key->value->first; dim; dim = dim->next)
    if (!ord_names_find(first_names, dim->text))
      ord_tell(&reader->teller, dim, "size '%s' does not set dim '%s'; wanted the same dims in each", first->text,
               dim->text);
}

static void check_rows(ord_reader *reader, const ord_yaml_node *sizes) {
  const ord_yaml_node *first = sizes->first;
  const bool has_first = first->value->kind == ORD_YAML_MAP;
  ord_names first_names = {0};
  if (has_first && !list_keys(reader, first->value, &first_names)) return;
  for (const ord_yaml_node *key = first; key; key = key->next) {
    ord_fault fault;
    if (!ord_scalar_label("a size", key->text, &fault)) ord_tell_fault(&reader->teller, key, &fault);
    if (ord_field_is_map(&reader->teller, key->value, key->text, "a mapping of dims to numbers") && has_first)
      compare_rows(reader, key, first, &first_names);
  }
}

/* ---- values --------------------------------------------------------------------------------------------------- */

static void set_fixed(ord_dim *dim, ord_size size, int64_t value) {
  dim->is_known = true;
  dim->size = size;
  dim->min = dim->max = value;
}

static void read_fixed(ord_reader *reader, ord_dim *dim, const ord_yaml_node *value) {
  ord_fault fault;
  ord_size size;
  int64_t number;
  if (value->kind == ORD_YAML_REFUSED) return;
  if (value->kind == ORD_YAML_LIST) {
    ord_tell(&reader->teller, value, "dim '%s': found a list; wanted a number or {min: .., max: ..}", dim->name);
  } else if (value->is_nothing) {
    ord_tell(&reader->teller, value, "dim '%s' is not set; found nothing; wanted %s", dim->name, dim_wanted);
  } else if (!ord_expression_evaluate(&reader->fixed, value->text, &size, &fault)) {
    ord_tell_fault(&reader->teller, value, &fault);
  } else if (ord_size_is_constant(size, &number) && number < 1) {
    ord_tell(&reader->teller, value, "dim '%s' is too small; found %lld; wanted at least 1", dim->name,
             (long long)number);
  } else {
    set_fixed(dim, size, number);
  }
}

static void read_run(ord_reader *reader, ord_dim *dim, const ord_yaml_node *value) {
  static const ord_key key[] = {{"min", "the smallest number it may have"}, {"max", "the largest number it may have"}};
  ord_description *description = reader->description;
  dim->is_run = true;
  if (!ord_field_check_keys(&reader->teller, value, "a run-time dim", key, 2)) return;
  const ord_yaml_node *min = ord_yaml_find(value, "min"), *max = ord_yaml_find(value, "max");
  const bool has_min = ord_field_whole(&reader->teller, &reader->fixed, min, "min", 0, &dim->min);
  const bool has_max = ord_field_whole(&reader->teller, &reader->fixed, max, "max", 1, &dim->max);
  if (!has_min || !has_max) return;
  if (dim->min > dim->max) {
    ord_tell(&reader->teller, min, "dim '%s': min is %lld and max %lld; wanted min no larger than max", dim->name,
             (long long)dim->min, (long long)dim->max);
    return;
  }
  if (description->run_dim_count == ORD_RUN_DIM_MAX) {
    ord_tell(&reader->teller, dim->key, "too many run-time dims; found more than %d; wanted at most %d",
             ORD_RUN_DIM_MAX, ORD_RUN_DIM_MAX);
    return;
  }
  if (ord_size_run_dim(&description->arena, description->run_dim_count, &dim->size) != ORD_SIZE_OK) {
    (void)ord_tell_memory(&reader->teller);
    return;
  }
  dim->run_number = description->run_dim_count++;
  dim->is_known = true;
}

static void read_row(ord_reader *reader, const ord_yaml_node *row) {
  for (const ord_yaml_node *key = row->first; key; key = key->next) {
    ord_dim *dim = ord_names_find(&reader->description->dim_of_name, key->text);
    if (!dim || dim->key != key) continue;
    if (key->value->kind == ORD_YAML_MAP)
      ord_tell(&reader->teller, key->value, "dim '%s': found a mapping; wanted a number: a size sets fixed dims",
               dim->name);
    else
      read_fixed(reader, dim, key->value);
    dim->is_set = true;
  }
}

/* ---- the parts ------------------------------------------------------------------------------------------------ */

/* Registers the dims of `row` and of `dims`, mappings or NULL. */
static void add_dims(ord_reader *reader, const ord_yaml_node *row, bool row_is_set, const ord_yaml_node *dims) {
  ord_description *description = reader->description;
  const size_t most = (row ? row->count : 0) + (dims ? dims->count : 0);
  description->dim = ord_reader_take(reader, most, sizeof *description->dim);
  if (!description->dim) return;
  for (const ord_yaml_node *key = row ? row->first : NULL; key; key = key->next) add_dim(reader, key, row_is_set);
  for (const ord_yaml_node *key = dims ? dims->first : NULL; key; key = key->next) {
    const ord_dim *other = ord_names_find(&description->dim_of_name, key->text);
    if (other)
      ord_tell(&reader->teller, key, "dim '%s' is set by the sizes (line %u) and again here; wanted once", key->text,
               other->key->line);
    else
      add_dim(reader, key, false);
  }
}

/* The dims have the numbers of the chosen row: what another row makes of them is not known. */
typedef struct other_row_scope {
  const ord_expression_scope *dims;
  bool is_open;
} other_row_scope;

static bool find_in_other_row(void *context, const char *name, ord_size *out, ord_fault *fault) {
  other_row_scope *scope = context;
  scope->is_open = true;
  return scope->dims->find(scope->dims->context, name, out, fault);
}

static void check_other_row(ord_reader *reader, const ord_yaml_node *row) {
  other_row_scope context = {&reader->fixed, false};
  ord_expression_scope scope = reader->fixed;
  scope.find = find_in_other_row;
  scope.context = &context;
  scope.is_open = &context.is_open;
  for (const ord_yaml_node *key = row->first; key; key = key->next) {
    const ord_yaml_node *value = key->value;
    if (value->kind != ORD_YAML_SCALAR || value->is_nothing) continue;
    ord_size size;
    (void)ord_field_size(&reader->teller, &scope, value, key->text, 1, &size);
  }
}

static void read_rows(ord_reader *reader, const ord_yaml_node *sizes, const ord_yaml_node *chosen) {
  if (chosen) read_row(reader, chosen);
  for (const ord_yaml_node *key = sizes->first; key; key = key->next)
    if (key->value != chosen && key->value->kind == ORD_YAML_MAP) check_other_row(reader, key->value);
}

static const ord_yaml_node *as_map(const ord_yaml_node *node) {
  return node && node->kind == ORD_YAML_MAP ? node : NULL;
}

void ord_description_read_sizes(ord_reader *reader, const ord_yaml_node *sizes, const ord_yaml_node *dims) {
  ord_description *description = reader->description;
  const char *wanted = reader->options->size;
  const ord_yaml_node *chosen = NULL;
  description->full_name = description->name;
  if (!sizes && wanted)
    ord_tell_at(&reader->teller, 1, 1, "the model has no sizes; found --size %.60s; wanted none", wanted);
  if (sizes && ord_field_is_map(&reader->teller, sizes, "sizes", "a mapping, a row of dims per size")) {
    if (sizes->count) {
      check_rows(reader, sizes);
      chosen = as_map(choose_row(reader, sizes));
    } else {
      ord_tell(&reader->teller, sizes, "sizes: found none; wanted at least one row of dims");
    }
  }
  if (chosen && description->name) {
    description->full_name = ord_arena_format(&description->arena, "%s-%s", description->name, wanted);
    if (!description->full_name) (void)ord_tell_memory(&reader->teller);
  }
  /* Without a choice the names of the first row are known and their values are not, so that the rest can be read. */
  const ord_yaml_node *first = as_map(sizes) && sizes->first ? as_map(sizes->first->value) : NULL;
  description->has_lost_dims = (dims && !as_map(dims)) || (sizes && !first && !chosen);
  add_dims(reader, chosen ? chosen : first, !chosen, as_map(dims));
  if (as_map(sizes)) read_rows(reader, sizes, chosen);
}

void ord_description_write_dims(ord_reader *reader) {
  ord_description *description = reader->description;
  for (uint32_t i = 0; i < description->dim_count; i++) {
    ord_dim *dim = &description->dim[i];
    dim->text = dim->is_run
                    ? ord_arena_format(&description->arena, "%lld..%lld", (long long)dim->min, (long long)dim->max)
                    : ord_arena_format(&description->arena, "%lld", (long long)dim->min);
    if (!dim->text) (void)ord_tell_memory(&reader->teller);
  }
}

void ord_description_read_dims(ord_reader *reader, const ord_yaml_node *dims) {
  if (!ord_field_is_map(&reader->teller, dims, "dims", "a mapping of names to numbers")) return;
  for (const ord_yaml_node *key = dims->first; key; key = key->next) {
    ord_dim *dim = ord_names_find(&reader->description->dim_of_name, key->text);
    if (!dim || dim->key != key) continue;
    if (key->value->kind == ORD_YAML_MAP)
      read_run(reader, dim, key->value);
    else
      read_fixed(reader, dim, key->value);
    dim->is_set = true;
  }
}

bool ord_dim_find(const ord_description *description, const char *name, ord_size *out, ord_fault *fault) {
  ord_dim *dim = ord_names_find(&description->dim_of_name, name);
  if (dim && !dim->is_set)
    return ord_fault_set(fault, 0, "dim '%s' is not set here; it is set below (line %u); wanted a dim from above", name,
                         dim->key->line);
  if (dim) {
    *out = dim->size;
    fault->is_silent = !dim->is_known;
    return dim->is_known;
  }
  if (description->has_lost_dims) {
    fault->is_silent = true;
    return false;
  }
  const char *candidate[100];
  uint32_t count = 0;
  for (; count < description->dim_count && count < sizeof candidate / sizeof *candidate; count++)
    candidate[count] = description->dim[count].name;
  const char *nearest = ord_nearest_name(name, candidate, count);
  return ord_fault_set(fault, 0, "dim '%s' is unknown; %s%s%s", name,
                       nearest ? "did you mean '" : "wanted the name of a dim that is set", nearest ? nearest : "",
                       nearest ? "'?" : "");
}

/* ---- axes ----------------------------------------------------------------------------------------------------- */

/* What `size` is where each of its run-time dims is at its smallest or its largest. */
typedef struct corners {
  int64_t smallest, largest, last; /* last: where all are at their largest, which memory is planned for */
} corners;

enum { SEARCHED_DIM_MAX = 6 }; /* more are not worth the search */

/* Do the corners have the extremes? They have where no dim is squared, or nothing but a number is taken away. Of more
 * dims than are searched only sizes in which nothing is taken away are sound. Nothing checks a size again. */
static bool can_be_judged(ord_size size) {
  bool takes = false, falls = false, is_squared = false;
  uint32_t dims = 0;
  for (uint32_t i = 0; i < size.term_count; i++) {
    const ord_size_term *term = &size.term[i];
    takes |= term->factor < 0;
    for (uint32_t d = 0; d < ORD_RUN_DIM_MAX; d++) {
      if (term->power[d] == 0) continue;
      dims |= 1u << d;
      falls |= term->factor < 0;
      is_squared |= term->power[d] > 1;
    }
  }
  return __builtin_popcount(dims) > SEARCHED_DIM_MAX ? !takes : !(falls && is_squared);
}

/* Of a size that can be judged; where it has too many dims to be searched, 0. */
static corners find_corners(const ord_description *description, ord_size size) {
  const ord_dim *dim[SEARCHED_DIM_MAX];
  uint32_t count = 0;
  for (uint32_t i = 0; i < description->dim_count; i++) {
    bool occurs = false;
    for (uint32_t term = 0; description->dim[i].is_run && term < size.term_count; term++)
      occurs |= size.term[term].power[description->dim[i].run_number] > 0;
    if (!occurs) continue;
    if (count == SEARCHED_DIM_MAX) return (corners){0, 0, 0};
    dim[count++] = &description->dim[i];
  }
  corners found = {INT64_MAX, INT64_MIN, INT64_MAX};
  for (uint32_t corner = 0; corner < 1u << count; corner++) {
    int64_t run_dim[ORD_RUN_DIM_MAX] = {0};
    for (uint32_t i = 0; i < count; i++) run_dim[dim[i]->run_number] = corner >> i & 1 ? dim[i]->max : dim[i]->min;
    if (!ord_size_evaluate(size, run_dim, &found.last)) found.last = INT64_MAX;
    if (found.last < found.smallest) found.smallest = found.last;
    if (found.last > found.largest) found.largest = found.last;
  }
  return found;
}

bool ord_axis_read(ord_teller *teller, const ord_expression_scope *scope, const ord_description *description,
                   const ord_yaml_node *axis, ord_size *out) {
  if (!ord_field_size(teller, scope, axis, "shape", 0, out)) return false;
  if (!can_be_judged(*out)) {
    ord_tell(teller, axis,
             "shape: '%.60s' may be larger or smaller between its ends; wanted one that takes away no "
             "run-time dims where a dim is squared, and nothing where it has more than %d",
             axis->text, (int)SEARCHED_DIM_MAX);
    return false;
  }
  const corners found = find_corners(description, *out);
  if (found.smallest >= 0 && found.last == found.largest) return true;
  if (found.smallest < 0)
    ord_tell(teller, axis, "shape: '%.60s' can become %lld; wanted 0 or more in every run", axis->text,
             (long long)found.smallest);
  else
    ord_tell(teller, axis,
             "shape: '%.60s' is %lld where its run-time dims are largest, but can become %lld; wanted one "
             "that does not shrink as they grow",
             axis->text, (long long)found.last, (long long)found.largest);
  return false;
}
