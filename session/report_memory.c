/* SPDX-License-Identifier: MIT
 *
 * Memory by kind: what a session takes, and what one would take.
 */
#include "session/parts.h"

bool ord_model_estimate_memory(ord_model *model, const ord_session_options *options, ord_memory_report *out,
                               ord_error *err) {
  ord_session *session = NULL;
  int64_t maximum[ORD_RUN_DIM_MAX];
  ord_memory_report report = {0};
  if (!ord_session_create_dry(model, options, &session, err)) return false;
  ord_run_dim_maxima(session->graph, maximum);
  bool done = true;
  for (uint32_t i = 0; done && i < session->graph->cache_count; i++)
    for (int part = 0; done && part < 2; part++) {
      size_t bytes = 0;
      done = ord_cache_part_bytes(&session->graph->cache[i], maximum, part, &bytes, err);
      report.cache += bytes;
    }
  for (uint32_t i = 0; done && i < session->lanes->count; i++) {
    const ord_plan *plan = session->lanes->lane[i].plan;
    if (plan->stored_bytes > report.weights) report.weights = plan->stored_bytes; /* the lanes share them */
    if (plan->packed_bytes > report.packed) report.packed = plan->packed_bytes;
    report.arena += plan->arena_bytes;
  }
  ord_session_destroy(session);
  report.peak = report.weights + report.packed + report.cache + report.arena;
  return done && ord_struct_give(&report, "ord_memory_report", out, sizeof report, err);
}

static void add_lanes(const ord_device *device, const ord_lanes *lanes, ord_memory_report *report) {
  if (!lanes) return;
  report->worker += lanes->worker_stride * ord_pool_threads(device->pool);
  for (uint32_t i = 0; i < lanes->count; i++) {
    report->arena += lanes->lane[i].plan->arena_bytes;
    if (lanes->lane[i].capture) report->captures += lanes->lane[i].capture->report.bytes;
  }
}

bool ord_session_memory(const ord_session *session, ord_memory_report *out, ord_error *err) {
  const ord_device *device = session->model->context->device;
  ord_weight_usage usage = {0};
  if (session->model->store) usage = ord_weight_store_usage(session->model->store);
  ord_memory_report report = {
      .weights = usage.original_bytes, .packed = usage.packed_bytes, .cache = session->cache_bytes};
  add_lanes(device, session->lanes, &report);
  add_lanes(device, session->former, &report);
  add_lanes(device, session->kept, &report);
  report.peak = usage.peak_bytes + report.cache + report.arena + report.worker + report.captures;
  return ord_struct_give(&report, "ord_memory_report", out, sizeof report, err);
}
