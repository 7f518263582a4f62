/* SPDX-License-Identifier: MIT
 *
 * From a recording to a graph that can be launched: one chain of nodes, each built from a noted launch or holding the
 * graph of a library's calls. Nothing is captured into it, so that the same code fills the body of a WHILE node, where
 * a capture that fails would leave a broken driver.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda.h"

void ord_cuda_chain_finish(ord_cuda_chain *chain) {
  free(chain->node);
  *chain = (ord_cuda_chain){0};
}

/* Room for one more node; NULL when out of memory. */
static ord_cuda_chain_node *reserve(ord_cuda_chain *chain, ord_error *err) {
  if (chain->count < chain->capacity) return &chain->node[chain->count];
  const uint32_t capacity = chain->capacity ? 2 * chain->capacity : 64;
  ord_cuda_chain_node *grown = realloc(chain->node, capacity * sizeof *grown);
  if (!grown) {
    ord_fail_memory(err, "building a graph");
    return NULL;
  }
  chain->node = grown;
  chain->capacity = capacity;
  return &grown[chain->count];
}

/* The edge of a kernel that may start before the one before it has ended is a programmatic one; both must be kernels of
 * the same graph. */
static bool add_node(ord_cuda_chain *chain, CUgraphNodeParams *asked, const ord_step *step, bool is_dependent,
                     ord_error *err) {
  const CUgraphEdgeData programmatic = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                        .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
  ord_cuda_chain_node *next = reserve(chain, err);
  if (!next) return false;
  const ord_cuda_chain_node *last = chain->count ? next - 1 : NULL;
  const bool is_programmatic = is_dependent && last && last->is_kernel && chain->device->has_dependent_launch;
  CUgraphNode node;
  if (!ord_cuda_check(chain->device,
                      chain->device->call.GraphAddNode(&node, chain->graph, last ? &last->node : NULL,
                                                       is_programmatic ? &programmatic : NULL, last != NULL, asked),
                      "cuGraphAddNode", "building the graph", err)) {
    if (step) ord_cuda_fail_step(step, "capture failed", err);
    return false;
  }
  chain->count++;
  *next = (ord_cuda_chain_node){.node = node, .step = step, .is_kernel = asked->type == CU_GRAPH_NODE_TYPE_KERNEL};
  return true;
}

bool ord_cuda_chain_add_launch(ord_cuda_chain *chain, const ord_cuda_launch *launch, const ord_step *step,
                               ord_error *err) {
  /* All bytes that a node of this kind has no use for must be 0. */
  CUgraphNodeParams asked = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
  asked.kernel.kern = launch->kernel;
  asked.kernel.ctx = chain->device->context;
  asked.kernel.gridDimX = launch->grid[0];
  asked.kernel.gridDimY = launch->grid[1];
  asked.kernel.gridDimZ = launch->grid[2];
  asked.kernel.blockDimX = launch->block[0];
  asked.kernel.blockDimY = launch->block[1];
  asked.kernel.blockDimZ = launch->block[2];
  asked.kernel.sharedMemBytes = launch->shared_bytes;
  asked.kernel.kernelParams = launch->argument;
  return add_node(chain, &asked, step, launch->flags & ORD_LAUNCH_DEPENDENT, err);
}

static bool add_step(ord_cuda_chain *chain, const ord_cuda_recording *recording, const ord_cuda_step *recorded,
                     ord_error *err) {
  if (recorded->child) {
    CUgraphNodeParams asked = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    asked.graph.graph = recorded->child;
    return add_node(chain, &asked, recorded->step, false, err);
  }
  const ord_cuda_launch *launch = recording->launch + recorded->first_launch;
  for (uint32_t i = 0; i < recorded->launch_count; i++)
    if (!ord_cuda_chain_add_launch(chain, &launch[i], recorded->step, err)) return false;
  return true;
}

bool ord_cuda_chain_add(ord_cuda_chain *chain, const ord_cuda_recording *recording, ord_error *err) {
  for (uint32_t i = 0; i < recording->step_count; i++)
    if (!add_step(chain, recording, &recording->step[i], err)) return false;
  return true;
}

static const ord_step *find_step(const ord_cuda_chain *chain, CUgraphNode node) {
  for (uint32_t i = 0; i < chain->count; i++)
    if (chain->node[i].node == node) return chain->node[i].step;
  return NULL;
}

static bool instantiate(ord_cuda_device *device, CUgraph graph, const ord_cuda_chain *chain, CUgraphExec *out,
                        ord_error *err) {
  CUDA_GRAPH_INSTANTIATE_PARAMS asked = {0};
  char what[80];
  const CUresult code = device->call.GraphInstantiateWithParams(out, graph, &asked);
  snprintf(what, sizeof what, "instantiating the graph, result %d", (int)asked.result_out);
  if (ord_cuda_check(device, code, "cuGraphInstantiateWithParams", what, err)) return true;
  *out = NULL;
  const ord_step *step = asked.hErrNode_out ? find_step(chain, asked.hErrNode_out) : NULL;
  if (step) ord_cuda_fail_step(step, "capture failed", err);
  return false;
}

/* Uploading now keeps the first launch from paying for it. Both may have to wait for the device, as a free does. */
bool ord_cuda_graph_finish(ord_cuda_queue *queue, CUgraph graph, const ord_cuda_chain *chain, CUgraphExec *out,
                           ord_error *err) {
  static const char *const UPLOADING = "uploading the graph";
  ord_cuda_device *device = ord_cuda_of(&queue->base);
  const CUstream stream = ord_cuda_handle(&queue->capture);
  ord_cuda_pause_captures();
  const bool done =
      instantiate(device, graph, chain, out, err) &&
      ord_cuda_check(device, device->call.GraphUpload(*out, stream), "cuGraphUpload", UPLOADING, err) &&
      ord_cuda_check(device, device->call.StreamSynchronize(stream), "cuStreamSynchronize", UPLOADING, err);
  ord_cuda_resume_captures();
  return done;
}

void ord_cuda_graph_destroy(ord_cuda_device *device, CUgraph graph, CUgraphExec executable) {
  if ((!graph && !executable) || !ord_cuda_enter(device, NULL)) return;
  ord_cuda_pause_captures();
  if (executable) (void)device->call.GraphExecDestroy(executable);
  if (graph) (void)device->call.GraphDestroy(graph);
  ord_cuda_resume_captures();
}
