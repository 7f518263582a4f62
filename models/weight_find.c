/* SPDX-License-Identifier: MIT
 *
 * Where weights lie: the one weight file of a folder, and the folders in which a model's weights are looked for. A
 * folder that holds none is passed over (it may hold notes alone); one that holds two is an error, since guessing
 * would load the wrong one without a word.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/weight_format.h"
#include "runtime/text.h"

#define FOLDERS_VARIABLE "ORDITO_MODELS"
#define WANTED_IN_FOLDER "model.safetensors, model.safetensors.index.json or *.bin"

/* A leading '*' is any text. GGUF is among them to be refused by its name. */
static const char *const weight_names[] = {"model.safetensors", "model.safetensors.index.json", "*.gguf", "*.bin"};

static bool is_weight_name(const char *name) {
  const size_t length = strlen(name);
  for (size_t i = 0; i < sizeof weight_names / sizeof *weight_names; i++) {
    const char *wanted = weight_names[i];
    if (*wanted != '*') {
      if (strcmp(name, wanted) == 0) return true;
      continue;
    }
    const size_t ending = strlen(wanted + 1);
    if (length > ending && strcmp(name + length - ending, wanted + 1) == 0) return true;
  }
  return false;
}

/* What a folder holds: the names, as far as a message lists them, weight files apart from the rest. */
typedef struct folder_content {
  char *first; /* path of the first weight file */
  ord_text weights, others;
  uint32_t weight_count, other_count;
} folder_content;

static void content_finish(folder_content *content) {
  free(content->first);
  ord_text_finish(&content->weights);
  ord_text_finish(&content->others);
}

static void add_name(ord_text *list, uint32_t *count, const char *name) {
  if (*count < ORD_LIST_MAX) ord_text_add(list, "%s%s", *count ? ", " : "", name);
  if (++*count == ORD_LIST_MAX + 1) ord_text_add(list, ", ..");
}

static bool content_read(const char *folder, folder_content *content, ord_error *err) {
  struct dirent **entry;
  const int count = scandir(folder, &entry, NULL, alphasort);
  if (count < 0) return ord_fail(err, ord_status_of_errno(errno), "%s: cannot be listed: %s", folder, strerror(errno));
  ord_text path = {0};
  for (int i = 0; i < count; i++) {
    const char *name = entry[i]->d_name;
    if (is_weight_name(name)) {
      if (content->weight_count == 0) ord_text_add(&path, "%s/%s", folder, name);
      add_name(&content->weights, &content->weight_count, name);
    } else if (name[0] != '.') {
      add_name(&content->others, &content->other_count, name);
    }
    free(entry[i]);
  }
  free(entry);
  content->first = path.bytes;
  return !(path.failed || content->weights.failed || content->others.failed) ||
         ord_fail_memory(err, "listing a folder");
}

/* The one weight file of `folder` to *out; *out stays NULL if there is none, then `content` says what is. */
static bool choose_in_folder(const char *folder, folder_content *content, char **out, ord_error *err) {
  if (!content_read(folder, content, err)) return false;
  if (content->weight_count > 1)
    return ord_fail(err, ORD_INVALID,
                    "%s: holds %u weight files: %s; wanted exactly one, or the file itself as --weights", folder,
                    content->weight_count, content->weights.bytes);
  *out = content->first;
  content->first = NULL;
  return true;
}

bool ord_weight_file_choose(const char *path, char **out, ord_error *err) {
  *out = NULL;
  struct stat status;
  if (stat(path, &status) != 0)
    return ord_fail(err, ord_status_of_errno(errno), "%s: cannot be opened: %s", path, strerror(errno));
  if (!S_ISDIR(status.st_mode)) {
    *out = strdup(path);
    return *out || ord_fail_memory(err, "naming a weight file");
  }
  folder_content content = {0};
  bool done = choose_in_folder(path, &content, out, err);
  if (done && !*out)
    done = ord_fail(err, ORD_INVALID, "%s: holds no weight file; found %s; wanted " WANTED_IN_FOLDER, path,
                    content.other_count ? content.others.bytes : "nothing");
  content_finish(&content);
  return done;
}

/* One search: the places looked at, for the message, and what was found. */
typedef struct search {
  const char *model_name, *full_name;
  ord_text looked;
  char *found;
} search;

/* Looks into `parent`/`name`. False only on an error; search->found tells whether to go on. */
static bool look_into(search *state, const char *parent, size_t parent_bytes, const char *name, ord_error *err) {
  ord_text folder = {0};
  ord_text_add(&folder, "%.*s/%s", (int)parent_bytes, parent, name);
  if (folder.failed) return ord_fail_memory(err, "looking for weights");
  struct stat status;
  bool done = true;
  const char *separator = state->looked.length ? ", " : "";
  if (stat(folder.bytes, &status) != 0 || !S_ISDIR(status.st_mode)) {
    ord_text_add(&state->looked, "%s%s (no such folder)", separator, folder.bytes);
  } else {
    folder_content content = {0};
    done = choose_in_folder(folder.bytes, &content, &state->found, err);
    if (done && !state->found)
      ord_text_add(&state->looked, "%s%s (holds %s)", separator, folder.bytes,
                   content.other_count ? content.others.bytes : "nothing");
    content_finish(&content);
  }
  ord_text_finish(&folder);
  return done;
}

static bool look_in_parent(search *state, const char *parent, size_t parent_bytes, ord_error *err) {
  if (!look_into(state, parent, parent_bytes, state->full_name, err)) return false;
  if (state->found || strcmp(state->full_name, state->model_name) == 0) return true;
  return look_into(state, parent, parent_bytes, state->model_name, err);
}

static bool look_everywhere(search *state, const char *model_file, ord_error *err) {
  if (model_file) {
    const char *slash = strrchr(model_file, '/');
    const bool looked = slash ? look_in_parent(state, model_file, (size_t)(slash - model_file), err)
                              : look_in_parent(state, ".", 1, err);
    if (!looked) return false;
  }
  const char *folders = getenv(FOLDERS_VARIABLE);
  for (const char *at = folders; at && *at && !state->found;) {
    const size_t bytes = strcspn(at, ":");
    if (bytes && !look_in_parent(state, at, bytes, err)) return false;
    at += bytes + (at[bytes] == ':');
  }
  return true;
}

bool ord_weight_file_find(const char *given, const char *model_file, const ord_description *description,
                          char **out_path, ord_error *err) {
  *out_path = NULL;
  if (given) return ord_weight_file_choose(given, out_path, err);
  search state = {.model_name = ord_description_name(description), .full_name = ord_description_full_name(description)};
  /* A name comes from a file that a stranger may have written: it must not lead out of the folders. */
  if (strchr(state.full_name, '/') || state.full_name[0] == '.')
    return ord_fail(err, ORD_INVALID, "model name '%s' cannot be a folder's; wanted --weights", state.full_name);
  bool done = look_everywhere(&state, model_file, err);
  if (done && !state.found)
    done = state.looked.failed
               ? ord_fail_memory(err, "looking for weights")
               : ord_fail(err, ORD_INVALID,
                          "no weights for model '%s'; looked in %s; wanted a folder with " WANTED_IN_FOLDER
                          ", or --weights PATH, or " FOLDERS_VARIABLE
                          " set to a folder of such folders, or --random-weights SEED",
                          state.full_name, state.looked.length ? state.looked.bytes : "no folder");
  ord_text_finish(&state.looked);
  *out_path = state.found;
  return done;
}
