/* SPDX-License-Identifier: MIT
 *
 * Reading a run configuration, key by key from one table.
 */
#include "models/run_config.h"

#include <string.h>

#include "models/field.h"
#include "runtime/choose.h"
#include "runtime/device.h"
#include "runtime/text.h"

typedef struct run_reader {
  ord_run_rules *rules;
  ord_teller teller;
  ord_expression_scope scope; /* no names */
  const char *file;
} run_reader;

static bool find_no_name(void *context, const char *name, ord_size *out, ord_fault *fault) {
  (void)context, (void)out;
  return ord_fault_set(fault, 0, "'%.60s' is no number; a run configuration has no dims", name);
}

/* ---- words and numbers ---------------------------------------------------------------------------------------- */

/* Which of `word` (ended by NULL) the node says; false after a fault. */
static bool read_word(run_reader *reader, const ord_yaml_node *node, const char *field, const char *const *word,
                      uint32_t *out) {
  ord_fault fault;
  char list[100];
  if (!ord_field_is_scalar(&reader->teller, node, field, ord_join_words(word, " or ", list, sizeof list))) return false;
  if (ord_scalar_word(field, node->text, word, out, &fault)) return true;
  ord_tell_fault(&reader->teller, node, &fault);
  return false;
}

static void read_device(run_reader *reader, const ord_yaml_node *node) {
  static const char *const word[] = {"cpu", "cuda", NULL};
  uint32_t which;
  if (read_word(reader, node, "device", word, &which)) reader->rules->device = word[which];
}

static void read_cpu(run_reader *reader, const ord_yaml_node *node) {
  uint32_t which;
  if (read_word(reader, node, "cpu", ord_cpu_levels, &which)) reader->rules->cpu = ord_cpu_levels[which];
}

static void read_compute(run_reader *reader, const ord_yaml_node *node) {
  const char *const *word = ord_compute_names(true); /* which of them the device has shows with the session */
  uint32_t which;
  if (read_word(reader, node, "compute", word, &which)) reader->rules->compute = ord_compute_find(word[which]);
}

static void read_kv_cache(run_reader *reader, const ord_yaml_node *node) {
  static const char *const word[] = {"f32", "bf16", NULL};
  uint32_t which;
  if (read_word(reader, node, "kv_cache", word, &which)) reader->rules->kv_cache = ord_dtype_find(word[which]);
}

static void read_capture(run_reader *reader, const ord_yaml_node *node) {
  static const char *const word[] = {"require", "prefer", "off", NULL}; /* in the order of ord_capture_policy */
  uint32_t which;
  if (!read_word(reader, node, "capture", word, &which)) return;
  reader->rules->has_capture = true;
  reader->rules->capture = which;
}

static void read_fallback(run_reader *reader, const ord_yaml_node *node) {
  static const char *const word[] = {"allow", "deny", NULL};
  uint32_t which;
  if (!read_word(reader, node, "fallback", word, &which)) return;
  reader->rules->has_fallback = true;
  reader->rules->denies_fallback = which == 1;
}

static void read_threads(run_reader *reader, const ord_yaml_node *node) {
  int64_t threads;
  if (!ord_field_whole(&reader->teller, &reader->scope, node, "threads", 0, &threads)) return;
  if (threads > ORD_THREADS_MAX) {
    ord_tell(&reader->teller, node, "threads: found %lld; wanted at most %d", (long long)threads, ORD_THREADS_MAX);
    return;
  }
  reader->rules->has_threads = true;
  reader->rules->threads = threads;
}

static void read_context(run_reader *reader, const ord_yaml_node *node) {
  (void)ord_field_whole(&reader->teller, &reader->scope, node, "context", 1, &reader->rules->context);
}

/* ---- plugins and kernels -------------------------------------------------------------------------------------- */

/* A path as the file means it: one that is not absolute counts from the file's folder. */
static const char *resolve_path(run_reader *reader, const char *path) {
  const char *slash = strrchr(reader->file, '/');
  if (*path == '/' || !slash) return ord_arena_text(&reader->rules->arena, path);
  return ord_arena_format(&reader->rules->arena, "%.*s%s", (int)(slash + 1 - reader->file), reader->file, path);
}

static void read_plugins(run_reader *reader, const ord_yaml_node *node) {
  ord_run_rules *rules = reader->rules;
  if (!ord_field_is_list(&reader->teller, node, "plugins", "a list of files")) return;
  rules->plugin = ord_arena_take(&rules->arena, (size_t)node->count + 1, sizeof *rules->plugin);
  if (!rules->plugin) {
    (void)ord_tell_memory(&reader->teller);
    return;
  }
  for (const ord_yaml_node *entry = node->first; entry; entry = entry->next) {
    if (!ord_field_is_scalar(&reader->teller, entry, "plugins", "the path of a file")) continue;
    if (!*entry->text) {
      ord_tell(&reader->teller, entry, "plugins: found ''; wanted the path of a file");
      continue;
    }
    const char *path = resolve_path(reader, entry->text);
    if (path)
      rules->plugin[rules->plugin_count++] = path;
    else
      (void)ord_tell_memory(&reader->teller);
  }
}

