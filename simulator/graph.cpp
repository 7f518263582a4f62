// SPDX-License-Identifier: MIT
// Graphs as objects: who owns what, what may follow what.
#include "graph.h"

#include <algorithm>
#include <map>

namespace simulated {

bool has_data(const CUgraphEdgeData &data) { return data.from_port || data.to_port || data.type; }

static bool is_edge_valid(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData &data) {
  for (const unsigned char byte : data.reserved)
    if (byte) return false;
  if (data.to_port) return false;
  if (data.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT) return data.from_port == CU_GRAPH_KERNEL_NODE_PORT_DEFAULT;
  const bool is_port = data.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
                       data.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER;
  return data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC && is_port && from->job.type == CU_GRAPH_NODE_TYPE_KERNEL &&
         to->job.type == CU_GRAPH_NODE_TYPE_KERNEL;
}

CUresult add_edge(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData &data) {
  if (from == to || from->graph != to->graph || !is_edge_valid(from, to, data)) return CUDA_ERROR_INVALID_VALUE;
  for (const auto &edge : to->dependencies)
    if (edge.from == from) return CUDA_ERROR_INVALID_VALUE;
  to->dependencies.push_back({from, data});
  return CUDA_SUCCESS;
}

CUgraph create_graph(driver &d) {
  auto made = std::make_unique<CUgraph_st>();
  d.graphs.insert(made.get());
  return made.release();
}

static void forget_node(driver &d, CUgraphNode node) {
  d.nodes.erase(node);
  if (node->job.child) destroy_graph(d, node->job.child);
  for (CUgraph body : node->job.bodies) destroy_graph(d, body);
}

void destroy_graph(driver &d, CUgraph graph) {
  for (auto &node : graph->nodes) forget_node(d, node.get());
  d.graphs.erase(graph);
  delete graph;
}

CUgraphNode add_node(driver &d, CUgraph graph, work job) {
  auto made = std::make_unique<CUgraphNode_st>();
  made->graph = graph;
  made->job = std::move(job);
  graph->nodes.push_back(std::move(made));
  CUgraphNode node = graph->nodes.back().get();
  d.nodes.insert(node);
  return node;
}

static void remove_node(driver &d, CUgraphNode node) {
  CUgraph graph = node->graph;
  for (auto &other : graph->nodes) {
    auto &edges = other->dependencies;
    edges.erase(std::remove_if(edges.begin(), edges.end(), [node](auto &edge) { return edge.from == node; }),
                edges.end());
  }
  forget_node(d, node);
  graph->nodes.erase(
      std::find_if(graph->nodes.begin(), graph->nodes.end(), [node](auto &one) { return one.get() == node; }));
}

CUgraph clone_graph(driver &d, CUgraph graph) {
  CUgraph made = create_graph(d);
  std::map<CUgraphNode, CUgraphNode> twins;
  for (auto &node : graph->nodes) {
    CUgraphNode twin = add_node(d, made, node->job);
    if (twin->job.child) {
      twin->job.child = clone_graph(d, node->job.child);
      twin->job.child->is_owned = true;
    }
    twins[node.get()] = twin;
  }
  for (auto &node : graph->nodes)
    for (const auto &edge : node->dependencies)
      twins[node.get()]->dependencies.push_back({twins[edge.from], edge.data});
  return made;
}

bool has_conditional(CUgraph graph) {
  return std::any_of(graph->nodes.begin(), graph->nodes.end(),
                     [](auto &node) { return node->job.type == CU_GRAPH_NODE_TYPE_CONDITIONAL; });
}

bool reaches(const std::vector<CUgraphNode> &from, CUgraphNode node) {
  std::vector<CUgraphNode> open = from;
  std::unordered_set<CUgraphNode> seen(open.begin(), open.end());
  while (!open.empty()) {
    CUgraphNode one = open.back();
    open.pop_back();
    for (const auto &edge : one->dependencies)
      if (seen.insert(edge.from).second) open.push_back(edge.from);
  }
  return seen.count(node);
}

static bool is_captured(driver &d, CUgraph graph) {
  return std::any_of(d.captures.begin(), d.captures.end(), [graph](auto &one) { return one->graph == graph; });
}

} // namespace simulated

using namespace simulated;

extern "C" {

CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
  return enter(needs::context, [&](driver &d, lock &) {
    if (!graph || flags) return CUDA_ERROR_INVALID_VALUE;
    *graph = create_graph(d);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return enter(needs::context, [&](driver &d, lock &) {
    if (!d.graphs.count(graph) || graph->is_owned || is_captured(d, graph)) return CUDA_ERROR_INVALID_VALUE;
    destroy_graph(d, graph);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroyNode(CUgraphNode node) {
  return enter(needs::context, [&](driver &d, lock &) {
    if (!d.nodes.count(node) || is_captured(d, node->graph)) return CUDA_ERROR_INVALID_VALUE;
    remove_node(d, node);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edges, size_t count) {
  return enter(needs::context, [&](driver &d, lock &) {
    if (!d.graphs.count(graph) || (count && (!from || !to))) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
      if (!d.nodes.count(from[i]) || !d.nodes.count(to[i]) || from[i]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
      const CUresult code = add_edge(from[i], to[i], edges ? edges[i] : CUgraphEdgeData{});
      if (code != CUDA_SUCCESS) return code;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph, CUcontext context,
                                        unsigned default_value, unsigned flags) {
  return enter(needs::context, [&](driver &d, lock &) {
    static cuuint64_t last_handle = 0x51000000; // under the lock; far from the small numbers of a forgotten one
    if (!handle || !d.graphs.count(graph) || (context && context != &d.context) ||
        (flags & ~static_cast<unsigned>(CU_GRAPH_COND_ASSIGN_DEFAULT)))
      return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_shared<condition>();
    made->handle = ++last_handle;
    made->graph = graph;
    made->default_value = default_value;
    made->flags = flags;
    graph->handles.push_back(made);
    *handle = made->handle;
    return CUDA_SUCCESS;
  });
}
}
