// SPDX-License-Identifier: MIT
// Stream capture: how streams join one, what is forbidden meanwhile, and how it ends.
#include <algorithm>

#include "graph.h"
#include "stream.h"

namespace simulated {

void invalidate(capture &broken) { broken.is_invalid = true; }

static bool is_active(const capture &one) { return !one.is_ended && !one.is_invalid; }

CUresult refuse_capturing(CUstream stream) {
  if (!stream->capturing) return CUDA_SUCCESS;
  invalidate(*stream->capturing);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

// The thread's mode says whose captures it must not disturb.
CUresult refuse_unsafe(driver &d) {
  const CUstreamCaptureMode mode = this_thread().capture_mode;
  CUresult code = CUDA_SUCCESS;
  for (const auto &one : d.captures) {
    const bool is_own = one->thread == std::this_thread::get_id() && one->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool is_global = mode == CU_STREAM_CAPTURE_MODE_GLOBAL && one->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (mode == CU_STREAM_CAPTURE_MODE_RELAXED || (!is_own && !is_global)) continue;
    invalidate(*one);
    code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return code;
}

// The legacy stream waits for every blocking stream, so it may not be used while one of those is captured.
CUresult refuse_implicit(driver &d, CUstream stream) {
  if (stream != legacy_stream()) return CUDA_SUCCESS;
  CUresult code = CUDA_SUCCESS;
  for (CUstream other : d.streams) {
    if (!other->capturing || (other->flags & CU_STREAM_NON_BLOCKING)) continue;
    invalidate(*other->capturing);
    code = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return code;
}

// A kernel that may overlap the one before it follows it by a programmatic edge, if that is a kernel and the only one.
static CUgraphEdgeData edge_between(const std::vector<CUgraphNode> &before, const work &job) {
  CUgraphEdgeData data = {};
  if (job.type == CU_GRAPH_NODE_TYPE_KERNEL && job.kernel.is_programmatic && before.size() == 1 &&
      before[0]->job.type == CU_GRAPH_NODE_TYPE_KERNEL) {
    data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  }
  return data;
}

static void set_dependencies(CUstream stream, std::vector<CUgraphNode> nodes) {
  stream->dependencies = std::move(nodes);
  stream->edges.assign(stream->dependencies.size(), CUgraphEdgeData{});
}

CUresult capture_work(driver &d, CUstream stream, work job) {
  capture &one = *stream->capturing;
  if (one.is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const CUgraphEdgeData data = edge_between(stream->dependencies, job);
  CUgraphNode made = add_node(d, one.graph, std::move(job));
  for (CUgraphNode before : stream->dependencies) made->dependencies.push_back({before, data});
  set_dependencies(stream, {made});
  return CUDA_SUCCESS;
}

CUresult capture_record(CUevent event, CUstream stream) {
  if (stream->capturing->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  event->captured = stream->capturing;
  event->dependencies = stream->dependencies;
  event->recorded = nullptr;
  return CUDA_SUCCESS;
}

static CUresult join(CUstream stream, CUevent event) {
  if (event->captured->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<CUgraphNode> both = stream->capturing ? stream->dependencies : std::vector<CUgraphNode>();
  for (CUgraphNode node : event->dependencies)
    if (std::find(both.begin(), both.end(), node) == both.end()) both.push_back(node);
  stream->capturing = event->captured;
  set_dependencies(stream, std::move(both));
  return CUDA_SUCCESS;
}

CUresult capture_wait(CUstream stream, CUevent event) {
  if (stream->capturing && stream->capturing->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!event->captured) { // work outside the graph
    invalidate(*stream->capturing);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (event->captured->is_ended) return CUDA_ERROR_CAPTURED_EVENT;
  if (stream == legacy_stream()) {
    invalidate(*event->captured);
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (stream->capturing && stream->capturing != event->captured) {
    invalidate(*stream->capturing);
    invalidate(*event->captured);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  return join(stream, event);
}

// Every node must lie before the end of the stream that began the capture.
static bool is_joined(const capture &one) {
  return std::all_of(one.graph->nodes.begin(), one.graph->nodes.end(),
                     [&](auto &node) { return reaches(one.origin->dependencies, node.get()); });
}

static CUresult end(driver &d, CUstream stream, CUgraph *graph) {
  const std::shared_ptr<capture> one = stream->capturing;
  if (one->origin != stream) {
    invalidate(*one);
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (one->mode != CU_STREAM_CAPTURE_MODE_RELAXED && one->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult code = CUDA_SUCCESS;
  if (one->is_invalid)
    code = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (!is_joined(*one))
    code = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  for (CUstream other : d.streams) {
    if (other->capturing != one) continue;
    other->capturing = nullptr;
    set_dependencies(other, {});
  }
  one->is_ended = true;
  d.captures.erase(std::find(d.captures.begin(), d.captures.end(), one));
  if (code == CUDA_SUCCESS)
    *graph = one->graph;
  else
    destroy_graph(d, one->graph);
  return code;
}

static CUstreamCaptureStatus status_of(CUstream stream) {
  if (!stream->capturing) return CU_STREAM_CAPTURE_STATUS_NONE;
  return is_active(*stream->capturing) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

template <typename Value> static void give(Value *to, const Value &value) {
  if (to) *to = value;
}

} // namespace simulated

using namespace simulated;

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  return enter(needs::context, [&](driver &d, lock &) {
    static cuuint64_t last_id = 0; // under the lock
    CUstream stream = find_stream(d, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    if (stream == legacy_stream()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capturing) return CUDA_ERROR_ILLEGAL_STATE;
    auto made = std::make_shared<capture>();
    made->graph = create_graph(d);
    made->mode = mode;
    made->thread = std::this_thread::get_id();
    made->origin = stream;
    made->id = ++last_id;
    stream->capturing = made;
    set_dependencies(stream, {});
    d.captures.push_back(made);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  return enter(needs::context, [&](driver &d, lock &) {
    CUstream stream = find_stream(d, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    *graph = nullptr;
    return stream->capturing ? end(d, stream, graph) : CUDA_ERROR_ILLEGAL_STATE;
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  return enter(needs::context, [&](driver &d, lock &) {
    CUstream stream = find_stream(d, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    *status = status_of(stream);
    return refuse_implicit(d, stream);
  });
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count) {
  return enter(needs::context, [&](driver &d, lock &) {
    CUstream stream = find_stream(d, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    *status = status_of(stream);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return refuse_implicit(d, stream);
    give(id, stream->capturing->id);
    give(graph, stream->capturing->graph);
    give(dependencies, static_cast<const CUgraphNode *>(stream->dependencies.data()));
    give(edges, static_cast<const CUgraphEdgeData *>(stream->edges.data()));
    give(count, stream->dependencies.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode *nodes, const CUgraphEdgeData *edges,
                                              size_t count, unsigned flags) {
  return enter(needs::context, [&](driver &d, lock &) {
    CUstream stream = find_stream(d, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!stream->capturing) return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capturing->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !nodes)) return CUDA_ERROR_INVALID_VALUE;
    auto made = flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES ? std::vector<CUgraphNode>() : stream->dependencies;
    for (size_t i = 0; i < count; i++) {
      if (!d.nodes.count(nodes[i]) || nodes[i]->graph != stream->capturing->graph) return CUDA_ERROR_INVALID_VALUE;
      if (edges && has_data(edges[i])) return CUDA_ERROR_NOT_SUPPORTED;
      if (std::find(made.begin(), made.end(), nodes[i]) == made.end()) made.push_back(nodes[i]);
    }
    set_dependencies(stream, std::move(made));
    return CUDA_SUCCESS;
  });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, this_thread().capture_mode);
  return CUDA_SUCCESS;
}
}
