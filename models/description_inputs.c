/* SPDX-License-Identifier: MIT
 *
 * inputs: dtype, shape and fill of each, and the rules that hold between them.
 */
#include <math.h>
#include <string.h>

#include "models/description_fields.h"

static const char *const dtype_word[] = {"f32", "f16", "bf16", "i32", "bool", NULL};
static const ord_dtype dtype_of_word[] = {ORD_F32, ORD_F16, ORD_BF16, ORD_I32, ORD_BOOL};

/* What a word of `fill` asks of its input. */
static const char *const fill_word[] = {"tokens", "positions", "lengths", NULL};
static const struct {
  ord_fill fill;
  uint32_t rank;
  const char *wanted;
} fill_rule[] = {{ORD_FILL_TOKENS, 2, "i32 [batch, seq]"},
                 {ORD_FILL_POSITIONS, 2, "i32 [batch, seq]"},
                 {ORD_FILL_LENGTHS, 1, "i32 [batch]"}};

static bool check_input_name(ord_reader *reader, const ord_yaml_node *key) {
  ord_fault fault;
  if (!ord_scalar_name("an input", key->text, &fault)) {
    ord_tell_fault(&reader->teller, key, &fault);
    return false;
  }
  const ord_dim *dim = ord_names_find(&reader->description->dim_of_name, key->text);
  if (dim)
    ord_tell(&reader->teller, key, "'%s' is a dim (line %u) and an input; wanted another name", key->text,
             dim->key->line);
  return !dim;
}

static bool read_dtype(ord_reader *reader, const ord_yaml_node *node, ord_dtype *out) {
  ord_fault fault;
  uint32_t number;
  if (!ord_field_is_scalar(&reader->teller, node, "dtype", "f32, f16, bf16, i32 or bool")) return false;
  if (!ord_scalar_word("dtype", node->text, dtype_word, &number, &fault)) {
    ord_tell_fault(&reader->teller, node, &fault);
    return false;
  }
  *out = dtype_of_word[number];
  return true;
}

/* Notes which run-time dim stands alone in this axis: there its value is read. */
static void note_alone(ord_reader *reader, const ord_yaml_node *axis) {
  ord_dim *dim = ord_names_find(&reader->description->dim_of_name, axis->text);
  if (dim && dim->is_run) dim->stands_alone = true;
}

/* The largest the axes together can be; false if that is too much to count. */
static bool count_is_sound(const ord_description *description, const ord_input *input) {
  int64_t most[ORD_RUN_DIM_MAX] = {0}, count = 1;
  for (uint32_t i = 0; i < description->dim_count; i++)
    if (description->dim[i].is_run && description->dim[i].is_known)
      most[description->dim[i].run_number] = description->dim[i].max;
  for (uint32_t axis = 0; axis < input->rank; axis++) {
    int64_t size;
    if (!ord_size_evaluate(input->dim[axis], most, &size)) return false;
    if (__builtin_mul_overflow(count, size, &count) || count >= ORD_SIZE_LIMIT) return false;
  }
  return true;
}

static bool read_shape(ord_reader *reader, const ord_yaml_node *node, ord_input *input) {
  if (!ord_field_is_list(&reader->teller, node, "shape", "a list of axes, [] for a single number")) return false;
  bool is_good = true;
  for (const ord_yaml_node *axis = node->first; axis; axis = axis->next) {
    if (input->rank == ORD_RANK_MAX) {
      ord_tell(&reader->teller, node, "shape: found %u axes; wanted at most %d", node->count, ORD_RANK_MAX);
      return false;
    }
    if (axis->kind == ORD_YAML_SCALAR) note_alone(reader, axis);
    is_good &= ord_axis_read(&reader->teller, &reader->any, reader->description, axis, &input->dim[input->rank++]);
  }
  if (!is_good || count_is_sound(reader->description, input)) return is_good;
  ord_tell(&reader->teller, node, "shape: the input holds too many numbers; found 2^40 or more; wanted fewer");
  return false;
}

