/* SPDX-License-Identifier: MIT
 *
 * The event loop. Depth and nodes are counted here, event by event, so that hostile text costs no more than its bytes:
 * libyaml's document loader, which recurses and follows aliases, is never used.
 */
#include <assert.h>
#include <string.h>
#include <yaml.h>

#include "models/names.h"
#include "models/yaml.h"

/* A list or map that is open. */
typedef struct open_node {
  ord_yaml_node *node;
  ord_yaml_node *last;   /* entry or key */
  ord_yaml_node *key;    /* of a map: read, waits for its value */
  bool drops_key;        /* the key was refused; its pair is not kept */
  bool is_dropped;       /* lies inside such a pair, which was told once */
  ord_names key_of_name; /* of a map: the keys so far */
} open_node;

typedef struct yaml_reader {
  ord_arena *arena;
  ord_diagnostics *list;
  const char *text;
  size_t bytes;
  ord_yaml_node *root;
  open_node open[ORD_YAML_DEPTH_LIMIT];
  uint32_t depth, node_count, document_count;
  bool has_ended;
} yaml_reader;

static uint32_t one_based(size_t number) { return number < UINT32_MAX ? (uint32_t)number + 1 : UINT32_MAX; }

static bool fail_memory(yaml_reader *reader) {
  reader->list->out_of_memory = true;
  return false;
}

static uint32_t count_characters(const char *text, size_t bytes) {
  uint32_t count = 0;
  for (const char *at = text, *end = text + bytes; at < end; at += ord_yaml_character(at, end)) count++;
  return count;
}

static void read_scalar(ord_yaml_node *node, const yaml_event_t *event) {
  const bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
  const bool is_quoted = event->data.scalar.style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
                         event->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
  const size_t width = event->end_mark.column - event->start_mark.column;
  node->is_nothing = is_plain && node->bytes == 0;
  node->is_verbatim = (is_plain || is_quoted) && event->start_mark.line == event->end_mark.line &&
                      width == count_characters(node->text, node->bytes) + (is_quoted ? 2u : 0u);
  node->text_column = node->column + (is_quoted ? 1 : 0);
}

static ord_yaml_node *make_node(yaml_reader *reader, const yaml_event_t *event, ord_yaml_kind kind) {
  if (reader->node_count++ == ORD_YAML_NODE_LIMIT) {
    ord_diagnose(reader->list, one_based(event->start_mark.line), one_based(event->start_mark.column),
                 "the file holds too much; found more than %d YAML nodes; wanted fewer", ORD_YAML_NODE_LIMIT);
    return NULL;
  }
  ord_yaml_node *node = ord_arena_take(reader->arena, 1, sizeof *node);
  if (!node) {
    reader->list->out_of_memory = true;
    return NULL;
  }
  node->kind = kind;
  node->line = one_based(event->start_mark.line);
  node->column = one_based(event->start_mark.column);
  node->text = "";
  return node;
}

/* Only "\0" in double quotes brings a NUL this far. */
static bool holds_nul(yaml_reader *reader, const yaml_event_t *event) {
  if (!memchr(event->data.scalar.value, 0, event->data.scalar.length)) return false;
  ord_diagnose(reader->list, one_based(event->start_mark.line), one_based(event->start_mark.column),
               "a text holds the character NUL; found \\0; wanted text");
  return true;
}

static const char anchor_words[] = "&; wanted a block under blocks:";

static void refuse_anchor(yaml_reader *reader, const yaml_event_t *event, const char *found_and_wanted) {
  ord_diagnose(reader->list, one_based(event->start_mark.line), one_based(event->start_mark.column),
               "anchors and aliases are not part of the format; found %s", found_and_wanted);
}

static void refuse_tag(yaml_reader *reader, const yaml_mark_t *mark, const char *found) {
  static const char standard[] = "tag:yaml.org,2002:";
  const bool is_standard = strncmp(found, standard, strlen(standard)) == 0;
  ord_diagnose(reader->list, one_based(mark->line), one_based(mark->column),
               "tags are not part of the format; found %s%s; wanted the value alone", is_standard ? "!!" : "",
               is_standard ? found + strlen(standard) : found);
}

