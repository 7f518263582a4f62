// SPDX-License-Identifier: MIT
// Graphs built by hand, what instantiation refuses, the WHILE node, updates.
#include <cstring>

#include "harness.h"

using namespace harness;

struct bench {
  CUlibrary library;
  CUkernel set, add;
  CUstream stream;
  CUdeviceptr x;
  CUgraph graph;
  CUcontext context;
};

static bench make_bench() {
  make_context();
  CUlibrary library = load_image("good_kernels.so");
  bench made = {
      library, get_kernel(library, "set_value"), get_kernel(library, "add_value"), make_stream(), allocate(8), nullptr,
      nullptr};
  MUST(cu.cuCtxGetCurrent(&made.context));
  MUST(cu.cuGraphCreate(&made.graph, 0));
  MUST(cu.cuMemsetD32Async(made.x, 0, 2, made.stream));
  MUST(cu.cuStreamSynchronize(made.stream));
  return made;
}

static CUresult try_kernel(const bench &t, CUgraph graph, CUkernel kernel, int value, std::vector<CUgraphNode> after,
                           CUgraphNode *node, const CUgraphEdgeData *edges = nullptr) {
  CUdeviceptr x = t.x;
  void *parameters[] = {&x, &value};
  CUgraphNodeParams asked = kernel_node(kernel, {}, parameters);
  return cu.cuGraphAddNode_v2(node, graph, after.data(), edges, after.size(), &asked);
}

static CUgraphNode add_kernel(const bench &t, CUgraph graph, CUkernel kernel, int value,
                              std::vector<CUgraphNode> after = {}) {
  CUgraphNode node;
  MUST(try_kernel(t, graph, kernel, value, std::move(after), &node));
  return node;
}

static int run_graph(const bench &t, CUgraphExec executable) {
  MUST(cu.cuGraphLaunch(executable, t.stream));
  return read_back<int>(t.x, 1, t.stream)[0];
}

static void nodes_follow_their_dependencies() {
  const bench t = make_bench();
  CUgraphNode first = add_kernel(t, t.graph, t.set, 1), second = add_kernel(t, t.graph, t.add, 2, {first});
  CUgraphNode third = add_kernel(t, t.graph, t.set, 9);
  MUST(cu.cuGraphAddDependencies_v2(t.graph, &third, &first, nullptr, 1));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddDependencies_v2(t.graph, &third, &first, nullptr, 1));
  CUgraphNode before[2];
  size_t count = 2;
  MUST(cu.cuGraphNodeGetDependencies_v2(second, before, nullptr, &count));
  EXPECT(count == 1 && before[0] == first && !before[1]);
  EXPECT(run_graph(t, instantiate(t.graph)) == 3);
  MUST(cu.cuGraphDestroyNode(second));
  EXPECT(run_graph(t, instantiate(t.graph)) == 1);
}

static void unordered_nodes_vary() {
  const bench t = make_bench();
  add_kernel(t, t.graph, t.set, 1);
  add_kernel(t, t.graph, t.set, 2);
  CUgraphExec executable = instantiate(t.graph);
  bool has[3] = {};
  for (int i = 0; i < 32; i++) has[run_graph(t, executable)] = true;
  EXPECT(has[1] && has[2]);
}

static void cycles_are_refused() {
  const bench t = make_bench();
  CUgraphNode a = add_kernel(t, t.graph, t.set, 1), b = add_kernel(t, t.graph, t.set, 1, {a});
  MUST(cu.cuGraphAddDependencies_v2(t.graph, &b, &a, nullptr, 1));
  CUgraphExec executable;
  CUDA_GRAPH_INSTANTIATE_PARAMS asked = {};
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphInstantiateWithParams(&executable, t.graph, &asked));
  EXPECT(asked.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
}

