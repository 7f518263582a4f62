/* SPDX-License-Identifier: MIT
 *
 * What the work of one step may be, once it was captured: kernels, memsets and copies within the device, in graphs that
 * hold such. Anything else has no place in a graph that is replayed, or in the body of a WHILE node. What a kernel
 * declared is held against it: a plan counts on it.
 */
#include <stdlib.h>

#include "runtime/cuda.h"

static const char *name_type(CUgraphNodeType type) {
  switch (type) {
  case CU_GRAPH_NODE_TYPE_HOST:
    return "a call of the host";
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return "an event";
  case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
  case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    return "a semaphore";
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    return "an allocation";
  case CU_GRAPH_NODE_TYPE_MEM_FREE:
    return "a freeing of memory";
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return "a conditional";
  default:
    return "work of an unknown kind";
  }
}

static bool fail_node(const char *found, ord_error *err) {
  return ord_fail(err, ORD_INVALID, "found %s in its work; wanted kernels, memsets and copies within the device",
                  found);
}

static bool ask_pointer(ord_cuda_device *device, void *out, CUpointer_attribute attribute, CUdeviceptr address) {
  ord_cuda_count_call(device);
  return device->call.PointerGetAttribute(out, attribute, address) == CUDA_SUCCESS;
}

/* One side of a copy. A call that names no direction leaves it to the driver what a unified address means; of memory
 * that the driver does not know, it says nothing. */
static bool check_side(ord_cuda_device *device, CUmemorytype type, CUdeviceptr address, ord_error *err) {
  int ordinal = device->ordinal;
  if (type == CU_MEMORYTYPE_UNIFIED && !(ask_pointer(device, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) &&
                                         ask_pointer(device, &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)))
    type = CU_MEMORYTYPE_HOST;
  if (type != CU_MEMORYTYPE_DEVICE) return fail_node("a copy from or to the host's memory", err);
  return ordinal == device->ordinal || fail_node("a copy from or to another device's memory", err);
}

static bool check_copy(ord_cuda_device *device, CUgraphNode node, ord_error *err) {
  CUDA_MEMCPY3D copy;
  return ord_cuda_check(device, device->call.GraphMemcpyNodeGetParams(node, &copy), "cuGraphMemcpyNodeGetParams",
                        "looking at its work", err) &&
         check_side(device, copy.srcMemoryType, copy.srcDevice, err) &&
         check_side(device, copy.dstMemoryType, copy.dstDevice, err);
}

/* All nodes, in the caller's memory (malloc). */
static bool list_nodes(ord_cuda_device *device, CUgraph graph, CUgraphNode **out, size_t *out_count, ord_error *err) {
  static const char *const LOOKING = "looking at its work";
  *out = NULL;
  *out_count = 0;
  if (!ord_cuda_check(device, device->call.GraphGetNodes(graph, NULL, out_count), "cuGraphGetNodes", LOOKING, err))
    return false;
  *out = malloc((*out_count + 1) * sizeof **out);
  return *out ? ord_cuda_check(device, device->call.GraphGetNodes(graph, *out, out_count), "cuGraphGetNodes", LOOKING,
                               err)
              : ord_fail_memory(err, "looking at captured work");
}

static bool count_graph(ord_cuda_device *device, CUgraph graph, uint32_t *count, ord_error *err);

static bool count_node(ord_cuda_device *device, CUgraphNode node, uint32_t *count, ord_error *err) {
  CUgraphNodeType type;
  CUgraph child = NULL;
  if (!ord_cuda_check(device, device->call.GraphNodeGetType(node, &type), "cuGraphNodeGetType", "looking at its work",
                      err))
    return false;
  switch (type) {
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return ord_cuda_check(device, device->call.GraphChildGraphNodeGetGraph(node, &child),
                          "cuGraphChildGraphNodeGetGraph", "looking at its work", err) &&
           count_graph(device, child, count, err);
  case CU_GRAPH_NODE_TYPE_KERNEL:
  case CU_GRAPH_NODE_TYPE_MEMSET:
  case CU_GRAPH_NODE_TYPE_EMPTY:
    ++*count;
    return true;
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    ++*count;
    return check_copy(device, node, err);
  default:
    return fail_node(name_type(type), err);
  }
}

static bool count_graph(ord_cuda_device *device, CUgraph graph, uint32_t *count, ord_error *err) {
  CUgraphNode *node;
  size_t node_count;
  bool done = list_nodes(device, graph, &node, &node_count, err);
  for (size_t i = 0; done && i < node_count; i++) done = count_node(device, node[i], count, err);
  free(node);
  return done;
}

static bool check_declared(const ord_answer *answer, uint32_t node_count, uint32_t launch_count, ord_error *err) {
  if (!(answer->flags & ORD_RUNS_LIBRARY) && node_count != launch_count)
    return ord_fail(err, ORD_INVALID,
                    "found %u pieces of work on the stream, %u of them launched through gpu_launch; wanted all, or "
                    "ORD_RUNS_LIBRARY in the kernel's answer",
                    node_count, launch_count);
  if (node_count > answer->phase_count)
    return ord_fail(err, ORD_INVALID, "found %u pieces of work on the stream; wanted at most %u, its phase_count",
                    node_count, answer->phase_count);
  return true;
}

bool ord_cuda_audit(ord_cuda_device *device, const ord_step *step, CUgraph graph, uint32_t launch_count,
                    uint32_t *out_node_count, ord_error *err) {
  *out_node_count = 0;
  return (count_graph(device, graph, out_node_count, err) &&
          check_declared(&step->choice.answer, *out_node_count, launch_count, err)) ||
         ord_cuda_fail_step(step, "capture failed", err);
}