/* False if the key's fault was told and its pair is dropped. */
static bool accept_key(yaml_reader *reader, const open_node *map, const ord_yaml_node *key) {
  if (key->kind == ORD_YAML_REFUSED || map->is_dropped) return false;
  if (key->kind != ORD_YAML_SCALAR || key->bytes == 0) {
    const char *found = key->kind == ORD_YAML_MAP ? "a mapping" : key->kind == ORD_YAML_LIST ? "a list" : "nothing";
    ord_diagnose(reader->list, key->line, key->column, "a key is a word; found %s; wanted a word before the ':'",
                 found);
    return false;
  }
  if (strcmp(key->text, "<<") == 0) {
    ord_diagnose(reader->list, key->line, key->column,
                 "merge keys are not part of the format; found <<; wanted a block under blocks:");
    return false;
  }
  const ord_yaml_node *first = ord_names_find(&map->key_of_name, key->text);
  if (!first) return true;
  ord_diagnose(reader->list, key->line, key->column, "key '%.200s' is written twice; first at line %u; wanted once",
               key->text, first->line);
  return false;
}

static bool attach_to_map(yaml_reader *reader, open_node *map, ord_yaml_node *node) {
  if (!map->key) {
    map->key = node;
    map->drops_key = !accept_key(reader, map, node);
    return map->drops_key || ord_names_put(&map->key_of_name, reader->arena, node->text, node) || fail_memory(reader);
  }
  ord_yaml_node *key = map->key;
  map->key = NULL;
  if (map->drops_key) return true;
  key->value = node;
  if (map->last)
    map->last->next = key;
  else
    map->node->first = key;
  map->last = key;
  map->node->count++;
  return true;
}

static bool attach(yaml_reader *reader, ord_yaml_node *node) {
  if (reader->depth == 0) {
    reader->root = node;
    return true;
  }
  open_node *parent = &reader->open[reader->depth - 1];
  assert(parent->node);
  if (parent->node->kind == ORD_YAML_MAP) return attach_to_map(reader, parent, node);
  if (parent->last)
    parent->last->next = node;
  else
    parent->node->first = node;
  parent->last = node;
  parent->node->count++;
  return true;
}

static bool add_scalar(yaml_reader *reader, const yaml_event_t *event) {
  const bool is_refused = holds_nul(reader, event);
  ord_yaml_node *node = make_node(reader, event, is_refused ? ORD_YAML_REFUSED : ORD_YAML_SCALAR);
  if (!node) return false;
  if (event->data.scalar.anchor) refuse_anchor(reader, event, anchor_words);
  if (event->data.scalar.tag) refuse_tag(reader, &event->start_mark, (const char *)event->data.scalar.tag);
  if (!is_refused) {
    node->bytes = event->data.scalar.length;
    node->text = ord_arena_text_n(reader->arena, (const char *)event->data.scalar.value, node->bytes);
    if (!node->text) return fail_memory(reader);
    read_scalar(node, event);
  }
  return attach(reader, node);
}

static bool add_alias(yaml_reader *reader, const yaml_event_t *event) {
  refuse_anchor(reader, event, "*; wanted a block under blocks:, or quotes around a text that begins with *");
  ord_yaml_node *node = make_node(reader, event, ORD_YAML_REFUSED);
  return node && attach(reader, node);
}

static bool open_collection(yaml_reader *reader, const yaml_event_t *event, ord_yaml_kind kind, const char *anchor,
                            const char *tag) {
  ord_yaml_node *node = make_node(reader, event, kind);
  if (!node) return false;
  if (anchor) refuse_anchor(reader, event, anchor_words);
  if (tag) refuse_tag(reader, &event->start_mark, tag);
  if (!attach(reader, node)) return false;
  const open_node *parent = reader->depth ? &reader->open[reader->depth - 1] : NULL;
  const bool is_dropped = parent && (parent->is_dropped || parent->drops_key);
  if (reader->depth == ORD_YAML_DEPTH_LIMIT) {
    ord_diagnose(reader->list, node->line, node->column, "nested too deep; found %d levels; wanted at most %d",
                 ORD_YAML_DEPTH_LIMIT + 1, ORD_YAML_DEPTH_LIMIT);
    return false;
  }
  reader->open[reader->depth++] = (open_node){.node = node, .is_dropped = is_dropped};
  return true;
}

