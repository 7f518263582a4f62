/* SPDX-License-Identifier: MIT
 *
 * Kernel choice. Every kernel of the node's op is a contender: it is asked, its answer is checked like any input, and
 * the best of those that serve wins. All reasons are kept, for the one question that users ask later: why not mine?
 */
#include "runtime/choose.h"

#include <stdio.h>

typedef struct {
  const ord_plugin_entry *plugin;
  const ord_kernel *kernel;
  bool is_asked; /* false: a pin selects another */
  bool serves;
  ord_answer answer; /* its `reason` is filled if it does not serve */
} contender;

typedef struct {
  const ord_chooser *chooser;
  const ord_node *node;
  const ord_pin *pin;
  contender *entry;
  uint32_t count;
} kernel_contest;

/* ---- pins ---- */

bool ord_pin_parse(ord_arena *arena, const char *text, ord_pin *out, ord_error *err) {
  const char *equals = strchr(text, '=');
  const char *kernel = equals ? equals + 1 : "";
  const char *at = strchr(kernel, '@');
  if (!equals || equals == text || !*kernel || at == kernel || (at && !at[1]))
    return ord_fail(err, ORD_INVALID,
                    "kernel pin '%s' is not understood; wanted SELECTOR=KERNEL or "
                    "SELECTOR=KERNEL@PLUGIN, where SELECTOR is an op or a layer path with * and ?",
                    text);
  const ord_pin pin = {.selector = ord_arena_text_n(arena, text, (size_t)(equals - text)),
                       .kernel = ord_arena_text_n(arena, kernel, at ? (size_t)(at - kernel) : strlen(kernel)),
                       .plugin = at ? ord_arena_text(arena, at + 1) : NULL};
  if (!pin.selector || !pin.kernel || (at && !pin.plugin)) return ord_fail_memory(err, "reading a kernel pin");
  *out = pin;
  return true;
}

void ord_pin_tell(const ord_pin *pin, ord_text *text) {
  ord_text_add(text, "%s=%s", pin->selector, pin->kernel);
  if (pin->plugin) ord_text_add(text, "@%s", pin->plugin);
}

/* `*` stands for any text, `?` for one character. On a mismatch the last star takes one character more. */
static bool matches_glob(const char *glob, const char *text) {
  const char *star = NULL, *resume = NULL;
  while (*text) {
    if (*glob == '*') {
      star = glob++;
      resume = text;
    } else if (*glob == '?' || *glob == *text) {
      glob++;
      text++;
    } else if (star) {
      glob = star + 1;
      text = ++resume;
    } else {
      return false;
    }
  }
  while (*glob == '*') glob++;
  return !*glob;
}

bool ord_pin_matches(const ord_pin *pin, const char *op, const char *const *path, uint32_t path_count) {
  if (strcmp(pin->selector, op) == 0) return true;
  for (uint32_t i = 0; i < path_count; i++)
    if (matches_glob(pin->selector, path[i])) return true;
  return false;
}

bool ord_pin_selects(const ord_chooser *chooser, uint32_t index, const char *op, const char *const *path,
                     uint32_t path_count) {
  const bool counts = !chooser->refusal || !chooser->refusal[index];
  return counts && ord_pin_matches(&chooser->pin[index], op, path, path_count);
}

static const ord_pin *find_pin(const ord_chooser *chooser, const char *op, const char *const *path,
                               uint32_t path_count) {
  for (uint32_t i = chooser->pin_count; i-- > 0;)
    if (ord_pin_selects(chooser, i, op, path, path_count)) return &chooser->pin[i];
  return NULL;
}

static bool is_pinned(const ord_pin *pin, const contender *entry) {
  return strcmp(pin->kernel, entry->kernel->name) == 0 &&
         (!pin->plugin || strcmp(pin->plugin, entry->plugin->manifest->name) == 0);
}

/* ---- asking ---- */

static bool refuse(ord_answer *answer, const char *format, ...) ORD_PRINTF(2, 3);
static bool refuse(ord_answer *answer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(answer->reason, sizeof answer->reason, format, arguments);
  va_end(arguments);
  return false;
}