static void copies_and_fills_are_nodes() {
  const bench t = make_bench();
  CUgraphNodeParams fill = {}, copy = {}, empty = {};
  CUgraphNode a, b, c;
  fill.type = CU_GRAPH_NODE_TYPE_MEMSET;
  fill.memset = {t.x + 4, 0, 77, 4, 1, 1, t.context};
  MUST(cu.cuGraphAddNode_v2(&a, t.graph, nullptr, nullptr, 0, &fill));
  empty.type = CU_GRAPH_NODE_TYPE_EMPTY;
  MUST(cu.cuGraphAddNode_v2(&b, t.graph, &a, nullptr, 1, &empty));
  copy.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  copy.memcpy.copyCtx = t.context;
  copy.memcpy.copyParams.srcMemoryType = copy.memcpy.copyParams.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.memcpy.copyParams.srcDevice = t.x + 4;
  copy.memcpy.copyParams.dstDevice = t.x;
  copy.memcpy.copyParams.WidthInBytes = 4;
  copy.memcpy.copyParams.Height = copy.memcpy.copyParams.Depth = 1;
  MUST(cu.cuGraphAddNode_v2(&c, t.graph, &b, nullptr, 1, &copy));
  EXPECT(run_graph(t, instantiate(t.graph)) == 77);
  CUDA_MEMSET_NODE_PARAMS got_fill;
  CUDA_MEMCPY3D got_copy;
  CUgraphNodeType type;
  MUST(cu.cuGraphMemsetNodeGetParams(a, &got_fill));
  MUST(cu.cuGraphMemcpyNodeGetParams(c, &got_copy));
  MUST(cu.cuGraphNodeGetType(b, &type));
  EXPECT(got_fill.value == 77 && got_copy.dstDevice == t.x && type == CU_GRAPH_NODE_TYPE_EMPTY);
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphMemcpyNodeGetParams(a, &got_copy));
}

static void unused_bytes_must_be_zero() {
  const bench t = make_bench();
  CUgraphNodeParams asked = {};
  CUgraphNode node;
  asked.type = CU_GRAPH_NODE_TYPE_EMPTY;
  asked.reserved1[28] = 1;
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddNode_v2(&node, t.graph, nullptr, nullptr, 0, &asked));
  asked.reserved1[28] = 0;
  asked.reserved2 = 1;
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddNode_v2(&node, t.graph, nullptr, nullptr, 0, &asked));
  asked.reserved2 = 0;
  asked.type = CU_GRAPH_NODE_TYPE_HOST;
  EXPECT_CODE(CUDA_ERROR_NOT_SUPPORTED, cu.cuGraphAddNode_v2(&node, t.graph, nullptr, nullptr, 0, &asked));
}

static void edges_are_checked() {
  const bench t = make_bench();
  CUgraphNode a = add_kernel(t, t.graph, t.set, 1), b, c, empty;
  CUgraphEdgeData edge = {};
  edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, try_kernel(t, t.graph, t.add, 1, {a}, &b, &edge));
  edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  MUST(try_kernel(t, t.graph, t.add, 1, {a}, &b, &edge));
  edge.reserved[0] = 1;
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, try_kernel(t, t.graph, t.add, 1, {a}, &c, &edge));
  edge.reserved[0] = 0;
  CUgraphNodeParams asked = {};
  asked.type = CU_GRAPH_NODE_TYPE_EMPTY; // only kernels overlap
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddNode_v2(&empty, t.graph, &a, &edge, 1, &asked));
  EXPECT(run_graph(t, instantiate(t.graph)) == 2);
}

static CUgraphNodeParams child_node(CUgraph child) {
  CUgraphNodeParams asked = {};
  asked.type = CU_GRAPH_NODE_TYPE_GRAPH;
  asked.graph.graph = child;
  return asked;
}

static void children_are_copies() {
  const bench t = make_bench();
  CUgraph child, inside;
  CUgraphNode node;
  MUST(cu.cuGraphCreate(&child, 0));
  CUgraphNode first = add_kernel(t, child, t.set, 5);
  CUgraphNodeParams asked = child_node(child);
  MUST(cu.cuGraphAddNode_v2(&node, t.graph, nullptr, nullptr, 0, &asked));
  add_kernel(t, child, t.add, 100, {first}); // too late for the copy
  add_kernel(t, t.graph, t.add, 1, {node});
  MUST(cu.cuGraphDestroy(child));
  EXPECT(run_graph(t, instantiate(t.graph)) == 6);
  MUST(cu.cuGraphChildGraphNodeGetGraph(node, &inside));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphDestroy(inside));
}

struct loop {
  CUgraphConditionalHandle handle;
  CUgraphNode node;
  CUgraph body;
};

static CUresult try_loop(const bench &t, CUgraph graph, CUgraphConditionalHandle handle, loop &made) {
  CUgraphNodeParams asked = {};
  asked.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  asked.conditional.handle = made.handle = handle;
  asked.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
  asked.conditional.size = 1;
  asked.conditional.ctx = t.context;
  const CUresult code = cu.cuGraphAddNode_v2(&made.node, graph, nullptr, nullptr, 0, &asked);
  if (code == CUDA_SUCCESS) made.body = asked.conditional.phGraph_out[0];
  return code;
}

