/* SPDX-License-Identifier: MIT
 *
 * tokenizer, generate and embed: how text goes in and comes out.
 */
#include <string.h>

#include "models/description_fields.h"

/* Accepted and checked, but without effect: never in silence. */
static void warn_unread(ord_reader *reader, const ord_yaml_node *node, const char *what) {
  ord_diagnose_warning(reader->teller.list, "unread-key", node->line, node->column,
                       "%s is read by no verb of this version", what);
}

/* ---- tokens --------------------------------------------------------------------------------------------------- */

/* For bytes a token is an expression; else digits are an id, and all other text is the token's text. */
static bool read_token(ord_reader *reader, const ord_yaml_node *node, const char *what, ord_token_name *out) {
  const bool is_bytes = reader->description->tokenizer.kind == ORD_TOKENIZER_BYTES;
  if (!ord_field_is_scalar(&reader->teller, node, what, is_bytes ? "an id" : "a token as text or id")) return false;
  const bool is_id = node->bytes > 0 && strspn(node->text, "0123456789") == node->bytes;
  *out = (ord_token_name){.line = node->line, .column = node->column};
  if (is_bytes || is_id) return ord_field_whole(&reader->teller, &reader->fixed, node, what, 0, &out->id);
  if (reader->description->tokenizer.kind == ORD_TOKENIZER_NONE) {
    ord_tell(&reader->teller, node, "%s: found the text '%.60s', but the model has no tokenizer; wanted an id", what,
             node->text);
    return false;
  }
  if (!node->bytes) ord_tell(&reader->teller, node, "%s: found an empty text; wanted a token as text or id", what);
  out->text = node->text;
  return node->bytes > 0;
}

static void read_tokens(ord_reader *reader, const ord_yaml_node *list, const char *what, const ord_token_name **out,
                        uint32_t *out_count) {
  if (!ord_field_is_list(&reader->teller, list, what, "a list of tokens")) return;
  ord_token_name *token = ord_reader_take(reader, list->count, sizeof *token);
  if (!token) return;
  *out = token;
  for (const ord_yaml_node *node = list->first; node; node = node->next)
    *out_count += read_token(reader, node, what, &token[*out_count]);
}

/* ---- tokenizer ------------------------------------------------------------------------------------------------ */

static const char *const tokenizer_word[] = {"bytes", "file", "gguf", NULL};
static const ord_tokenizer_kind tokenizer_of_word[] = {ORD_TOKENIZER_BYTES, ORD_TOKENIZER_FILE, ORD_TOKENIZER_GGUF};

static bool read_kind(ord_reader *reader, const ord_yaml_node *node) {
  ord_fault fault;
  uint32_t number;
  if (!ord_field_is_scalar(&reader->teller, node, "kind", "bytes, file or gguf")) return false;
  if (!ord_scalar_word("kind", node->text, tokenizer_word, &number, &fault)) {
    ord_tell_fault(&reader->teller, node, &fault);
    return false;
  }
  reader->description->tokenizer.kind = tokenizer_of_word[number];
  if (reader->description->tokenizer.kind != ORD_TOKENIZER_BYTES)
    warn_unread(reader, node, number == 1 ? "a tokenizer of kind file" : "a tokenizer of kind gguf");
  return true;
}

void ord_description_read_tokenizer(ord_reader *reader, const ord_yaml_node *tokenizer) {
  static const ord_key known[] = {
      {"kind", "bytes, file or gguf"}, {"first", NULL}, {"before", NULL}, {"after", NULL}, {"cut", NULL}};
  ord_tokenizer_rules *rules = &reader->description->tokenizer;
  if (!ord_field_is_map(&reader->teller, tokenizer, "tokenizer", "{kind: bytes, file or gguf, ..}")) return;
  (void)ord_field_check_keys(&reader->teller, tokenizer, "tokenizer", known, 5);
  const ord_yaml_node *kind = ord_yaml_find(tokenizer, "kind"), *first = ord_yaml_find(tokenizer, "first"),
                      *before = ord_yaml_find(tokenizer, "before"), *after = ord_yaml_find(tokenizer, "after"),
                      *cut = ord_yaml_find(tokenizer, "cut");
  /* Without a kind nothing says how the tokens are written. */
  if (!kind || !read_kind(reader, kind)) return;
  if (first && rules->kind != ORD_TOKENIZER_BYTES)
    ord_tell(&reader->teller, first, "first: found it with kind %s; wanted it with kind bytes only", kind->text);
  else if (first)
    (void)ord_field_whole(&reader->teller, &reader->fixed, first, "first", 0, &rules->first);
  if (before) read_tokens(reader, before, "before", &rules->before, &rules->before_count);
  if (after) read_tokens(reader, after, "after", &rules->after, &rules->after_count);
  if (cut) (void)ord_field_whole(&reader->teller, &reader->fixed, cut, "cut", 1, &rules->cut);
}

