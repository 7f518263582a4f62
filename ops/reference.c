/* SPDX-License-Identifier: MIT
 *
 * The reference plugin, linked into the library: one plain kernel per op, as the ops' tables name them. It goes through
 * the same checks as a plugin from a file.
 */
#include <pthread.h>

#include "ops/op.h"

#define OP(name) +1
enum {
  KERNEL_COUNT = 0
#include "ops/ops.def"
};
#undef OP

/* The tables hold pointers, which C does not take for an initialiser; so the list is filled at the first opening. */
static const ord_kernel *kernel[KERNEL_COUNT];
static pthread_once_t is_filled = PTHREAD_ONCE_INIT;

static void fill(void) {
  for (uint32_t i = 0; i < KERNEL_COUNT; i++) kernel[i] = ord_op_get(i)->reference;
}

static const ord_plugin plugin = {.struct_size = sizeof plugin, .kernel_count = KERNEL_COUNT, .kernel = kernel};

ord_status ord_reference_open(const ord_host *host, const ord_plugin **out, ord_plugin_error *err) {
  (void)host, (void)err;
  pthread_once(&is_filled, fill);
  *out = &plugin;
  return ORD_OK;
}

const ord_manifest ord_reference_manifest = {
    ORD_MANIFEST_HEAD,
    .name = "reference",
    .version = ORD_VERSION,
    .build_id = "built in",
    .toolchain = "that of the library",
};
