// SPDX-License-Identifier: MIT
// Nodes from descriptions, and their parameters afterwards.
#include <algorithm>
#include <cstring>

#include "graph.h"

namespace simulated {

// Bytes of the union that a node of this type uses; what lies beyond must be zero.
static bool used_bytes(CUgraphNodeType type, size_t &bytes) {
  switch (type) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    bytes = sizeof(CUDA_KERNEL_NODE_PARAMS_v3);
    return true;
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    bytes = sizeof(CUDA_MEMCPY_NODE_PARAMS);
    return true;
  case CU_GRAPH_NODE_TYPE_MEMSET:
    bytes = sizeof(CUDA_MEMSET_NODE_PARAMS_v2);
    return true;
  case CU_GRAPH_NODE_TYPE_GRAPH:
    bytes = sizeof(CUDA_CHILD_GRAPH_NODE_PARAMS);
    return true;
  case CU_GRAPH_NODE_TYPE_EMPTY:
    bytes = 0;
    return true;
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    bytes = sizeof(CUDA_CONDITIONAL_NODE_PARAMS);
    return true;
  default:
    return false;
  }
}

static bool is_rest_zero(const CUgraphNodeParams &asked, size_t used) {
  const auto is_zero = [](unsigned char byte) { return byte == 0; };
  const auto *bytes = reinterpret_cast<const unsigned char *>(asked.reserved1);
  return std::all_of(bytes + used, bytes + sizeof asked.reserved1, is_zero) && !asked.reserved2 &&
         !asked.reserved0[0] && !asked.reserved0[1] && !asked.reserved0[2];
}

static CUresult describe_copy(driver &d, const CUDA_MEMCPY_NODE_PARAMS &asked, work &made) {
  if (asked.flags || asked.reserved) return CUDA_ERROR_INVALID_VALUE;
  if (asked.copyCtx && asked.copyCtx != &d.context) return CUDA_ERROR_INVALID_CONTEXT;
  made.copy = asked.copyParams;
  return check_copy(d, made.copy);
}

static CUresult describe_fill(driver &d, const CUDA_MEMSET_NODE_PARAMS_v2 &asked, work &made) {
  if (asked.ctx && asked.ctx != &d.context) return CUDA_ERROR_INVALID_CONTEXT;
  made.fill = {asked.dst, asked.pitch, asked.value, asked.elementSize, asked.width, asked.height};
  return check_fill(d, made.fill);
}

static CUresult describe_child(driver &d, const CUDA_CHILD_GRAPH_NODE_PARAMS &asked, work &made) {
  if (!d.graphs.count(asked.graph)) return CUDA_ERROR_INVALID_VALUE;
  if (asked.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE || has_conditional(asked.graph))
    return CUDA_ERROR_NOT_SUPPORTED;
  made.child = clone_graph(d, asked.graph);
  made.child->is_owned = true;
  return CUDA_SUCCESS;
}

static bool is_body_count_valid(const CUDA_CONDITIONAL_NODE_PARAMS &asked) {
  switch (asked.type) {
  case CU_GRAPH_COND_TYPE_IF:
    return asked.size == 1 || asked.size == 2;
  case CU_GRAPH_COND_TYPE_WHILE:
    return asked.size == 1;
  case CU_GRAPH_COND_TYPE_SWITCH:
    return asked.size > 0 && asked.size < 1024;
  default:
    return false;
  }
}

static CUresult describe_conditional(driver &d, CUgraph graph, const CUDA_CONDITIONAL_NODE_PARAMS &asked, work &made) {
  if (!is_body_count_valid(asked) || (asked.ctx && asked.ctx != &d.context)) return CUDA_ERROR_INVALID_VALUE;
  for (auto &one : graph->handles)
    if (one->handle == asked.handle) made.on = one;
  if (!made.on || made.on->is_used) return CUDA_ERROR_INVALID_VALUE;
  made.on->is_used = true;
  made.loop = asked.type;
  for (unsigned i = 0; i < asked.size; i++) {
    made.bodies.push_back(create_graph(d));
    made.bodies.back()->is_owned = true;
  }
  return CUDA_SUCCESS;
}

