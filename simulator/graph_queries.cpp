// SPDX-License-Identifier: MIT
// What an audit reads of a graph. Edges that carry data cannot be read without a place for it: that is a lossy query.
#include <cstdio>

#include "graph.h"

namespace simulated {

// Writes what fits, clears the rest, and sets the count to what there is, or to what was written.
template <typename Value> static void fill_array(const std::vector<Value> &values, Value *to, size_t &count) {
  if (to)
    for (size_t i = 0; i < count; i++) to[i] = i < values.size() ? values[i] : Value{};
  if (!to || count > values.size()) count = values.size();
}

struct edge_lists {
  std::vector<CUgraphNode> from, to;
  std::vector<CUgraphEdgeData> data;
  bool has_data = false;
  void add(CUgraphNode node) {
    for (const auto &edge : node->dependencies) {
      from.push_back(edge.from);
      to.push_back(node);
      data.push_back(edge.data);
      has_data = has_data || simulated::has_data(edge.data);
    }
  }
};

static const char *name_of(CUgraphNodeType type) {
  switch (type) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    return "kernel";
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return "memcpy";
  case CU_GRAPH_NODE_TYPE_MEMSET:
    return "memset";
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return "graph";
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return "conditional";
  default:
    return "empty";
  }
}

static void write_graph(FILE *file, CUgraph graph) {
  for (auto &node : graph->nodes) {
    const work &job = node->job;
    const bool is_kernel = job.type == CU_GRAPH_NODE_TYPE_KERNEL;
    fprintf(file, "  \"%p\" [label=\"%s\"];\n", static_cast<void *>(node.get()),
            is_kernel ? job.kernel.kernel->entry->name : name_of(job.type));
    for (const auto &edge : node->dependencies)
      fprintf(file, "  \"%p\" -> \"%p\"%s;\n", static_cast<void *>(edge.from), static_cast<void *>(node.get()),
              has_data(edge.data) ? " [style=dashed]" : "");
    if (job.child) write_graph(file, job.child);
    for (CUgraph body : job.bodies) write_graph(file, body);
  }
}

} // namespace simulated

using namespace simulated;

extern "C" {

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  return enter(needs::context, [&](driver &d, lock &) {
    if (!d.graphs.count(graph) || !count) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUgraphNode> all;
    for (auto &node : graph->nodes) all.push_back(node.get());
    fill_array(all, nodes, *count);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  return enter(needs::context, [&](driver &d, lock &) {
    if (!d.nodes.count(node) || !type) return CUDA_ERROR_INVALID_VALUE;
    *type = node->job.type;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *count) {
  return enter(needs::context, [&](driver &d, lock &) {
    if (!d.graphs.count(graph) || !count || !from != !to || (data && !from)) return CUDA_ERROR_INVALID_VALUE;
    edge_lists all;
    for (auto &node : graph->nodes) all.add(node.get());
    if (from && !data && all.has_data) return CUDA_ERROR_LOSSY_QUERY;
    size_t of_from = *count, of_to = *count;
    fill_array(all.from, from, of_from);
    fill_array(all.to, to, of_to);
    fill_array(all.data, data, *count);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *dependencies, CUgraphEdgeData *data,
                                       size_t *count) {
  return enter(needs::context, [&](driver &d, lock &) {
    if (!d.nodes.count(node) || !count || (data && !dependencies)) return CUDA_ERROR_INVALID_VALUE;
    edge_lists all;
    all.add(node);
    if (dependencies && !data && all.has_data) return CUDA_ERROR_LOSSY_QUERY;
    size_t of_nodes = *count;
    fill_array(all.from, dependencies, of_nodes);
    fill_array(all.data, data, *count);
    *count = of_nodes;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned) {
  return enter(needs::context, [&](driver &d, lock &) {
    if (!d.graphs.count(graph) || !path) return CUDA_ERROR_INVALID_VALUE;
    FILE *file = fopen(path, "w");
    if (!file) return CUDA_ERROR_OPERATING_SYSTEM;
    fprintf(file, "digraph simulated {\n");
    write_graph(file, graph);
    fprintf(file, "}\n");
    return fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
  });
}
}