/* ---- generate ------------------------------------------------------------------------------------------------- */

static void check_chat_part(ord_reader *reader, const ord_yaml_node *node, const char *what) {
  static const char wanted[] = "a list of two texts: what stands before and what stands after";
  if (!node || !ord_field_is_list(&reader->teller, node, what, wanted)) return;
  if (node->count != 2) {
    ord_tell(&reader->teller, node, "%s: found %u texts; wanted two: what stands before and what stands after", what,
             node->count);
    return;
  }
  if (ord_field_is_scalar(&reader->teller, node->first, what, "a text"))
    (void)ord_field_is_scalar(&reader->teller, node->first->next, what, "a text");
}

static void check_chat(ord_reader *reader, const ord_yaml_node *chat) {
  static const char wanted[] = "[before, after]";
  static const ord_key known[] = {{"system", wanted}, {"user", wanted}, {"assistant", wanted}, {"opening", NULL}};
  if (!ord_field_is_map(&reader->teller, chat, "chat", "a mapping with system, user and assistant")) return;
  (void)ord_field_check_keys(&reader->teller, chat, "chat", known, 4);
  check_chat_part(reader, ord_yaml_find(chat, "system"), "system");
  check_chat_part(reader, ord_yaml_find(chat, "user"), "user");
  check_chat_part(reader, ord_yaml_find(chat, "assistant"), "assistant");
  const ord_yaml_node *opening = ord_yaml_find(chat, "opening");
  if (opening) (void)ord_field_is_scalar(&reader->teller, opening, "opening", "a text");
  warn_unread(reader, chat, opening ? "chat, with its opening," : "chat");
}

static bool has_token_input(const ord_description *description) {
  for (uint32_t i = 0; i < description->input_count; i++)
    if (description->input[i].fill == ORD_FILL_TOKENS || !description->input[i].is_known) return true;
  return description->input_count == 0;
}

void ord_description_read_generate(ord_reader *reader, const ord_yaml_node *generate) {
  static const ord_key known[] = {{"logits", "an output [batch, vocab]"}, {"stop", NULL}, {"chat", NULL}};
  ord_description *description = reader->description;
  ord_generate_rules *rules = &description->generate;
  if (!ord_field_is_map(&reader->teller, generate, "generate", "{logits: .., stop: [..]}")) return;
  (void)ord_field_check_keys(&reader->teller, generate, "generate", known, 3);
  rules->is_given = true;
  const ord_yaml_node *logits = ord_yaml_find(generate, "logits"), *stop = ord_yaml_find(generate, "stop"),
                      *chat = ord_yaml_find(generate, "chat");
  if (logits && ord_field_is_scalar(&reader->teller, logits, "logits", "the name of an output [batch, vocab]")) {
    rules->logits = logits->text;
    description->generate_logits = logits;
  }
  if (stop)
    read_tokens(reader, stop, "stop", &rules->stop, &rules->stop_count);
  else
    ord_diagnose_warning(
        reader->teller.list, "no-stop", generate->line, generate->column,
        "generate has no stop; found no token that ends a text; wanted stop: [..], or stop: [] if there "
        "is none");
  if (chat) check_chat(reader, chat);
  if (!has_token_input(description))
    ord_tell(&reader->teller, generate, "generate: found no input with fill: tokens; wanted one to feed the tokens to");
}

/* ---- embed ---------------------------------------------------------------------------------------------------- */

void ord_description_read_embed(ord_reader *reader, const ord_yaml_node *embed) {
  static const ord_key known[] = {{"vector", "an output [batch, width]"}};
  if (!ord_field_is_map(&reader->teller, embed, "embed", "{vector: ..}")) return;
  (void)ord_field_check_keys(&reader->teller, embed, "embed", known, 1);
  const ord_yaml_node *vector = ord_yaml_find(embed, "vector");
  if (vector && ord_field_is_scalar(&reader->teller, vector, "vector", "the name of an output [batch, width]"))
    reader->description->embed_vector = vector;
  warn_unread(reader, embed, "embed");
}
