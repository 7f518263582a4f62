/* SPDX-License-Identifier: MIT
 *
 * Graphs that are made of recordings: their edges, code that is gone, calls that the driver refuses.
 */
#include "failing_memory.h"

#include "cuda_mixes.h"

/* The edges of the graph that kernels may overlap on. */
static uint32_t count_dependent_edges(const ord_capture *captured) {
  CUresult (*get_edges)(CUgraph, CUgraphNode *, CUgraphNode *, CUgraphEdgeData *, size_t *) = NULL;
  *(void **)&get_edges = driver_function("cuGraphGetEdges_v2");
  const CUgraph graph = ((const ord_cuda_capture *)captured)->graph;
  CUgraphNode from[64], to[64];
  CUgraphEdgeData edge[64];
  size_t count = 64;
  uint32_t found = 0;
  assert_int_equal(get_edges(graph, from, to, edge, &count), CUDA_SUCCESS);
  assert_int_equal(count, captured->report.step_count ? captured->report.node_count - 1 : 0);
  for (size_t i = 0; i < count; i++)
    found += edge[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
             edge[i].from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  return found;
}

static void dependent_launches(void **state) {
  (void)state;
  for (int is_off = 0; is_off < 2; is_off++) {
    ord_cuda_options options = *cuda_options();
    options.no_dependent_launch = is_off;
    plan_stage s = open_plan_stage(&options);
    hand_plan *h = open_mixes(&s);
    ord_capture *captured = capture(h);
    const bool has_edges = !is_off && s.device->info.compute_capability >= 90;
    assert_int_equal(count_dependent_edges(captured), has_edges ? 2 * MIXES - 1 : 0);
    write_inputs(h, 3);
    replay(h, captured);
    assert_right(h, 3);
    s.table->capture_destroy(captured);
    close_hand_plan(h);
    close_plan_stage(&s);
  }
}

static void test_dependent_launches(void **state) {
  (void)state;
  run_in_all_orders("dependent launches", dependent_launches);
}

/* Code that is gone when the graph is instantiated. */
static void lost_code(void **state) {
  (void)state;
  needs_simulator("a real driver need not notice");
  plan_stage s = open_plan_stage(cuda_options());
  hand_plan *h = open_mixes(&s);
  ord_cuda_device *device = (ord_cuda_device *)s.device;
  ord_error err = ORD_ERROR_INIT;
  ord_capture *captured = capture(h);
  const ord_cuda_recording *recording = &((const ord_cuda_capture *)captured)->recording;
  CUgraph graph = NULL;
  CUgraphExec executable = NULL;
  assert_int_equal(device->call.GraphCreate(&graph, 0), CUDA_SUCCESS);
  ord_cuda_chain chain = {.device = device, .graph = graph};
  MUST(ord_cuda_chain_add(&chain, recording, &err));
  ord_cuda_plugins_destroy(device);
  MUST_FAIL(ord_cuda_graph_finish((ord_cuda_queue *)h->queue, graph, &chain, &executable, &err),
            "layer.0.a: kernel steps_mix of plugin cuda_steps: capture failed: instantiating the graph, result 1: "
            "cuGraphInstantiateWithParams failed: CUDA_ERROR_INVALID_VALUE (1)");
  assert_null(executable);
  ord_cuda_chain_finish(&chain);
  ord_cuda_graph_destroy(device, graph, NULL);
  s.table->capture_destroy(captured);
  h->plan.step_count = 0; /* the services of the plugin went with its code */
  close_hand_plan(h);
  close_plan_stage(&s);
}

static void test_lost_code(void **state) {
  (void)state;
  run_in_child("lost code", lost_code, NULL);
}

/* Calls that a driver refuses. */
#define IGNORED __attribute__((unused))
#define REFUSED(name, ...)                                                                                             \
  static CUresult refused_##name(__VA_ARGS__) { return CUDA_ERROR_NOT_SUPPORTED; }
REFUSED(begin, IGNORED CUstream stream, IGNORED CUstreamCaptureMode mode)
REFUSED(nodes, IGNORED CUgraph graph, IGNORED CUgraphNode *node, IGNORED size_t *count)
REFUSED(type, IGNORED CUgraphNode node, IGNORED CUgraphNodeType *type)
REFUSED(create, IGNORED CUgraph *graph, IGNORED unsigned flags)
REFUSED(add, IGNORED CUgraphNode *node, IGNORED CUgraph graph, IGNORED const CUgraphNode *before,
        IGNORED const CUgraphEdgeData *edge, IGNORED size_t count, IGNORED CUgraphNodeParams *asked)
REFUSED(instantiate, IGNORED CUgraphExec *made, IGNORED CUgraph graph, IGNORED CUDA_GRAPH_INSTANTIATE_PARAMS *asked)
REFUSED(upload, IGNORED CUgraphExec executable, IGNORED CUstream stream)
REFUSED(launch, IGNORED CUgraphExec executable, IGNORED CUstream stream)
REFUSED(event, IGNORED CUevent *event, IGNORED unsigned flags)
REFUSED(record, IGNORED CUevent event, IGNORED CUstream stream)

static void refused_calls(void **state) {
  (void)state;
  plan_stage s = open_plan_stage(cuda_options());
  hand_plan *h = open_mixes(&s);
  ord_cuda_calls *call = replace_calls(s.device), without[10];
  static const char *const name[] = {
      "cuStreamBeginCapture",         "cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphCreate", "cuGraphAddNode",
      "cuGraphInstantiateWithParams", "cuGraphUpload",   "cuGraphLaunch",      "cuEventCreate", "cuEventRecord"};
  for (int i = 0; i < 10; i++) without[i] = real_calls;
  without[0].StreamBeginCapture = refused_begin;
  without[1].GraphGetNodes = refused_nodes;
  without[2].GraphNodeGetType = refused_type;
  without[3].GraphCreate = refused_create;
  without[4].GraphAddNode = refused_add;
  without[5].GraphInstantiateWithParams = refused_instantiate;
  without[6].GraphUpload = refused_upload;
  without[7].GraphLaunch = refused_launch;
  without[8].EventCreate = refused_event;
  without[9].EventRecord = refused_record;
  const long live = live_count;
  for (int i = 0; i < 10; i++) {
    ord_error err = ORD_ERROR_INIT;
    ord_capture *captured = NULL;
    uint64_t ns[MIXES];
    char part[120];
    snprintf(part, sizeof part, "%s failed: CUDA_ERROR_NOT_SUPPORTED (801)", name[i]);
    *call = without[i];
    MUST_FAIL(s.table->capture(h->queue, &h->plan, &h->memory, &captured, &err) &&
                  s.table->replay(h->queue, captured, NULL, &err) &&
                  s.table->run_eager(h->queue, &h->plan, &h->memory, &(ord_run_options){.step_ns = ns}, &err),
              part);
    *call = real_calls;
    assert_int_equal(captured != NULL, i >= 7);
    s.table->capture_destroy(captured);
    assert_int_equal(live_count, live);
  }
  write_inputs(h, 1);
  run_eager(h, NULL);
  assert_right(h, 1);
  close_hand_plan(h);
  close_plan_stage(&s);
}

static void test_refused_calls(void **state) {
  (void)state;
  run_in_child("refused calls", refused_calls, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dependent_launches),
      cmocka_unit_test(test_lost_code),
      cmocka_unit_test(test_refused_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