static bool read_fill_number(ord_reader *reader, const ord_yaml_node *node, ord_input *input) {
  ord_fault fault;
  if (!ord_scalar_number("fill", node->text, &input->fill_number, &fault)) {
    const char first = node->text[0];
    const bool is_word = (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z');
    uint32_t number;
    if (is_word && ord_scalar_word("fill", node->text, fill_word, &number, &fault)) return true;
    ord_tell_fault(&reader->teller, node, &fault);
    return false;
  }
  input->fill = ORD_FILL_NUMBER;
  const bool is_whole = input->fill_number == floor(input->fill_number) && fabs(input->fill_number) <= INT32_MAX;
  const bool is_bit = input->fill_number == 0 || input->fill_number == 1;
  if (input->dtype != ORD_I32 && input->dtype != ORD_BOOL) return true;
  if (input->dtype == ORD_BOOL ? is_bit : is_whole) return true;
  ord_tell(&reader->teller, node, "fill: found '%.60s'; wanted %s", node->text,
           input->dtype == ORD_BOOL ? "0 or 1 for a bool" : "a whole number of 32 bits for an i32");
  return false;
}

static bool read_fill(ord_reader *reader, const ord_yaml_node *node, ord_input *input, bool is_whole) {
  if (!ord_field_is_scalar(&reader->teller, node, "fill", "tokens, positions, lengths or a number")) return false;
  uint32_t number = 0;
  while (fill_word[number] && strcmp(fill_word[number], node->text) != 0) number++;
  if (!fill_word[number]) return read_fill_number(reader, node, input);
  input->fill = fill_rule[number].fill;
  /* Of an input whose shape or dtype failed nothing more can be said. */
  if (!is_whole || (input->dtype == ORD_I32 && input->rank == fill_rule[number].rank)) return true;
  ord_tell(&reader->teller, node, "fill: %s is for %s; found %s with %u axes; wanted dtype i32 and %u axes", node->text,
           fill_rule[number].wanted, ord_dtype_name(input->dtype), input->rank, fill_rule[number].rank);
  return false;
}

static void read_input(ord_reader *reader, const ord_yaml_node *key, ord_input *input) {
  static const ord_key known[] = {
      {"dtype", "f32, f16, bf16, i32 or bool"}, {"shape", "a list of axes, [] for a single number"}, {"fill", NULL}};
  const ord_yaml_node *map = key->value;
  *input = (ord_input){.name = key->text, .key = key, .dtype = ORD_F32};
  if (!check_input_name(reader, key)) return;
  if (!ord_field_is_map(&reader->teller, map, key->text, "{dtype: .., shape: [..]}")) return;
  bool is_good = ord_field_check_keys(&reader->teller, map, "an input", known, 3);
  const ord_yaml_node *dtype = ord_yaml_find(map, "dtype"), *shape = ord_yaml_find(map, "shape"),
                      *fill = ord_yaml_find(map, "fill");
  is_good &= dtype && read_dtype(reader, dtype, &input->dtype);
  is_good &= shape && read_shape(reader, shape, input);
  if (fill) is_good &= read_fill(reader, fill, input, is_good);
  input->is_known = is_good;
}

/* The first input with this fill, NULL if there is none; a second one is a fault. */
static const ord_input *find_filled(ord_reader *reader, ord_fill fill, const char *word) {
  const ord_input *found = NULL;
  for (uint32_t i = 0; i < reader->description->input_count; i++) {
    const ord_input *input = &reader->description->input[i];
    if (input->fill != fill) continue;
    if (found && fill != ORD_FILL_POSITIONS)
      ord_tell(&reader->teller, input->key, "a second input with fill: %s; first '%s' at line %u; wanted one", word,
               found->name, found->key->line);
    if (!found) found = input;
  }
  return found;
}

/* Both fills speak of the same rows, and positions of the same tokens. */
static void check_axes(ord_reader *reader, const ord_input *tokens, ord_fill fill, uint32_t axes) {
  for (uint32_t i = 0; i < reader->description->input_count; i++) {
    const ord_input *input = &reader->description->input[i];
    if (input->fill != fill || !input->is_known) continue;
    for (uint32_t axis = 0; axis < axes; axis++) {
      if (ord_size_equal(input->dim[axis], tokens->dim[axis])) continue;
      ord_tell(&reader->teller, input->key,
               "input '%s' has another %s axis than the tokens ('%s', line %u); wanted the same", input->name,
               axis ? "token" : "batch", tokens->name, tokens->key->line);
      break;
    }
  }
}

/* --context bounds the token axis where it is a run-time dim. */
static void bound_token_axis(ord_reader *reader, const ord_input *tokens) {
  ord_description *description = reader->description;
  for (uint32_t i = 0; description->context && i < description->dim_count; i++) {
    ord_dim *dim = &description->dim[i];
    if (!dim->is_run || !dim->is_known || !ord_size_equal(dim->size, tokens->dim[1])) continue;
    if (dim->min > description->context)
      ord_tell(&reader->teller, dim->key, "--context %lld is too small; the token axis '%s' is at least %lld",
               (long long)description->context, dim->name, (long long)dim->min);
    else if (dim->max > description->context)
      dim->max = description->context;
  }
}

static void check_run_dims(ord_reader *reader) {
  for (uint32_t i = 0; i < reader->description->dim_count; i++) {
    const ord_dim *dim = &reader->description->dim[i];
    if (dim->is_run && dim->is_known && !dim->stands_alone)
      ord_tell(&reader->teller, dim->key,
               "run-time dim '%s' is not an axis of any input; found no input to read it from; wanted one with an axis "
               "that is '%s' alone",
               dim->name, dim->name);
  }
}

void ord_description_read_inputs(ord_reader *reader, const ord_yaml_node *inputs) {
  ord_description *description = reader->description;
  description->has_lost_names = true;
  if (!ord_field_is_map(&reader->teller, inputs, "inputs", "a mapping of names to {dtype: .., shape: [..]}")) return;
  if (!inputs->count) ord_tell(&reader->teller, inputs, "inputs: found none; wanted at least one");
  description->has_lost_names = !inputs->count;
  description->input = ord_reader_take(reader, inputs->count, sizeof *description->input);
  if (!description->input) return;
  for (const ord_yaml_node *key = inputs->first; key; key = key->next) {
    ord_input *input = &description->input[description->input_count++];
    read_input(reader, key, input);
    if (!ord_names_put(&description->input_of_name, &description->arena, key->text, input))
      (void)ord_tell_memory(&reader->teller);
  }
  check_run_dims(reader);
  const ord_input *tokens = find_filled(reader, ORD_FILL_TOKENS, "tokens");
  (void)find_filled(reader, ORD_FILL_LENGTHS, "lengths");
  if (!tokens || !tokens->is_known) return;
  check_axes(reader, tokens, ORD_FILL_POSITIONS, 2);
  check_axes(reader, tokens, ORD_FILL_LENGTHS, 1);
  bound_token_axis(reader, tokens);
}
