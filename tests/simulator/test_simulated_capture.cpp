// SPDX-License-Identifier: MIT
// Stream capture: what it records, and one violation for each rule.
#include <thread>

#include "harness.h"

using namespace harness;

struct bench {
  CUkernel set, add;
  CUstream a, b;
  CUevent event;
  CUdeviceptr x;
};

static bench make_bench() {
  make_context();
  CUlibrary library = load_image("good_kernels.so");
  return {get_kernel(library, "set_value"),
          get_kernel(library, "add_value"),
          make_stream(),
          make_stream(),
          make_event(),
          allocate(4)};
}

static void begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
  MUST(cu.cuStreamBeginCapture_v2(stream, mode));
}

static CUstreamCaptureStatus status_of(CUstream stream) {
  CUstreamCaptureStatus status;
  MUST(cu.cuStreamIsCapturing(stream, &status));
  return status;
}

// The capture of the stream is broken, and ends so.
static void expect_invalid(CUstream stream) {
  CUgraph graph;
  EXPECT(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(stream, &graph));
  EXPECT(!graph && status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
}

static void capture_records_and_replays() {
  const bench t = make_bench();
  CUgraph graph;
  begin(t.a);
  MUST(launch(t.set, t.a, {}, t.x, 3));
  MUST(launch(t.add, t.a, {}, t.x, 4));
  EXPECT(status_of(t.a) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  MUST(cu.cuStreamEndCapture(t.a, &graph));
  EXPECT(read_back<int>(t.x, 1, t.a)[0] == -1); // nothing has run
  CUgraphExec executable = instantiate(graph);
  MUST(cu.cuGraphDestroy(graph));
  MUST(cu.cuGraphUpload(executable, t.a));
  for (int i = 0; i < 3; i++) MUST(cu.cuGraphLaunch(executable, t.a));
  EXPECT(read_back<int>(t.x, 1, t.a)[0] == 7);
}

static void forks_join_through_events() {
  const bench t = make_bench();
  CUevent back = make_event();
  CUgraph graph;
  size_t count = 0;
  begin(t.a);
  MUST(launch(t.set, t.a, {}, t.x, 1));
  MUST(cu.cuEventRecord(t.event, t.a));
  MUST(cu.cuStreamWaitEvent(t.b, t.event, 0));
  EXPECT(status_of(t.b) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  MUST(launch(t.add, t.b, {}, t.x, 1));
  MUST(cu.cuEventRecord(back, t.b));
  MUST(cu.cuStreamWaitEvent(t.a, back, 0));
  MUST(launch(t.add, t.a, {}, t.x, 2));
  MUST(cu.cuStreamEndCapture(t.a, &graph));
  EXPECT(status_of(t.b) == CU_STREAM_CAPTURE_STATUS_NONE);
  MUST(cu.cuGraphGetNodes(graph, nullptr, &count));
  EXPECT(count == 3);
  MUST(cu.cuGraphGetEdges_v2(graph, nullptr, nullptr, nullptr, &count));
  EXPECT(count == 3);
  MUST(cu.cuGraphLaunch(instantiate(graph), t.a));
  EXPECT(read_back<int>(t.x, 1, t.a)[0] == 4);
}

static void capture_info_tells_the_graph() {
  const bench t = make_bench();
  CUstreamCaptureStatus status;
  cuuint64_t id = 0;
  CUgraph graph, ended;
  const CUgraphNode *nodes;
  const CUgraphEdgeData *edges;
  size_t count = 0, all = 0;
  begin(t.a);
  MUST(launch(t.set, t.a, {}, t.x, 1));
  MUST(launch(t.add, t.a, {}, t.x, 1));
  MUST(cu.cuStreamGetCaptureInfo_v3(t.a, &status, &id, &graph, &nodes, &edges, &count));
  EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id && count == 1);
  CUgraphNode node = nodes[0], found[2];
  MUST(cu.cuGraphGetNodes(graph, nullptr, &all));
  EXPECT(all == 2);
  MUST(cu.cuGraphGetNodes(graph, found, &all));
  EXPECT(found[1] == node);
  MUST(cu.cuStreamUpdateCaptureDependencies_v2(t.a, found, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  MUST(cu.cuStreamGetCaptureInfo_v3(t.a, &status, &id, &graph, &nodes, &edges, &count));
  EXPECT(count == 1 && nodes[0] == found[0]);
  MUST(cu.cuStreamUpdateCaptureDependencies_v2(t.a, found, nullptr, 2, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphDestroy(graph));
  MUST(cu.cuStreamEndCapture(t.a, &ended));
  EXPECT(ended == graph);
}

static void programmatic_launch_becomes_an_edge() {
  const bench t = make_bench();
  CUgraph graph;
  CUgraphNode from, to;
  CUgraphEdgeData data;
  size_t count = 1;
  begin(t.a);
  MUST(launch(t.set, t.a, {1, 1, 0, true}, t.x, 1));
  MUST(launch(t.add, t.a, {1, 1, 0, true}, t.x, 1));
  MUST(cu.cuStreamEndCapture(t.a, &graph));
  EXPECT_CODE(CUDA_ERROR_LOSSY_QUERY, cu.cuGraphGetEdges_v2(graph, &from, &to, nullptr, &count));
  MUST(cu.cuGraphGetEdges_v2(graph, &from, &to, &data, &count));
  EXPECT(count == 1 && data.from_port == 1 && data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
  EXPECT_CODE(CUDA_ERROR_LOSSY_QUERY, cu.cuGraphNodeGetDependencies_v2(to, &from, nullptr, &count));
}

static void waiting_is_forbidden() { // 900
  const bench t = make_bench();
  begin(t.a);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamSynchronize(t.a));
  expect_invalid(t.a);
  begin(t.a);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamQuery(t.a));
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, launch(t.set, t.a, {}, t.x, 1)); // 901
  expect_invalid(t.a);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
              cu.cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static void allocating_is_unsafe() { // 900
  const bench t = make_bench();
  CUdeviceptr start;
  begin(t.a);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuMemAlloc_v2(&start, 4));
  expect_invalid(t.a);
  begin(t.a);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuMemFree_v2(t.x));
  expect_invalid(t.a);
  begin(t.a, CU_STREAM_CAPTURE_MODE_RELAXED);
  MUST(cu.cuMemAlloc_v2(&start, 4));
  CUgraph graph;
  MUST(cu.cuStreamEndCapture(t.a, &graph));
}

// In another thread of this mode.
template <typename Call> static CUresult call_elsewhere(CUstreamCaptureMode mode, Call call) {
  CUresult code = CUDA_SUCCESS;
  CUcontext context;
  MUST(cu.cuCtxGetCurrent(&context));
  std::thread([&] {
    MUST(cu.cuCtxSetCurrent(context));
    MUST(cu.cuThreadExchangeStreamCaptureMode(&mode));
    code = call();
  }).join();
  return code;
}

static CUresult allocate_elsewhere(CUstreamCaptureMode mode) {
  CUdeviceptr start;
  return call_elsewhere(mode, [&] { return cu.cuMemAlloc_v2(&start, 4); });
}

static void other_threads_are_asked() {
  const bench t = make_bench();
  CUgraph graph;
  begin(t.a, CU_STREAM_CAPTURE_MODE_GLOBAL);
  MUST(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_RELAXED));
  MUST(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL));
  expect_invalid(t.a);
  begin(t.a);
  MUST(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL)); // a thread-local capture is nobody else's business
  MUST(cu.cuStreamEndCapture(t.a, &graph));
}

