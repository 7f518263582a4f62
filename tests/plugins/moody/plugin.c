/* SPDX-License-Identifier: MIT
 *
 * A plugin that goes wrong at one moment: in the row of rank 2 it hangs, in that of rank 6 it crashes, in all others it
 * is right but talks. The environment's ORDITO_TEST_MOMENT says what it does besides: "load" and "unload", it crashes
 * then; "close" and "scribble", in a row it closes the files of the host or writes into them. For the tests of `ordito
 * kernel-test`.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ordito_plugin.h"

const ord_manifest ord_plugin_manifest = {ORD_MANIFEST_HEAD, .flags = ORD_PLUGIN_UNLOADABLE, .name = "moody",
                                          .version = "1"};

static bool is_moment(const char *moment) {
  const char *wanted = getenv("ORDITO_TEST_MOMENT");
  return wanted && strcmp(wanted, moment) == 0;
}

static void crash_at(const char *moment) {
  if (is_moment(moment)) abort();
}

__attribute__((constructor)) static void loaded(void) { crash_at("load"); }
__attribute__((destructor)) static void unloaded(void) { crash_at("unload"); }

static ord_status query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    const ord_operand *operand = &node->operand[i];
    int64_t stride = 4;
    for (uint32_t axis = operand->rank; axis-- > 0; stride *= operand->dim[axis])
      if (operand->dtype != ORD_F32 || operand->stride[axis] != stride || operand->extent[axis] != ORD_NONE) {
        snprintf(answer->reason, sizeof answer->reason, "wants dense f32 of fixed size; features %llx",
                 (unsigned long long)node->device->features);
        return ORD_NO;
      }
  }
  answer->phase_count = 1;
  answer->chunk_limit[0] = 1;
  answer->epilogue_served = 0;
  return ORD_OK;
}

static ord_status prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                          const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  (void)answer;
  (void)host;
  (void)err;
  *state = (void *)(uintptr_t)node;
  return ORD_OK;
}

enum { FILES_MAX = 16 };

static void spoil(int file) {
  char nonsense[8192];
  memset(nonsense, 0xff, sizeof nonsense);
  if (is_moment("close")) close(file);
  if (is_moment("scribble") && write(file, nonsense, sizeof nonsense) < 0) return; /* not open for writing */
}

static ord_status launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const float *in = exec->operand[0];
  float *out = exec->operand[ord_node_output(node, 0)];
  int64_t count = 1;
  printf("this is no part of a report\n");
  fflush(stdout);
  for (int file = STDERR_FILENO + 1; file < FILES_MAX; file++) spoil(file);
  while (node->operand[0].rank == 2) pause();
  if (node->operand[0].rank == 6) abort();
  for (uint32_t i = 0; i < node->operand[0].rank; i++) count *= node->operand[0].dim[i];
  for (int64_t i = 0; i < count; i++) out[i] = tanhf(in[i]);
  return ORD_OK;
}

static void retire(void *state) { (void)state; }

static const ord_kernel tanh_moody = {.struct_size = sizeof tanh_moody,
                                      .priority = -100,
                                      .name = "tanh_moody",
                                      .op = "tanh",
                                      .query = query,
                                      .prepare = prepare,
                                      .launch = launch,
                                      .retire = retire};

static const ord_kernel *const kernels[] = {&tanh_moody};
static const ord_plugin plugin = {.struct_size = sizeof plugin, .kernel_count = 1, .kernel = kernels};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **out, ord_plugin_error *err) {
  (void)host;
  (void)err;
  *out = &plugin;
  return ORD_OK;
}
