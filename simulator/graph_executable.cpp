// SPDX-License-Identifier: MIT
// Instantiated graphs: launch, and changes between launches. A launch keeps the plan it began with.
#include <algorithm>

#include "graph.h"

namespace simulated {

static std::shared_ptr<plan> copy_plan(const plan &original) {
  auto made = std::make_shared<plan>(original);
  for (step &one : made->steps) {
    if (one.child) one.child = copy_plan(*one.child);
    for (auto &body : one.bodies) body = copy_plan(*body);
  }
  return made;
}

static step *find_step(plan &searched, CUgraphNode node) {
  for (step &one : searched.steps) {
    if (one.node == node) return &one;
    step *found = one.child ? find_step(*one.child, node) : nullptr;
    for (auto &body : one.bodies)
      if (!found) found = find_step(*body, node);
    if (found) return found;
  }
  return nullptr;
}

// Why the second plan cannot take the place of the first.
static CUgraphExecUpdateResult compare(const plan &old, const plan &wanted, CUgraphNode &node) {
  node = nullptr;
  if (old.steps.size() != wanted.steps.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (size_t i = 0; i < old.steps.size(); i++) {
    const step &a = old.steps[i], &b = wanted.steps[i];
    node = b.node;
    if (a.job.type != b.job.type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (a.follows != b.follows) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (a.bodies.size() != b.bodies.size() || a.job.loop != b.job.loop)
      return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    CUgraphExecUpdateResult below = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    if (a.child) below = compare(*a.child, *b.child, node);
    for (size_t k = 0; k < a.bodies.size() && below == CU_GRAPH_EXEC_UPDATE_SUCCESS; k++)
      below = compare(*a.bodies[k], *b.bodies[k], node);
    if (below != CU_GRAPH_EXEC_UPDATE_SUCCESS) return below;
  }
  node = nullptr;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUresult run_launch(const plan &graph, std::string &text) {
  driver &d = state();
  uint64_t seed = 0;
  {
    const lock held(d.guard);
    seed = next_random(d);
  }
  for (auto &one : graph.switches)
    if (one->flags & CU_GRAPH_COND_ASSIGN_DEFAULT) one->value = one->default_value;
  return run_plan(graph, graph.switches, seed, text);
}

static CUresult instantiate(driver &d, lock &held, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS &asked,
                            CUgraphExec *executable) {
  const cuuint64_t known = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY |
                           CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  asked.hErrNode_out = nullptr;
  asked.result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
  if (asked.flags & ~known) return CUDA_ERROR_NOT_SUPPORTED;
  if (has_conditional(graph) && *graph->live_executables) return CUDA_ERROR_NOT_SUPPORTED;
  std::shared_ptr<plan> made;
  const instantiation done = make_plan(d, graph, false, made);
  asked.result_out = done.result;
  asked.hErrNode_out = done.node;
  if (done.code != CUDA_SUCCESS) return done.code;
  if (asked.flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) {
    CUstream stream = find_stream(d, asked.hUploadStream);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult code = enqueue(d, held, stream, std::make_shared<operation>());
    if (code != CUDA_SUCCESS) return code;
  }
  *executable = new CUgraphExec_st{std::move(made), graph->live_executables, nullptr};
  ++*graph->live_executables;
  d.executables.insert(*executable);
  return CUDA_SUCCESS;
}

template <typename Function> static CUresult with_executable(CUgraphExec executable, Function body) {
  return enter(needs::context, [&](driver &d, lock &held) {
    return d.executables.count(executable) ? body(d, held) : CUDA_ERROR_INVALID_VALUE;
  });
}

} // namespace simulated

using namespace simulated;

extern "C" {

CUresult cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *asked) {
  return enter(needs::context, [&](driver &d, lock &held) {
    if (!executable || !asked || !d.graphs.count(graph) || graph->is_owned) return CUDA_ERROR_INVALID_VALUE;
    return instantiate(d, held, graph, *asked, executable);
  });
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  return with_executable(executable, [&](driver &d, lock &) {
    --*executable->live_executables;
    d.executables.erase(executable);
    delete executable;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream handle) {
  return with_executable(executable, [&](driver &d, lock &held) {
    CUstream stream = find_stream(d, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult code = refuse_capturing(stream);
    return code == CUDA_SUCCESS ? enqueue(d, held, stream, std::make_shared<operation>()) : code;
  });
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream handle) {
  return with_executable(executable, [&](driver &d, lock &held) {
    CUstream stream = find_stream(d, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult code = refuse_implicit(d, stream);
    if (code != CUDA_SUCCESS) return code;
    if (stream->capturing) {
      invalidate(*stream->capturing);
      return CUDA_ERROR_NOT_SUPPORTED; // see README.md
    }
    auto made = std::make_shared<operation>();
    made->run = [graph = executable->current](std::string &text) { return run_launch(*graph, text); };
    if (executable->last && !executable->last->is_done) made->waits.push_back(executable->last);
    executable->last = made;
    return enqueue(d, held, stream, made);
  });
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *asked) {
  return with_executable(executable, [&](driver &d, lock &) {
    if (!asked || !d.nodes.count(node)) return CUDA_ERROR_INVALID_VALUE;
    auto changed = copy_plan(*executable->current);
    step *found = find_step(*changed, node);
    if (!found || found->job.type != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_INVALID_VALUE;
    kernel_launch made;
    const CUresult code = describe_launch(d, *asked, made);
    if (code != CUDA_SUCCESS) return code;
    found->job.kernel = std::move(made);
    executable->current = std::move(changed);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeSetEnabled(CUgraphExec executable, CUgraphNode node, unsigned is_enabled) {
  return with_executable(executable, [&](driver &, lock &) {
    auto changed = copy_plan(*executable->current);
    step *found = find_step(*changed, node);
    if (!found || (found->job.type != CU_GRAPH_NODE_TYPE_KERNEL && found->job.type != CU_GRAPH_NODE_TYPE_MEMCPY &&
                   found->job.type != CU_GRAPH_NODE_TYPE_MEMSET))
      return CUDA_ERROR_INVALID_VALUE;
    found->is_enabled = is_enabled != 0;
    executable->current = std::move(changed);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *result) {
  return with_executable(executable, [&](driver &d, lock &) {
    if (!result || !d.graphs.count(graph)) return CUDA_ERROR_INVALID_VALUE;
    *result = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
    std::shared_ptr<plan> made;
    if (make_plan(d, graph, false, made).code != CUDA_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    result->result = compare(*executable->current, *made, result->errorNode);
    if (result->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    executable->current = std::move(made);
    return CUDA_SUCCESS;
  });
}
}