static CUgraphConditionalHandle make_handle(const bench &t, CUgraph graph) {
  CUgraphConditionalHandle handle;
  MUST(cu.cuGraphConditionalHandleCreate(&handle, graph, t.context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
  return handle;
}

// A loop whose body counts x[0] down and adds it to x[1].
static loop add_loop(const bench &t, CUgraphConditionalHandle handle, CUgraphConditionalHandle in_kernel) {
  loop made;
  MUST(try_loop(t, t.graph, handle, made));
  CUdeviceptr left = t.x, sum = t.x + 4;
  void *parameters[] = {&left, &sum, &in_kernel};
  CUgraphNodeParams asked = kernel_node(get_kernel(t.library, "count_down"), {}, parameters);
  CUgraphNode node;
  MUST(cu.cuGraphAddNode_v2(&node, made.body, nullptr, nullptr, 0, &asked));
  return made;
}

static void loops_run_until_their_kernel_says() {
  const bench t = make_bench();
  const CUgraphConditionalHandle handle = make_handle(t, t.graph);
  const loop made = add_loop(t, handle, handle);
  CUgraphExec executable = instantiate(t.graph);
  for (int i = 0; i < 2; i++) { // the default is applied at each launch
    MUST(cu.cuMemsetD32Async(t.x, 10, 1, t.stream));
    MUST(cu.cuGraphLaunch(executable, t.stream));
  }
  EXPECT(read_back<int>(t.x, 2, t.stream) == (std::vector<int>{0, 110}));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphDestroy(made.body)); // the node owns it
}

static void loops_have_one_executable() { // 801
  const bench t = make_bench();
  const CUgraphConditionalHandle handle = make_handle(t, t.graph);
  add_loop(t, handle, handle);
  CUgraphExec first = instantiate(t.graph), second;
  CUDA_GRAPH_INSTANTIATE_PARAMS asked = {};
  EXPECT_CODE(CUDA_ERROR_NOT_SUPPORTED, cu.cuGraphInstantiateWithParams(&second, t.graph, &asked));
  MUST(cu.cuGraphExecDestroy(first));
  instantiate(t.graph);
  CUgraph parent;
  CUgraphNode node;
  MUST(cu.cuGraphCreate(&parent, 0));
  CUgraphNodeParams child = child_node(t.graph);
  EXPECT_CODE(CUDA_ERROR_NOT_SUPPORTED, cu.cuGraphAddNode_v2(&node, parent, nullptr, nullptr, 0, &child));
}

static void handles_must_be_used_once() { // result 5
  const bench t = make_bench();
  const CUgraphConditionalHandle handle = make_handle(t, t.graph);
  add_loop(t, handle, handle);
  loop again;
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, try_loop(t, t.graph, handle, again));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, try_loop(t, t.graph, 12345, again));
  make_handle(t, t.graph);
  CUgraphExec executable;
  CUDA_GRAPH_INSTANTIATE_PARAMS asked = {};
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphInstantiateWithParams(&executable, t.graph, &asked));
  EXPECT(asked.result_out == CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
}

static void foreign_handles_fault() { // 700
  const bench t = make_bench();
  CUgraph other;
  MUST(cu.cuGraphCreate(&other, 0));
  add_loop(t, make_handle(t, t.graph), make_handle(t, other));
  cu.cuGraphLaunch(instantiate(t.graph), t.stream);
  EXPECT_CODE(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(t.stream));
}

static void handles_work_in_graphs_only() { // 700
  const bench t = make_bench();
  launch(get_kernel(t.library, "count_down"), t.stream, {}, t.x, t.x + 4, make_handle(t, t.graph));
  EXPECT_CODE(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(t.stream));
}

static void endless_loops_are_ended() { // 702
  const bench t = make_bench();
  loop made;
  MUST(try_loop(t, t.graph, make_handle(t, t.graph), made));
  add_kernel(t, made.body, t.add, 1);
  cu.cuGraphLaunch(instantiate(t.graph), t.stream);
  EXPECT_CODE(CUDA_ERROR_LAUNCH_TIMEOUT, cu.cuStreamSynchronize(t.stream));
  EXPECT(fault_text(CUDA_ERROR_LAUNCH_TIMEOUT).find("50 times") != std::string::npos);
}

