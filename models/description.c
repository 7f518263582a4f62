/* SPDX-License-Identifier: MIT
 *
 * A description as an object, and the reading of its top level: the parts in the order in which they build upon each
 * other, whatever their order in the file.
 */
#include <stdlib.h>
#include <string.h>

#include "models/description_fields.h"

/* ---- the small parts ------------------------------------------------------------------------------------------ */

static void read_name(ord_reader *reader, const ord_yaml_node *node) {
  ord_fault fault;
  if (!ord_field_is_scalar(&reader->teller, node, "name", "the name of the model")) return;
  if (ord_scalar_label("a model", node->text, &fault))
    reader->description->name = node->text;
  else
    ord_tell_fault(&reader->teller, node, &fault);
}

static void read_about(ord_reader *reader, const ord_yaml_node *node) {
  if (!ord_field_is_scalar(&reader->teller, node, "about", "one line of text")) return;
  const char *line_end = strchr(node->text, '\n');
  if (line_end && line_end[1]) ord_tell(&reader->teller, node, "about: found several lines; wanted one");
  reader->description->about = ord_arena_text_n(&reader->description->arena, node->text,
                                                line_end ? (size_t)(line_end - node->text) : node->bytes);
  if (!reader->description->about) (void)ord_tell_memory(&reader->teller);
}

static void read_graph(ord_reader *reader, const ord_yaml_node *node) {
  if (!ord_field_is_list(&reader->teller, node, "graph", "a list of items")) return;
  if (!node->count) ord_tell(&reader->teller, node, "graph: found no items; wanted at least one");
  reader->description->graph = node;
}

static void read_outputs(ord_reader *reader, const ord_yaml_node *node) {
  if (!ord_field_is_list(&reader->teller, node, "outputs", "a list of value names")) return;
  if (!node->count) ord_tell(&reader->teller, node, "outputs: found none; wanted at least one");
  reader->description->outputs = node;
}

/* False where another version makes all else meaningless. */
static bool check_version(ord_reader *reader, const ord_yaml_node *node) {
  if (!node) return true; /* told as a missing key */
  if (!ord_field_is_scalar(&reader->teller, node, "ordito", "1, the version of the format")) return true;
  if (strcmp(node->text, "1") == 0) return true;
  ord_tell(&reader->teller, node, "ordito: found '%.60s'; wanted 1, the version of the format", node->text);
  return false;
}

/* ---- the top level -------------------------------------------------------------------------------------------- */

/* In the order in which they are read; those without a reader are read by hand. */
static const struct {
  ord_key key;
  void (*read)(ord_reader *reader, const ord_yaml_node *node);
} part[] = {
    {{"ordito", "1, the version of the format"}, NULL},
    {{"name", "the name of the model"}, NULL},
    {{"about", NULL}, read_about},
    {{"sizes", NULL}, NULL},
    {{"dims", NULL}, ord_description_read_dims},
    {{"inputs", "a mapping of names to {dtype: .., shape: [..]}"}, ord_description_read_inputs},
    {{"weights", NULL}, ord_description_read_weights},
    {{"checkpoint", NULL}, ord_description_read_checkpoint},
    {{"caches", NULL}, ord_description_read_caches},
    {{"blocks", NULL}, ord_description_read_blocks},
    {{"graph", "a list of items"}, read_graph},
    {{"outputs", "a list of value names"}, read_outputs},
    {{"tokenizer", NULL}, ord_description_read_tokenizer},
    {{"generate", NULL}, ord_description_read_generate},
    {{"embed", NULL}, ord_description_read_embed},
};
enum { PART_COUNT = sizeof part / sizeof *part };

void *ord_reader_take(ord_reader *reader, size_t count, size_t element_bytes) {
  void *taken = ord_arena_take(&reader->description->arena, count, element_bytes);
  if (!taken) (void)ord_tell_memory(&reader->teller);
  return taken;
}

static bool find_dim(void *context, const char *name, ord_size *out, ord_fault *fault) {
  ord_reader *reader = context;
  ord_dim *dim = ord_names_find(&reader->description->dim_of_name, name);
  if (dim) dim->is_used = true;
  return ord_dim_find(reader->description, name, out, fault);
}

