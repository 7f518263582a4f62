/* SPDX-License-Identifier: MIT
 *
 * Kernel choice: which kernel of which plugin computes a node, and why the others do not. A pinned kernel wins or the
 * choice fails with its reason; otherwise priority decides, then the name. The reference serves what nobody else
 * does, unless the policy denies it. Pure; a chooser does not change while it chooses.
 */
#ifndef ORDITO_RUNTIME_CHOOSE_H
#define ORDITO_RUNTIME_CHOOSE_H

#include "runtime/arena.h"
#include "runtime/plugin.h"
#include "runtime/text.h"

/* `--kernel SELECTOR=KERNEL[@PLUGIN]`; selector: an op's name, or a glob over layer paths ("layer.*.a"). */
typedef struct ord_pin {
  const char *selector, *kernel, *plugin; /* plugin NULL: any */
} ord_pin;

typedef struct ord_chooser {
  const ord_registry *registry;
  const ord_device_info *device;
  const ord_pin *pin;
  uint32_t pin_count;
  const char *const *refusal; /* [pin_count], or NULL. Of a pin that this plan goes without: why; else NULL */
  uint32_t compute;           /* ORD_F32, .. */
  bool deny_fallback;         /* a node that only the reference serves is an error */
} ord_chooser;

/* One kernel that was asked. */
typedef struct ord_verdict {
  const ord_plugin_entry *plugin;
  const ord_kernel *kernel;
  const char *reason; /* why it lost, in words; NULL for the winner */
} ord_verdict;

typedef struct ord_choice {
  const ord_plugin_entry *plugin;
  const ord_kernel *kernel;
  ord_answer answer;  /* answer.pack has node->operand_count entries */
  const ord_pin *pin; /* the pin that forced it, or NULL; of a choice that failed: whose kernel does not serve */
  const ord_verdict *verdict; /* all that were asked, the winner first */
  uint32_t verdict_count;
} ord_choice;

/* Parses "SELECTOR=KERNEL[@PLUGIN]" into `out` (text copied into `arena`). */
ORD_MUST_CHECK bool ord_pin_parse(ord_arena *arena, const char *text, ord_pin *out, ord_error *err);

/* Adds "SELECTOR=KERNEL" or "SELECTOR=KERNEL@PLUGIN". */
void ord_pin_tell(const ord_pin *pin, ord_text *text);

/* Does pin `index` select a node of this op that carries these layer paths, and does it count? */
bool ord_pin_selects(const ord_chooser *chooser, uint32_t index, const char *op, const char *const *path,
                     uint32_t path_count);
/* Whether it counts or not. */
bool ord_pin_matches(const ord_pin *pin, const char *op, const char *const *path, uint32_t path_count);

/* Chooses for one node, whose layer paths are given (a fused node carries several). The result lives in `arena`. Of
 * several pins that select the node the last one counts. A kernel that would fuse only some of the node's epilogue
 * items loses to one that fuses all (answer.epilogue_served tells).
 * Fails with ORD_UNSUPPORTED if the pinned kernel refuses (its reason; out->pin is the pin), or if nobody serves (each
 * one's reason). */
ORD_MUST_CHECK bool ord_choose(const ord_chooser *chooser, const ord_node *node, const char *const *path,
                               uint32_t path_count, ord_arena *arena, ord_choice *out, ord_error *err);

#endif