/* What a kernel is called shows when plans are made; how a pin is written shows here. */
static void read_kernel(run_reader *reader, const ord_yaml_node *key) {
  static const char *const wanted = "KERNEL or KERNEL@PLUGIN";
  ord_run_rules *rules = reader->rules;
  ord_error err = ORD_ERROR_INIT;
  ord_pin parsed;
  if (!ord_field_is_scalar(&reader->teller, key->value, key->text, wanted)) return;
  if (strchr(key->text, '=')) {
    ord_tell(&reader->teller, key, "kernels: found the key '%.60s'; wanted an op or a layer path", key->text);
    return;
  }
  const char *pin = ord_arena_format(&rules->arena, "%s=%s", key->text, key->value->text);
  if (pin && ord_pin_parse(&rules->arena, pin, &parsed, &err))
    rules->pin[rules->pin_count++] = pin;
  else if (!pin || err.code == ORD_NO_MEMORY)
    (void)ord_tell_memory(&reader->teller);
  else
    ord_tell(&reader->teller, key->value, "%s: found '%.60s'; wanted %s", key->text, key->value->text, wanted);
}

static void read_kernels(run_reader *reader, const ord_yaml_node *node) {
  ord_run_rules *rules = reader->rules;
  if (!ord_field_is_map(&reader->teller, node, "kernels", "a mapping of ops or layer paths to kernels")) return;
  rules->pin = ord_arena_take(&rules->arena, (size_t)node->count + 1, sizeof *rules->pin);
  if (!rules->pin) {
    (void)ord_tell_memory(&reader->teller);
    return;
  }
  for (const ord_yaml_node *key = node->first; key; key = key->next) read_kernel(reader, key);
}

/* ---- the file ------------------------------------------------------------------------------------------------- */

static void read_version(run_reader *reader, const ord_yaml_node *node) {
  static const char *const word[] = {"1", NULL};
  uint32_t which;
  (void)read_word(reader, node, "ordito_run", word, &which);
}

static const struct {
  ord_key key;
  void (*read)(run_reader *reader, const ord_yaml_node *node);
} part[] = {
    {{"ordito_run", "1, the version of run configurations"}, read_version},
    {{"device", NULL}, read_device},
    {{"cpu", NULL}, read_cpu},
    {{"threads", NULL}, read_threads},
    {{"plugins", NULL}, read_plugins},
    {{"kernels", NULL}, read_kernels},
    {{"fallback", NULL}, read_fallback},
    {{"capture", NULL}, read_capture},
    {{"context", NULL}, read_context},
    {{"compute", NULL}, read_compute},
    {{"kv_cache", NULL}, read_kv_cache},
};
enum { PART_COUNT = sizeof part / sizeof *part };

static void read_parts(run_reader *reader, const ord_yaml_node *root) {
  ord_key key[PART_COUNT];
  if (!ord_field_is_map(&reader->teller, root, "a run configuration", "a mapping that begins with ordito_run: 1"))
    return;
  for (uint32_t i = 0; i < PART_COUNT; i++) key[i] = part[i].key;
  (void)ord_field_check_keys(&reader->teller, root, "a run configuration", key, PART_COUNT);
  for (uint32_t i = 0; i < PART_COUNT; i++) {
    const ord_yaml_node *node = ord_yaml_find(root, part[i].key.name);
    if (node) part[i].read(reader, node);
  }
}

bool ord_run_rules_read(const char *file, const char *text, size_t bytes, ord_diagnostics *list, ord_run_rules *out) {
  *out = (ord_run_rules){0};
  run_reader reader = {.rules = out,
                       .teller = {.list = list, .path = "", .calls = ""},
                       .scope = {.find = find_no_name, .arena = &out->arena},
                       .file = file};
  const ord_yaml_node *root;
  ord_diagnostics_source(list, file, text, bytes);
  ord_yaml_read(text, bytes, ORD_YAML_BYTE_LIMIT, &out->arena, list, &root);
  if (root) read_parts(&reader, root);
  ord_diagnostics_sort(list);
  return list->error_count == 0 && !list->out_of_memory;
}

void ord_run_rules_finish(ord_run_rules *rules) { ord_arena_finish(&rules->arena); }
