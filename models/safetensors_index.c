/* SPDX-License-Identifier: MIT
 *
 * The index of a model in several safetensors files (shards): a JSON text that says in which one each tensor lies. All
 * shards must be there and whole, and hold what the index says, before anything is read from any.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/weight_format.h"
#include "runtime/text.h"

#define INDEX_LIMIT ((uint64_t)128 << 20) /* bytes */

/* The index while it is read. `shards` holds the number of each shard among file->disk by its name. */
typedef struct index_reader {
  ord_weight_file *file;
  json_t *root, *shards;
  const json_t *map;
  ord_error *err;
} index_reader;

static bool read_text(index_reader *reader) {
  ord_weight_file *file = reader->file;
  if (!ord_weight_file_add_disk(file, file->path, reader->err)) return false;
  const ord_weight_disk disk = file->disk[--file->disk_count]; /* holds no tensors: closed again here */
  char *text = NULL;
  bool done =
      disk.bytes <= INDEX_LIMIT ||
      ord_fail(reader->err, ORD_INVALID, "%s: too large for an index; found %" PRIu64 " bytes; wanted at most %" PRIu64,
               file->path, disk.bytes, INDEX_LIMIT);
  if (done) {
    text = malloc((size_t)disk.bytes + 1);
    done = text ? ord_weight_disk_read(&disk, 0, (size_t)disk.bytes, text, reader->err)
                : ord_fail_memory(reader->err, "reading a shard index");
  }
  if (done) {
    json_error_t fault;
    reader->root = json_loadb(text, (size_t)disk.bytes, JSON_REJECT_DUPLICATES, &fault);
    const enum json_error_code code = json_error_code(&fault);
    if (!reader->root && (code == json_error_unknown || code == json_error_out_of_memory))
      done = ord_fail_memory(reader->err, "reading a shard index");
    else if (!reader->root)
      done = ord_fail(reader->err, ORD_INVALID, "%s:%d:%d: not a shard index: %s%s", file->path, fault.line,
                      fault.column, fault.text, code == json_error_duplicate_key ? "" : ord_weight_guess(&disk));
  }
  free(text);
  close(disk.descriptor);
  return done;
}

/* A shard lies beside its index: a name that leads elsewhere would open any file of the machine. */
static bool check_shard_name(const index_reader *reader, const char *tensor, const char *shard) {
  if (!shard)
    return ord_fail(reader->err, ORD_INVALID, "%s: tensor '%s': no file name; wanted the name of a shard",
                    reader->file->path, tensor);
  if (strchr(shard, '/') || shard[0] == '.' || shard[0] == '\0')
    return ord_fail(reader->err, ORD_INVALID,
                    "%s: tensor '%s': found shard '%s'; wanted the name of a file beside the index", reader->file->path,
                    tensor, shard);
  return true;
}

static bool list_shards(index_reader *reader) {
  reader->map = json_object_get(reader->root, "weight_map");
  if (!json_is_object(reader->map))
    return ord_fail(reader->err, ORD_INVALID, "%s: has no 'weight_map'; wanted the shard of each tensor",
                    reader->file->path);
  reader->shards = json_object();
  if (!reader->shards) return ord_fail_memory(reader->err, "listing shards");
  const char *tensor;
  json_t *value;
  json_object_foreach((json_t *)reader->map, tensor, value) {
    const char *shard = json_string_value(value);
    if (!check_shard_name(reader, tensor, shard)) return false;
    if (json_object_get(reader->shards, shard)) continue;
    const size_t number = json_object_size(reader->shards);
    if (json_object_set_new(reader->shards, shard, json_integer((json_int_t)number)) != 0)
      return ord_fail_memory(reader->err, "listing shards");
  }
  return true;
}

static char *shard_path(index_reader *reader, const char *shard) {
  const char *index = reader->file->path, *slash = strrchr(index, '/');
  return ord_arena_format(&reader->file->arena, "%.*s%s", slash ? (int)(slash + 1 - index) : 0, index, shard);
}

/* All that are missing are told at once, before the first is opened. */
static bool check_shards_exist(index_reader *reader) {
  ord_text missing = {0};
  uint32_t count = 0;
  const char *shard;
  json_t *number;
  bool done = true;
  json_object_foreach(reader->shards, shard, number) {
    const char *path = shard_path(reader, shard);
    if (!path) {
      done = ord_fail_memory(reader->err, "looking for shards");
      break;
    }
    if (access(path, F_OK) == 0) continue;
    if (count < ORD_LIST_MAX) ord_text_add(&missing, "%s%s", count ? ", " : "", shard);
    if (++count == ORD_LIST_MAX + 1) ord_text_add(&missing, ", ..");
  }
  if (done && count)
    done = missing.failed ? ord_fail_memory(reader->err, "looking for shards")
                          : ord_fail(reader->err, ORD_INVALID,
                                     "%s: %u of %zu shards are missing: %s; wanted them beside the index",
                                     reader->file->path, count, json_object_size(reader->shards), missing.bytes);
  ord_text_finish(&missing);
  return done;
}

static bool open_shards(index_reader *reader) {
  const char *shard;
  json_t *number;
  json_object_foreach(reader->shards, shard, number) {
    const char *path = shard_path(reader, shard);
    if (!path) return ord_fail_memory(reader->err, "opening a shard");
    if (!ord_safetensors_add(reader->file, path, reader->err)) return false;
  }
  return ord_weight_file_index(reader->file, reader->err);
}

static bool check_tensors(const index_reader *reader) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)reader->map, name, value) {
    const char *shard = json_string_value(value);
    const json_int_t number = json_integer_value(json_object_get(reader->shards, shard));
    const uint32_t found = ord_weight_file_find_tensor(reader->file, name);
    if (found == ORD_NONE)
      return ord_fail(reader->err, ORD_INVALID, "%s: tensor '%s' is in no shard; wanted it in '%s'", reader->file->path,
                      name, shard);
    const uint32_t holder = reader->file->tensor[found].file;
    if (holder != number)
      return ord_fail(reader->err, ORD_INVALID, "%s: tensor '%s': found it in %s; wanted it in '%s'",
                      reader->file->path, name, reader->file->disk[holder].path, shard);
  }
  return true;
}

bool ord_safetensors_index_open(ord_weight_file *file, const ord_description *description, const ord_graph *graph,
                                ord_error *err) {
  (void)description;
  (void)graph;
  index_reader reader = {.file = file, .err = err};
  const bool done = read_text(&reader) && list_shards(&reader) && check_shards_exist(&reader) && open_shards(&reader) &&
                    check_tensors(&reader);
  json_decref(reader.shards);
  json_decref(reader.root);
  return done;
}