static CUresult describe(driver &d, CUgraph graph, const CUgraphNodeParams &asked, work &made) {
  size_t used = 0;
  if (!used_bytes(asked.type, used)) return CUDA_ERROR_NOT_SUPPORTED;
  if (!is_rest_zero(asked, used)) return CUDA_ERROR_INVALID_VALUE;
  made.type = asked.type;
  switch (asked.type) {
  case CU_GRAPH_NODE_TYPE_KERNEL: {
    CUDA_KERNEL_NODE_PARAMS kernel;
    static_assert(sizeof kernel == sizeof asked.kernel, "two names of one layout");
    memcpy(&kernel, &asked.kernel, sizeof kernel);
    return describe_launch(d, kernel, made.kernel);
  }
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return describe_copy(d, asked.memcpy, made);
  case CU_GRAPH_NODE_TYPE_MEMSET:
    return describe_fill(d, asked.memset, made);
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return describe_child(d, asked.graph, made);
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return describe_conditional(d, graph, asked.conditional, made);
  default:
    return CUDA_SUCCESS;
  }
}

static void remove_last(driver &d, CUgraph graph) {
  d.nodes.erase(graph->nodes.back().get());
  if (graph->nodes.back()->job.child) destroy_graph(d, graph->nodes.back()->job.child);
  for (CUgraph body : graph->nodes.back()->job.bodies) destroy_graph(d, body);
  if (graph->nodes.back()->job.on) graph->nodes.back()->job.on->is_used = false;
  graph->nodes.pop_back();
}

template <typename Function> static CUresult with_node(CUgraphNode node, CUgraphNodeType type, Function body) {
  return enter(needs::context, [&](driver &d, lock &) {
    if (!d.nodes.count(node) || node->job.type != type) return CUDA_ERROR_INVALID_VALUE;
    return body(d);
  });
}

static void hand_out(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS &made) {
  kernel_launch &launch = node->job.kernel;
  node->arguments.clear();
  for (size_t i = 0; i < launch.kernel->entry->parameter_count; i++)
    node->arguments.push_back(&launch.parameters[launch.kernel->entry->offsets[i]]);
  made = {nullptr,        launch.grid.x,       launch.grid.y,          launch.grid.z, launch.block.x, launch.block.y,
          launch.block.z, launch.shared_bytes, node->arguments.data(), nullptr,       launch.kernel,  &state().context};
}

} // namespace simulated

using namespace simulated;

extern "C" {

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *asked) {
  return enter(needs::context, [&](driver &d, lock &) {
    if (!node || !d.graphs.count(graph) || !asked || (count && !dependencies)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
      if (!d.nodes.count(dependencies[i]) || dependencies[i]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
    work job;
    CUresult code = describe(d, graph, *asked, job);
    if (code != CUDA_SUCCESS) return code;
    CUgraphNode made = add_node(d, graph, std::move(job));
    for (size_t i = 0; i < count && code == CUDA_SUCCESS; i++)
      code = add_edge(dependencies[i], made, edges ? edges[i] : CUgraphEdgeData{});
    if (code != CUDA_SUCCESS) {
      remove_last(d, graph);
      return code;
    }
    if (asked->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) asked->conditional.phGraph_out = made->job.bodies.data();
    *node = made;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *made) {
  return with_node(node, CU_GRAPH_NODE_TYPE_KERNEL, [&](driver &) {
    if (!made) return CUDA_ERROR_INVALID_VALUE;
    hand_out(node, *made);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *asked) {
  return with_node(node, CU_GRAPH_NODE_TYPE_KERNEL, [&](driver &d) {
    if (!asked) return CUDA_ERROR_INVALID_VALUE;
    kernel_launch made;
    const CUresult code = describe_launch(d, *asked, made);
    if (code == CUDA_SUCCESS) node->job.kernel = std::move(made);
    return code;
  });
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *made) {
  return with_node(node, CU_GRAPH_NODE_TYPE_MEMCPY, [&](driver &) {
    if (!made) return CUDA_ERROR_INVALID_VALUE;
    *made = node->job.copy;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *made) {
  return with_node(node, CU_GRAPH_NODE_TYPE_MEMSET, [&](driver &) {
    if (!made) return CUDA_ERROR_INVALID_VALUE;
    *made = node->job.fill;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child) {
  return with_node(node, CU_GRAPH_NODE_TYPE_GRAPH, [&](driver &) {
    if (!child) return CUDA_ERROR_INVALID_VALUE;
    *child = node->job.child;
    return CUDA_SUCCESS;
  });
}
}
