/* SPDX-License-Identifier: MIT
 *
 * A plugin whose second kernel lacks its retire function.
 */
#include "ordito_plugin.h"

const ord_manifest ord_plugin_manifest = {ORD_MANIFEST_HEAD, .flags = ORD_PLUGIN_UNLOADABLE,
                                          .name = "bad_kernel_incomplete"};

static ord_status query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  (void)node;
  (void)answer;
  return ORD_NO;
}

static ord_status prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                          const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  (void)node;
  (void)answer;
  (void)host;
  (void)state;
  (void)err;
  return ORD_OK;
}

static ord_status launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)state;
  (void)exec;
  (void)err;
  return ORD_OK;
}

static void retire(void *state) { (void)state; }

static const ord_kernel whole = {.struct_size = sizeof whole,
                                 .name = "whole",
                                 .op = "relu",
                                 .query = query,
                                 .prepare = prepare,
                                 .launch = launch,
                                 .retire = retire};
static const ord_kernel half = {
    .struct_size = sizeof half, .name = "half", .op = "relu", .query = query, .prepare = prepare, .launch = launch};
static const ord_kernel *const kernels[] = {&whole, &half};
static const ord_plugin plugin = {.struct_size = sizeof plugin, .kernel_count = 2, .kernel = kernels};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **out, ord_plugin_error *err) {
  (void)host;
  (void)err;
  *out = &plugin;
  return ORD_OK;
}