// A thread's mode says what it is told, not what happens to others: what waits for the context waits for what is being
// captured too.
static void waiting_for_the_context_breaks_all() { // 901
  const bench t = make_bench();
  CUlibrary other = load_image("good_kernels.so");
  CUfunction function;
  void *pinned;
  MUST(cu.cuMemHostAlloc(&pinned, 4, 0));
  MUST(cu.cuKernelGetFunction(&function, t.set));
  const auto breaks = [&](CUstreamCaptureMode captured, CUresult wanted, auto call) {
    begin(t.a, captured);
    EXPECT_CODE(wanted, call_elsewhere(CU_STREAM_CAPTURE_MODE_RELAXED, call));
    EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, launch(t.set, t.a, {}, t.x, 1));
    expect_invalid(t.a);
  };
  for (auto mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    const CUdeviceptr freed = allocate(4);
    breaks(mode, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [] { return cu.cuCtxSynchronize(); });
    breaks(mode, CUDA_SUCCESS, [&] { return cu.cuMemFree_v2(freed); });
  }
  const auto thread_local_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  breaks(thread_local_mode, CUDA_SUCCESS, [&] { return cu.cuMemFreeHost(pinned); });
  breaks(thread_local_mode, CUDA_SUCCESS, [&] { return cu.cuLibraryUnload(other); });
  breaks(thread_local_mode, CUDA_SUCCESS, [&] {
    load_image("good_kernels.so");
    return CUDA_SUCCESS;
  });
  breaks(thread_local_mode, CUDA_SUCCESS, [&] { return cu.cuFuncLoad(function); });
  CUgraph graph;
  begin(t.a);
  MUST(call_elsewhere(thread_local_mode, [&] { return cu.cuFuncLoad(function); })); // it is there already
  MUST(cu.cuStreamEndCapture(t.a, &graph));
}

static void captures_do_not_merge() { // 902
  const bench t = make_bench();
  begin(t.a);
  begin(t.b);
  MUST(cu.cuEventRecord(t.event, t.a));
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_MERGE, cu.cuStreamWaitEvent(t.b, t.event, 0));
  expect_invalid(t.a);
  expect_invalid(t.b);
}

static void fork(const bench &t) {
  begin(t.a);
  MUST(launch(t.set, t.a, {}, t.x, 1));
  MUST(cu.cuEventRecord(t.event, t.a));
  MUST(cu.cuStreamWaitEvent(t.b, t.event, 0));
  MUST(launch(t.add, t.b, {}, t.x, 1));
}