static bool check_packs(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  for (uint32_t i = 0; i < node->operand_count; i++) {
    if (!answer->pack[i].key) continue;
    if (node->operand[i].role != ORD_WEIGHT)
      return refuse(answer, "wants operand %u packed, which is no weight (a fault of the plugin)", i);
    if (!answer->pack[i].bytes || !kernel->pack)
      return refuse(answer, "wants operand %u packed but %s (a fault of the plugin)", i,
                    kernel->pack ? "into 0 bytes" : "has no pack function");
  }
  return true;
}

/* What a kernel that says yes must have filled. */
static bool check_answer(const ord_kernel *kernel, const ord_node *node, const ord_pack *pack, ord_answer *answer) {
  if (answer->pack != pack) return refuse(answer, "moved the host's pack array (a fault of the plugin)");
  if (!answer->phase_count || answer->phase_count > ORD_PHASE_MAX)
    return refuse(answer, "answered with %u phases; wanted 1 to %u (a fault of the plugin)", answer->phase_count,
                  ORD_PHASE_MAX);
  const bool has_chunks = node->device->kind == ORD_DEVICE_CPU;
  for (uint32_t phase = 0; has_chunks && phase < answer->phase_count; phase++)
    if (!answer->chunk_limit[phase])
      return refuse(answer, "answered with 0 chunks in phase %u; wanted at least 1 (a fault of the plugin)", phase);
  if (answer->epilogue_served > node->epilogue_count)
    return refuse(answer, "would fuse %u epilogue items of %u (a fault of the plugin)", answer->epilogue_served,
                  node->epilogue_count);
  if (node->operand_count < 32 && answer->alias_mask >> node->operand_count)
    return refuse(answer,
                  "would overwrite an operand that does not exist, mask 0x%x of %u operands (a fault of the "
                  "plugin)",
                  answer->alias_mask, node->operand_count);
  return check_packs(kernel, node, answer);
}

static bool is_for(const ord_kernel *kernel, const ord_device_info *device) {
  return (kernel->device ? kernel->device : ORD_DEVICE_CPU) == device->kind;
}

static const char *device_kind_name(uint32_t kind) { return kind == ORD_DEVICE_CUDA ? "cuda" : "cpu"; }

/* `pack` has a zeroed entry for each operand. */
static bool ask(const ord_kernel *kernel, const ord_node *node, ord_pack *pack, ord_answer *answer) {
  *answer = (ord_answer){.struct_size = sizeof *answer, .epilogue_served = node->epilogue_count, .pack = pack};
  if (!is_for(kernel, node->device))
    return refuse(answer, "is for another device: found %s; wanted %s", device_kind_name(kernel->device),
                  device_kind_name(node->device->kind));
  const ord_status status = kernel->query(kernel, node, answer);
  answer->variant[sizeof answer->variant - 1] = '\0';
  answer->reason[sizeof answer->reason - 1] = '\0';
  if (status == ORD_OK) return check_answer(kernel, node, pack, answer);
  if (!*answer->reason && status == ORD_NO) return refuse(answer, "refused without a reason (a fault of the plugin)");
  if (!*answer->reason)
    return refuse(answer, "failed without a reason, status %d (a fault of the plugin)", (int)status);
  return false;
}

/* Of the kernels for other devices only those that the pin means, so that their refusal is told. */
static void list_contenders(const kernel_contest *contest, contender *entry, uint32_t *count) {
  const ord_chooser *chooser = contest->chooser;
  *count = 0;
  for (uint32_t p = 0; p < ord_registry_count(chooser->registry); p++) {
    const ord_plugin_entry *plugin = ord_registry_get(chooser->registry, p);
    for (uint32_t k = 0; k < plugin->plugin->kernel_count; k++) {
      const ord_kernel *kernel = plugin->plugin->kernel[k];
      const contender found = {.plugin = plugin, .kernel = kernel};
      if (strcmp(kernel->op, contest->node->op) != 0) continue;
      if (!is_for(kernel, contest->node->device) && !(contest->pin && is_pinned(contest->pin, &found))) continue;
      if (entry) entry[*count] = found;
      ++*count;
    }
  }
}

