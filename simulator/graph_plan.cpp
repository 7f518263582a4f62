// SPDX-License-Identifier: MIT
// From a graph to a plan, with the rules that instantiation checks, and how a plan runs.
#include <algorithm>
#include <map>

#include "graph.h"

namespace simulated {

constexpr instantiation fine = {CUDA_SUCCESS, CUDA_GRAPH_INSTANTIATE_SUCCESS, nullptr};

// Nodes in an order in which they may run; fewer than the graph has where there is a cycle.
static std::vector<CUgraphNode> sort_nodes(CUgraph graph) {
  std::vector<CUgraphNode> sorted;
  std::unordered_set<CUgraphNode> placed;
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (auto &node : graph->nodes) {
      if (placed.count(node.get())) continue;
      const auto &edges = node->dependencies;
      if (!std::all_of(edges.begin(), edges.end(), [&](auto &edge) { return placed.count(edge.from); })) continue;
      sorted.push_back(node.get());
      placed.insert(node.get());
      has_moved = true;
    }
  }
  return sorted;
}

// Inside a conditional's body copies may touch no pageable memory.
static CUresult check_node(driver &d, CUgraphNode node, bool is_body) {
  const work &job = node->job;
  if (job.type == CU_GRAPH_NODE_TYPE_KERNEL && !d.kernels.count(job.kernel.kernel)) return CUDA_ERROR_INVALID_VALUE;
  if (job.type == CU_GRAPH_NODE_TYPE_MEMCPY && is_body && !is_device_or_mapped(d, job.copy))
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

static instantiation add_below(driver &d, CUgraph graph, bool is_body, plan &above, std::shared_ptr<plan> &made) {
  const instantiation done = make_plan(d, graph, is_body, made);
  if (done.code == CUDA_SUCCESS)
    above.switches.insert(above.switches.end(), made->switches.begin(), made->switches.end());
  return done;
}

static instantiation add_step(driver &d, CUgraphNode node, bool is_body, const std::map<CUgraphNode, size_t> &index,
                              plan &made) {
  const CUresult code = check_node(d, node, is_body);
  if (code != CUDA_SUCCESS) return {code, CUDA_GRAPH_INSTANTIATE_ERROR, node};
  step one;
  one.node = node;
  one.job = node->job;
  for (const auto &edge : node->dependencies) {
    one.follows.push_back(index.at(edge.from));
    if (edge.data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) one.overlaps.push_back(index.at(edge.from));
  }
  if (node->job.on) made.switches.push_back(node->job.on);
  if (node->job.child) {
    const instantiation done = add_below(d, node->job.child, is_body, made, one.child);
    if (done.code != CUDA_SUCCESS) return done;
  }
  for (CUgraph body : node->job.bodies) {
    one.bodies.emplace_back();
    const instantiation done = add_below(d, body, true, made, one.bodies.back());
    if (done.code != CUDA_SUCCESS) return done;
  }
  made.steps.push_back(std::move(one));
  return fine;
}

instantiation make_plan(driver &d, CUgraph graph, bool is_body, std::shared_ptr<plan> &made) {
  for (auto &handle : graph->handles)
    if (!handle->is_used) return {CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED, nullptr};
  const std::vector<CUgraphNode> sorted = sort_nodes(graph);
  if (sorted.size() != graph->nodes.size())
    return {CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, nullptr};
  made = std::make_shared<plan>();
  std::map<CUgraphNode, size_t> index;
  for (CUgraphNode node : sorted) {
    const instantiation done = add_step(d, node, is_body, index, *made);
    if (done.code != CUDA_SUCCESS) return done;
    index[node] = index.size();
  }
  return fine;
}

static CUresult run_conditional(const step &one, const conditions &switches, uint64_t seed, std::string &text) {
  const std::atomic<unsigned> &value = one.job.on->value;
  if (one.job.loop != CU_GRAPH_COND_TYPE_WHILE) {
    const unsigned now = value;
    const size_t chosen = one.job.loop == CU_GRAPH_COND_TYPE_IF ? !now : now;
    return chosen < one.bodies.size() ? run_plan(*one.bodies[chosen], switches, seed, text) : CUDA_SUCCESS;
  }
  for (unsigned iteration = 0; value; iteration++) {
    if (iteration == state().set.loop_limit) {
      text = "a WHILE node ran its body " + std::to_string(iteration) + " times and goes on";
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    }
    const CUresult code = run_plan(*one.bodies[0], switches, seed ? seed + iteration : 0, text);
    if (code != CUDA_SUCCESS) return code;
  }
  return CUDA_SUCCESS;
}

static CUresult run_step(const step &one, surroundings &among, uint64_t seed, std::string &text) {
  if (!one.is_enabled) return CUDA_SUCCESS;
  if (one.child) return run_plan(*one.child, *among.switches, seed, text);
  if (one.job.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) return run_conditional(one, *among.switches, seed, text);
  return run_work(one.job, among, text);
}

// Steps in a legal order that the seed chooses; 0 is the order of the plan.
CUresult run_plan(const plan &graph, const conditions &switches, uint64_t seed, std::string &text) {
  std::vector<size_t> waiting(graph.steps.size());
  for (size_t i = 0; i < waiting.size(); i++) waiting[i] = i;
  std::vector<bool> is_done(waiting.size());
  std::vector<std::shared_ptr<const past_launch>> launched(waiting.size());
  uint64_t random = seed;
  while (!waiting.empty()) {
    std::vector<size_t> open; // places in `waiting` of steps that may run
    for (size_t i = 0; i < waiting.size() && (seed || open.empty()); i++) {
      const auto &follows = graph.steps[waiting[i]].follows;
      if (std::all_of(follows.begin(), follows.end(), [&](size_t before) { return is_done[before]; }))
        open.push_back(i);
    }
    random = random * 6364136223846793005u + 1442695040888963407u;
    const size_t at = open[seed ? (random >> 33) % open.size() : 0], chosen = waiting[at];
    surroundings among = {&switches};
    for (size_t before : graph.steps[chosen].overlaps)
      if (launched[before]) among.ahead.push_back(launched[before]);
    const CUresult code = run_step(graph.steps[chosen], among, seed, text);
    if (code != CUDA_SUCCESS) return code;
    launched[chosen] = among.launched;
    is_done[chosen] = true;
    waiting.erase(waiting.begin() + static_cast<long>(at));
  }
  return CUDA_SUCCESS;
}

} // namespace simulated