static void only_the_origin_ends() { // 903
  const bench t = make_bench();
  CUgraph graph;
  fork(t);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cu.cuStreamEndCapture(t.b, &graph));
  expect_invalid(t.a);
}

static void forks_must_join() { // 904
  const bench t = make_bench();
  CUgraph graph;
  fork(t);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cu.cuStreamEndCapture(t.a, &graph));
  EXPECT(!graph && status_of(t.a) == CU_STREAM_CAPTURE_STATUS_NONE && status_of(t.b) == CU_STREAM_CAPTURE_STATUS_NONE);
}

static void outside_events_are_isolated() { // 905
  const bench t = make_bench();
  MUST(cu.cuEventRecord(t.event, t.b));
  begin(t.a);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cu.cuStreamWaitEvent(t.a, t.event, 0));
  expect_invalid(t.a);
}

static void legacy_stream_depends_implicitly() { // 906
  const bench t = make_bench();
  CUstream blocking;
  CUgraph graph;
  MUST(cu.cuStreamCreateWithPriority(&blocking, CU_STREAM_DEFAULT, 0));
  begin(t.a); // a non-blocking stream does not mind
  MUST(launch(t.set, nullptr, {}, t.x, 1));
  MUST(cu.cuStreamEndCapture(t.a, &graph));
  begin(blocking);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, launch(t.set, nullptr, {}, t.x, 1));
  expect_invalid(blocking);
}

static void captured_events_mark_no_work() { // 907
  const bench t = make_bench();
  begin(t.a);
  MUST(cu.cuEventRecord(t.event, t.a));
  EXPECT_CODE(CUDA_ERROR_CAPTURED_EVENT, cu.cuEventQuery(t.event));
  expect_invalid(t.a);
  EXPECT_CODE(CUDA_ERROR_CAPTURED_EVENT, cu.cuEventSynchronize(t.event));
  MUST(cu.cuEventRecord(t.event, t.b));
  MUST(cu.cuEventSynchronize(t.event));
}

static void the_same_thread_ends() { // 908
  const bench t = make_bench();
  CUgraph graph;
  CUcontext context;
  CUresult code = CUDA_SUCCESS;
  MUST(cu.cuCtxGetCurrent(&context));
  begin(t.a);
  std::thread([&] {
    MUST(cu.cuCtxSetCurrent(context));
    code = cu.cuStreamEndCapture(t.a, &graph);
  }).join();
  EXPECT(code == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  MUST(cu.cuStreamEndCapture(t.a, &graph));
}

static void captures_do_not_nest() { // 401
  const bench t = make_bench();
  CUgraph graph;
  EXPECT_CODE(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamEndCapture(t.a, &graph));
  begin(t.a);
  EXPECT_CODE(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamBeginCapture_v2(t.a, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static void two_threads_capture_at_once() {
  const bench t = make_bench();
  CUcontext context;
  MUST(cu.cuCtxGetCurrent(&context));
  const auto work = [&](CUstream stream) {
    MUST(cu.cuCtxSetCurrent(context));
    for (int i = 0; i < 100; i++) {
      CUgraph graph;
      size_t count = 0;
      begin(stream);
      for (int k = 0; k < 5; k++) MUST(launch(t.add, stream, {}, t.x, 0));
      MUST(cu.cuStreamEndCapture(stream, &graph));
      MUST(cu.cuGraphGetNodes(graph, nullptr, &count));
      EXPECT(count == 5);
      CUgraphExec executable = instantiate(graph);
      MUST(cu.cuGraphLaunch(executable, stream));
      MUST(cu.cuStreamSynchronize(stream));
      MUST(cu.cuGraphExecDestroy(executable));
      MUST(cu.cuGraphDestroy(graph));
    }
  };
  std::thread other(work, t.b);
  work(t.a);
  other.join();
}

int main() {
  return run({
      {"a capture records and replays", capture_records_and_replays},
      {"forks join through events", forks_join_through_events, all, {{"SEED", "2"}}},
      {"capture info tells the graph", capture_info_tells_the_graph, eager},
      {"a programmatic launch becomes an edge", programmatic_launch_becomes_an_edge, eager},
      {"900: waiting is forbidden", waiting_is_forbidden},
      {"900: allocating is unsafe", allocating_is_unsafe},
      {"900: other threads are asked", other_threads_are_asked, eager},
      {"901: waiting for the context breaks all", waiting_for_the_context_breaks_all},
      {"902: captures do not merge", captures_do_not_merge, eager},
      {"903: only the origin ends", only_the_origin_ends, eager},
      {"904: forks must join", forks_must_join, eager},
      {"905: outside events are isolated", outside_events_are_isolated, eager},
      {"906: the legacy stream depends implicitly", legacy_stream_depends_implicitly, eager},
      {"907: captured events mark no work", captured_events_mark_no_work},
      {"908: the same thread ends", the_same_thread_ends, eager},
      {"401: captures do not nest", captures_do_not_nest, eager},
      {"two threads capture at once", two_threads_capture_at_once},
  });
}