static void check_names_of_inputs(ord_reader *reader) {
  const ord_description *description = reader->description;
  for (uint32_t i = 0; i < description->input_count; i++) {
    const ord_input *input = &description->input[i];
    int64_t value[ORD_HOLE_MAX];
    const ord_family *second, *weight = ord_families_find(&description->weights, input->name, value, &second);
    const ord_block *block = ord_names_find(&description->block_of_name, input->name);
    if (weight || block)
      ord_tell(&reader->teller, input->key, "input '%s' has the name of a %s (line %u); wanted another name",
               input->name, weight ? "weight" : "block", weight ? weight->key->line : block->key->line);
  }
}

static void read_parts(ord_reader *reader, const ord_yaml_node *root) {
  if (!ord_field_is_map(&reader->teller, root, "a model", "a mapping that begins with ordito: 1")) return;
  if (!check_version(reader, ord_yaml_find(root, "ordito"))) return;
  ord_key key[PART_COUNT];
  for (uint32_t i = 0; i < PART_COUNT; i++) key[i] = part[i].key;
  (void)ord_field_check_keys(&reader->teller, root, "a model", key, PART_COUNT);
  const ord_yaml_node *name = ord_yaml_find(root, "name");
  if (name) read_name(reader, name);
  ord_description_read_sizes(reader, ord_yaml_find(root, "sizes"), ord_yaml_find(root, "dims"));
  reader->description->has_lost_names = !ord_yaml_find(root, "inputs");
  for (uint32_t i = 0; i < PART_COUNT; i++) {
    const ord_yaml_node *node = part[i].read ? ord_yaml_find(root, part[i].key.name) : NULL;
    if (node) part[i].read(reader, node);
  }
  check_names_of_inputs(reader);
  ord_description_write_dims(reader);
  /* The faults of the graph are told together with those of the other parts. */
  if (reader->teller.list->error_count && !reader->is_hopeless)
    ord_graph_check(reader->description, reader->teller.list);
}

static void read_text(ord_description *description, const char *text, size_t bytes,
                      const ord_description_options *options, ord_diagnostics *list) {
  ord_yaml_read(text, bytes, options->byte_limit ? options->byte_limit : ORD_YAML_BYTE_LIMIT, &description->arena, list,
                &description->root);
  if (!description->root) return;
  description->item_limit = options->item_limit ? options->item_limit : ORD_ITEM_LIMIT;
  description->context = options->context > 0 ? options->context : 0;
  ord_reader reader = {
      .description = description, .options = options, .teller = {.list = list, .path = "", .calls = ""}};
  reader.fixed = (ord_expression_scope){.find = find_dim, .context = &reader, .arena = &description->arena};
  reader.any = reader.fixed;
  reader.any.allows_run = true;
  read_parts(&reader, description->root);
}

bool ord_description_read(const char *file, const char *text, size_t bytes, const ord_description_options *options,
                          ord_diagnostics *list, ord_description **out) {
  static const ord_description_options none = {.size = NULL};
  *out = NULL;
  ord_diagnostics_source(list, file, text, bytes);
  ord_description *description = calloc(1, sizeof *description);
  if (!description) {
    list->out_of_memory = true;
    return false;
  }
  read_text(description, text, bytes, options ? options : &none, list);
  ord_diagnostics_sort(list);
  if (list->error_count || list->out_of_memory) {
    ord_description_destroy(description);
    return false;
  }
  *out = description;
  return true;
}

void ord_description_destroy(ord_description *description) {
  if (!description) return;
  ord_arena_finish(&description->arena);
  free(description);
}

/* ---- what others ask ------------------------------------------------------------------------------------------ */

const char *ord_description_name(const ord_description *description) { return description->name; }

const char *ord_description_full_name(const ord_description *description) { return description->full_name; }

const char *ord_description_about(const ord_description *description) { return description->about; }

const ord_tokenizer_rules *ord_description_tokenizer(const ord_description *description) {
  return &description->tokenizer;
}

const ord_generate_rules *ord_description_generate(const ord_description *description) {
  return &description->generate;
}

const char *ord_description_dim(const ord_description *description, uint32_t index, const char **out_value) {
  if (index >= description->dim_count) return NULL;
  const ord_dim *dim = &description->dim[index];
  *out_value = dim->text;
  return dim->name;
}