static void bodies_touch_no_pageable_memory() {
  const bench t = make_bench();
  loop made;
  MUST(try_loop(t, t.graph, make_handle(t, t.graph), made));
  int pageable = 1;
  CUgraphNodeParams copy = {};
  copy.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  copy.memcpy.copyParams.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.memcpy.copyParams.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.memcpy.copyParams.srcHost = &pageable;
  copy.memcpy.copyParams.dstDevice = t.x;
  copy.memcpy.copyParams.WidthInBytes = 4;
  copy.memcpy.copyParams.Height = copy.memcpy.copyParams.Depth = 1;
  CUgraphNode node;
  MUST(cu.cuGraphAddNode_v2(&node, made.body, nullptr, nullptr, 0, &copy));
  CUgraphExec executable;
  CUDA_GRAPH_INSTANTIATE_PARAMS asked = {};
  EXPECT_CODE(CUDA_ERROR_NOT_SUPPORTED, cu.cuGraphInstantiateWithParams(&executable, t.graph, &asked));
  EXPECT(asked.hErrNode_out == node);
}

static void parameters_change_between_launches() {
  const bench t = make_bench();
  CUgraphNode node = add_kernel(t, t.graph, t.set, 1);
  CUgraphExec executable = instantiate(t.graph);
  CUDA_KERNEL_NODE_PARAMS asked;
  MUST(cu.cuGraphKernelNodeGetParams_v2(node, &asked));
  EXPECT(asked.kern == t.set && !asked.func && *static_cast<int *>(asked.kernelParams[1]) == 1);
  int value = 2;
  void *parameters[] = {asked.kernelParams[0], &value};
  asked.kernelParams = parameters;
  MUST(cu.cuGraphExecKernelNodeSetParams_v2(executable, node, &asked));
  EXPECT(run_graph(t, executable) == 2);
  value = 3;
  MUST(cu.cuGraphKernelNodeSetParams_v2(node, &asked)); // the graph, not what was made from it
  EXPECT(run_graph(t, executable) == 2);
  CUgraphExecUpdateResultInfo result;
  MUST(cu.cuGraphExecUpdate_v2(executable, t.graph, &result));
  EXPECT(run_graph(t, executable) == 3);
  CUgraphNode more = add_kernel(t, t.graph, t.add, 1, {node});
  EXPECT_CODE(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cu.cuGraphExecUpdate_v2(executable, t.graph, &result));
  EXPECT(result.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  executable = instantiate(t.graph);
  MUST(cu.cuGraphNodeSetEnabled(executable, more, 0));
  EXPECT(run_graph(t, executable) == 3);
  MUST(cu.cuGraphNodeSetEnabled(executable, more, 1));
  EXPECT(run_graph(t, executable) == 4);
}

static void body_nodes_change_through_the_executable() {
  const bench t = make_bench();
  const CUgraphConditionalHandle handle = make_handle(t, t.graph);
  const loop made = add_loop(t, handle, handle);
  CUgraphExec executable = instantiate(t.graph);
  CUgraphNode node;
  size_t count = 1;
  CUDA_KERNEL_NODE_PARAMS asked;
  MUST(cu.cuGraphGetNodes(made.body, &node, &count));
  MUST(cu.cuGraphKernelNodeGetParams_v2(node, &asked));
  CUdeviceptr left = t.x + 4, sum = t.x;
  void *parameters[] = {&left, &sum, asked.kernelParams[2]};
  asked.kernelParams = parameters;
  MUST(cu.cuGraphExecKernelNodeSetParams_v2(executable, node, &asked));
  MUST(cu.cuMemsetD32Async(t.x + 4, 3, 1, t.stream));
  EXPECT(run_graph(t, executable) == 6);
}

int main() {
  return run({
      {"nodes follow their dependencies", nodes_follow_their_dependencies, all, {{"SEED", "4"}}},
      {"unordered nodes vary", unordered_nodes_vary, eager, {{"SEED", "1"}}},
      {"cycles are refused", cycles_are_refused, eager},
      {"copies and fills are nodes", copies_and_fills_are_nodes},
      {"unused bytes must be zero", unused_bytes_must_be_zero, eager},
      {"edges are checked", edges_are_checked, eager},
      {"children are copies", children_are_copies},
      {"loops run until their kernel says", loops_run_until_their_kernel_says},
      {"801: loops have one executable", loops_have_one_executable, eager},
      {"result 5: handles must be used once", handles_must_be_used_once, eager},
      {"700: foreign handles fault", foreign_handles_fault},
      {"700: handles work in graphs only", handles_work_in_graphs_only},
      {"702: endless loops are ended", endless_loops_are_ended, all, {{"LOOP_LIMIT", "50"}}},
      {"bodies touch no pageable memory", bodies_touch_no_pageable_memory, eager},
      {"parameters change between launches", parameters_change_between_launches},
      {"body nodes change through the executable", body_nodes_change_through_the_executable},
  });
}