/* Asks all contenders that the pin allows. False when out of memory. */
static bool hold(kernel_contest *contest, const char *const *path, uint32_t path_count, ord_arena *arena) {
  const ord_node *node = contest->node;
  contest->pin = find_pin(contest->chooser, node->op, path, path_count);
  list_contenders(contest, NULL, &contest->count);
  contest->entry = ord_arena_take(arena, contest->count, sizeof *contest->entry);
  if (!contest->entry) return false;
  list_contenders(contest, contest->entry, &contest->count);
  for (uint32_t i = 0; i < contest->count; i++) {
    contender *entry = &contest->entry[i];
    entry->is_asked = !contest->pin || is_pinned(contest->pin, entry);
    if (!entry->is_asked) continue;
    ord_pack *pack = ord_arena_take(arena, node->operand_count, sizeof *pack);
    if (!pack) return false;
    entry->serves = ask(entry->kernel, node, pack, &entry->answer);
  }
  return true;
}

/* ---- deciding ---- */

static bool fuses_all(const kernel_contest *contest, const contender *entry) {
  return entry->answer.epilogue_served == contest->node->epilogue_count;
}

/* Both serve. Contenders stand in the order of loading, so that the earlier one stays where nothing else decides. */
static bool is_better(const kernel_contest *contest, const contender *a, const contender *b) {
  if (a->plugin->is_reference != b->plugin->is_reference) return b->plugin->is_reference;
  if (fuses_all(contest, a) != fuses_all(contest, b)) return fuses_all(contest, a);
  if (a->kernel->priority != b->kernel->priority) return a->kernel->priority > b->kernel->priority;
  return strcmp(a->kernel->name, b->kernel->name) < 0;
}

static const contender *find_winner(const kernel_contest *contest) {
  const contender *best = NULL;
  for (uint32_t i = 0; i < contest->count; i++) {
    const contender *entry = &contest->entry[i];
    if (entry->serves && (!best || is_better(contest, entry, best))) best = entry;
  }
  return best;
}

/* Why `entry` lost to `winner`; text in `arena`, NULL when out of memory. */
static const char *explain_loss(const kernel_contest *contest, const contender *entry, const contender *winner,
                                ord_arena *arena) {
  const char *best = winner->kernel->name;
  if (!entry->is_asked)
    return ord_arena_format(arena, "the pin %s=%s selects another kernel", contest->pin->selector,
                            contest->pin->kernel);
  if (!entry->serves) return ord_arena_text(arena, entry->answer.reason);
  if (entry->plugin->is_reference) return ord_arena_text(arena, "the reference serves what no other kernel does");
  if (!fuses_all(contest, entry) && fuses_all(contest, winner))
    return ord_arena_format(arena, "would fuse %u of %u epilogue items, %s all", entry->answer.epilogue_served,
                            contest->node->epilogue_count, best);
  if (entry->kernel->priority != winner->kernel->priority)
    return ord_arena_format(arena, "priority %d is below %d of %s", entry->kernel->priority, winner->kernel->priority,
                            best);
  if (strcmp(entry->kernel->name, best) != 0)
    return ord_arena_format(arena, "same priority as %s, whose name comes first", best);
  return ord_arena_format(arena, "same name and priority as that of plugin %s, which was loaded first",
                          winner->plugin->manifest->name);
}

static bool fill_choice(const kernel_contest *contest, const contender *winner, ord_arena *arena, ord_choice *out,
                        ord_error *err) {
  ord_verdict *verdict = ord_arena_take(arena, contest->count, sizeof *verdict);
  ord_pack *pack = ord_arena_copy(arena, winner->answer.pack, contest->node->operand_count, sizeof *pack);
  if (!verdict || !pack) return ord_fail_memory(err, "choosing a kernel");
  verdict[0] = (ord_verdict){winner->plugin, winner->kernel, NULL};
  uint32_t filled = 1;
  for (uint32_t i = 0; i < contest->count; i++) {
    const contender *entry = &contest->entry[i];
    if (entry == winner) continue;
    const char *reason = explain_loss(contest, entry, winner, arena);
    if (!reason) return ord_fail_memory(err, "choosing a kernel");
    verdict[filled++] = (ord_verdict){entry->plugin, entry->kernel, reason};
  }
  *out = (ord_choice){.plugin = winner->plugin,
                      .kernel = winner->kernel,
                      .answer = winner->answer,
                      .pin = contest->pin,
                      .verdict = verdict,
                      .verdict_count = contest->count};
  out->answer.pack = pack;
  return true;
}

