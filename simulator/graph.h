// SPDX-License-Identifier: MIT
// Graphs, their nodes, and what instantiation makes of them.
#ifndef SIMULATOR_GRAPH_H
#define SIMULATOR_GRAPH_H

#include "stream.h"

struct CUgraphNode_st {
  struct edge {
    CUgraphNode from;
    CUgraphEdgeData data;
  };
  CUgraph graph;
  simulated::work job;
  std::vector<edge> dependencies;
  std::vector<void *> arguments; // of a kernel node, as its parameters were last handed out
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  bool is_owned = false;         // by a node: a child graph or a body
  simulated::conditions handles; // created for this graph
  std::shared_ptr<unsigned> live_executables = std::make_shared<unsigned>(0);
};

namespace simulated {

// An instantiated graph. Its steps lie in an order in which they may run; a step names those it follows by index.
struct plan;
struct step {
  CUgraphNode node; // it was made from, which may be gone
  work job;
  bool is_enabled = true;
  std::vector<size_t> follows;
  std::vector<size_t> overlaps; // of these, those that need not have ended: edges that are programmatic
  std::shared_ptr<plan> child;
  std::vector<std::shared_ptr<plan>> bodies;
};
struct plan {
  std::vector<step> steps;
  conditions switches; // of the graph and of all below it
};

bool has_data(const CUgraphEdgeData &data);
CUresult add_edge(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData &data);
CUgraph create_graph(driver &d);
void destroy_graph(driver &d, CUgraph graph);
CUgraphNode add_node(driver &d, CUgraph graph, work job);
CUgraph clone_graph(driver &d, CUgraph graph);
bool has_conditional(CUgraph graph);
bool contains(CUgraph graph, CUgraphNode node);
bool reaches(const std::vector<CUgraphNode> &from, CUgraphNode node); // is it among them or before them

struct instantiation {
  CUresult code;
  CUgraphInstantiateResult result;
  CUgraphNode node;
};
instantiation make_plan(driver &d, CUgraph graph, bool is_body, std::shared_ptr<plan> &made);
CUresult run_plan(const plan &graph, const conditions &switches, uint64_t seed, std::string &text);

} // namespace simulated

struct CUgraphExec_st {
  std::shared_ptr<const simulated::plan> current;
  std::shared_ptr<unsigned> live_executables; // of the graph it was made from
  std::shared_ptr<simulated::operation> last; // launch: one executable runs once at a time
};

#endif