static bool begin_document(yaml_reader *reader, const yaml_event_t *event) {
  if (reader->document_count++ > 0) {
    ord_diagnose(reader->list, one_based(event->start_mark.line), one_based(event->start_mark.column),
                 "a file is one document; found a second one; wanted the end of the file");
    return false;
  }
  const yaml_tag_directive_t *tag = event->data.document_start.tag_directives.start;
  if (tag != event->data.document_start.tag_directives.end) refuse_tag(reader, &event->start_mark, "%TAG");
  return true;
}

/* False where reading stops: at a limit, a second document, or out of memory. */
static bool take_event(yaml_reader *reader, const yaml_event_t *event) {
  switch (event->type) {
  case YAML_DOCUMENT_START_EVENT:
    return begin_document(reader, event);
  case YAML_SCALAR_EVENT:
    return add_scalar(reader, event);
  case YAML_ALIAS_EVENT:
    return add_alias(reader, event);
  case YAML_SEQUENCE_START_EVENT:
    return open_collection(reader, event, ORD_YAML_LIST, (const char *)event->data.sequence_start.anchor,
                           (const char *)event->data.sequence_start.tag);
  case YAML_MAPPING_START_EVENT:
    return open_collection(reader, event, ORD_YAML_MAP, (const char *)event->data.mapping_start.anchor,
                           (const char *)event->data.mapping_start.tag);
  case YAML_SEQUENCE_END_EVENT:
  case YAML_MAPPING_END_EVENT:
    reader->depth--;
    return true;
  case YAML_STREAM_END_EVENT:
    reader->has_ended = true;
    return true;
  default:
    return true;
  }
}

static void tell_parser_error(yaml_reader *reader, const yaml_parser_t *parser) {
  if (parser->error == YAML_MEMORY_ERROR) {
    reader->list->out_of_memory = true;
    return;
  }
  ord_yaml_stop stop = {.problem = parser->problem ? parser->problem : "",
                        .line = one_based(parser->problem_mark.line),
                        .column = one_based(parser->problem_mark.column)};
  if (parser->context) {
    stop.begin_line = one_based(parser->context_mark.line);
    stop.begin_column = one_based(parser->context_mark.column);
  }
  ord_yaml_tell_syntax(reader->text, reader->bytes, &stop, reader->list);
}

static bool read_events(yaml_reader *reader, yaml_parser_t *parser) {
  while (!reader->has_ended) {
    yaml_event_t event;
    if (!yaml_parser_parse(parser, &event)) {
      tell_parser_error(reader, parser);
      return false;
    }
    const bool goes_on = take_event(reader, &event);
    yaml_event_delete(&event);
    if (!goes_on) return false;
  }
  return true;
}

void ord_yaml_read(const char *text, size_t bytes, size_t byte_limit, ord_arena *arena, ord_diagnostics *list,
                   const ord_yaml_node **out) {
  *out = NULL;
  if (!ord_yaml_check_text(text, bytes, byte_limit, list)) return;
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) {
    list->out_of_memory = true;
    return;
  }
  yaml_reader reader = {.arena = arena, .list = list, .text = text, .bytes = bytes};
  const size_t mark_bytes = ord_yaml_mark_bytes(text, bytes);
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text + mark_bytes, bytes - mark_bytes);
  const bool is_whole = read_events(&reader, &parser);
  yaml_parser_delete(&parser);
  if (!is_whole) return;
  if (!reader.root)
    ord_diagnose(list, 1, 1,
                 "the file is empty; found no text; wanted ordito: 1, a model, or ordito_run: 1, a run configuration");
  *out = reader.root;
}