/* ---- failing ---- */

static void list_plugins(const ord_chooser *chooser, ord_text *text) {
  const uint32_t count = ord_registry_count(chooser->registry);
  if (!count) ord_text_add(text, "none");
  for (uint32_t i = 0; i < count; i++)
    ord_text_add(text, "%s%s", i ? ", " : "", ord_registry_get(chooser->registry, i)->manifest->name);
}

static void tell_unknown_pin(const kernel_contest *contest, ord_text *text) {
  ord_text_add(text, "pin ");
  ord_pin_tell(contest->pin, text);
  ord_text_add(text, ": no such kernel of op '%s'; ", contest->node->op);
  ord_text_add(text, contest->count ? "wanted one of " : "there is no kernel of this op; plugins: ");
  for (uint32_t i = 0; i < contest->count; i++)
    ord_text_add(text, "%s%s@%s", i ? ", " : "", contest->entry[i].kernel->name,
                 contest->entry[i].plugin->manifest->name);
  if (!contest->count) list_plugins(contest->chooser, text);
}

static void tell_reasons(const kernel_contest *contest, ord_text *text) {
  for (uint32_t i = 0; i < contest->count; i++) {
    const contender *entry = &contest->entry[i];
    if (!entry->is_asked || entry->serves) continue;
    ord_text_add(text, "; %s@%s: %s", entry->kernel->name, entry->plugin->manifest->name, entry->answer.reason);
  }
}

/* No contender may win: says why. `has_reference`: the reference would serve, but the policy denies it. */
static bool fail_choice(const kernel_contest *contest, bool has_reference, ord_choice *out, ord_error *err) {
  ord_text text = {0};
  bool any_asked = false;
  for (uint32_t i = 0; i < contest->count; i++) any_asked |= contest->entry[i].is_asked;
  *out = (ord_choice){.pin = any_asked ? contest->pin : NULL};
  if (contest->pin && !any_asked) {
    tell_unknown_pin(contest, &text);
  } else if (contest->pin) {
    ord_text_add(&text, "the pinned kernel does not serve this op");
    tell_reasons(contest, &text);
  } else if (!contest->count) {
    ord_text_add(&text, "no plugin has a kernel of op '%s'%s; plugins: ", contest->node->op,
                 contest->node->device->kind == ORD_DEVICE_CUDA ? " for cuda" : "");
    list_plugins(contest->chooser, &text);
  } else {
    ord_text_add(&text,
                 has_reference ? "only the reference serves this op '%s', and falling to it is denied"
                               : "no kernel serves this op '%s'",
                 contest->node->op);
    tell_reasons(contest, &text);
  }
  if (text.failed)
    ord_fail_memory(err, "telling why no kernel serves");
  else
    ord_fail(err, ORD_UNSUPPORTED, "%s: %s", contest->node->label ? contest->node->label : contest->node->op,
             text.bytes);
  ord_text_finish(&text);
  return false;
}

bool ord_choose(const ord_chooser *chooser, const ord_node *node, const char *const *path, uint32_t path_count,
                ord_arena *arena, ord_choice *out, ord_error *err) {
  kernel_contest contest = {.chooser = chooser, .node = node};
  ord_arena scratch = {0};
  bool is_chosen;
  if (!hold(&contest, path, path_count, &scratch)) {
    is_chosen = ord_fail_memory(err, "choosing a kernel");
  } else {
    const contender *winner = find_winner(&contest);
    const bool is_denied = winner && winner->plugin->is_reference && chooser->deny_fallback && !contest.pin;
    is_chosen = winner && !is_denied ? fill_choice(&contest, winner, arena, out, err)
                                     : fail_choice(&contest, is_denied, out, err);
  }
  ord_arena_finish(&scratch);
  return is_chosen;
}
