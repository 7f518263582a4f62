/* SPDX-License-Identifier: MIT
 *
 * Device 0 of the CUDA driver: its primary context, what it can do, and the table of device.h.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda.h"

static void free_options(ord_cuda_options *options) {
  free((char *)options->driver);
  free((char *)options->cublas);
  free((char *)options->cublas_lt);
  free((char *)options->runtime_images);
}

static bool copy_text(const char **text) {
  if (!*text) return true;
  *text = strdup(*text);
  return *text != NULL;
}

static bool copy_options(const ord_cuda_options *options, ord_cuda_options *out) {
  ord_cuda_options copy = *options;
  const char **text[] = {&copy.driver, &copy.cublas, &copy.cublas_lt, &copy.runtime_images};
  bool done = true;
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) /* all of them, so that all may be freed */
    if (!copy_text(text[i])) done = false;
  *out = copy;
  return done;
}

static void destroy(ord_device *base) {
  if (!base) return;
  ord_cuda_device *device = (ord_cuda_device *)base;
  ord_cuda_plugins_destroy(device);
  if (device->has_context) {
    if (ord_cuda_enter(device, NULL) && device->stream) (void)device->call.StreamDestroy(device->stream);
    (void)device->call.CtxSetCurrent(NULL);
    (void)device->call.DevicePrimaryCtxRelease(device->ordinal);
  }
  ord_pool_destroy(base->pool);
  free_options(&device->options);
  pthread_mutex_destroy(&device->lock);
  free(device);
}

static bool make_current(ord_device *device, ord_error *err) { return ord_cuda_enter((ord_cuda_device *)device, err); }

static const ord_device_table table = {.queue_create = ord_cuda_queue_create,
                                       .queue_destroy = ord_cuda_queue_destroy,
                                       .wait = ord_cuda_wait,
                                       .allocate = ord_cuda_allocate,
                                       .release = ord_cuda_release,
                                       .write = ord_cuda_write,
                                       .read = ord_cuda_read,
                                       .copy = ord_cuda_copy,
                                       .host = ord_cuda_host,
                                       .make_current = make_current,
                                       .pause_captures = ord_cuda_pause_captures,
                                       .resume_captures = ord_cuda_resume_captures,
                                       .stream = ord_cuda_queue_stream,
                                       .capture = ord_cuda_capture_create,
                                       .replay = ord_cuda_replay,
                                       .run_eager = ord_cuda_run_eager,
                                       .capture_destroy = ord_cuda_capture_destroy,
                                       .loop_create = ord_cuda_loop_create,
                                       .loop_start = ord_cuda_loop_start,
                                       .loop_next = ord_cuda_loop_next,
                                       .loop_stop = ord_cuda_loop_stop,
                                       .loop_destroy = ord_cuda_loop_destroy,
                                       .clock_create = ord_cuda_clock_create,
                                       .clock_mark = ord_cuda_clock_mark,
                                       .clock_read = ord_cuda_clock_read,
                                       .clock_destroy = ord_cuda_clock_destroy,
                                       .probe_create = ord_cuda_probe_create,
                                       .probe_pattern = ord_cuda_probe_pattern,
                                       .probe_read = ord_cuda_probe_read,
                                       .probe_destroy = ord_cuda_probe_destroy,
                                       .destroy = destroy};

/* Of a call that finds out what there is: where it fails, there is no device that can serve. */
static bool check_opening(ord_cuda_device *device, CUresult code, const char *call, ord_error *err) {
  ord_error why = ORD_ERROR_INIT;
  return ord_cuda_check(device, code, call, "opening the CUDA device", &why) ||
         ord_fail(err, why.code == ORD_NO_MEMORY ? ORD_NO_MEMORY : ORD_UNSUPPORTED, "%s", why.text);
}

static bool find_device(ord_cuda_device *device, ord_error *err) {
  int count = 0;
  const CUresult code = device->call.Init(0);
  if (code != CUDA_ERROR_NO_DEVICE &&
      (!check_opening(device, code, "cuInit", err) ||
       !check_opening(device, device->call.DeviceGetCount(&count), "cuDeviceGetCount", err)))
    return false;
  if (count == 0) return ord_fail(err, ORD_UNSUPPORTED, "no CUDA device: the driver found none");
  return check_opening(device, device->call.DeviceGet(&device->ordinal, 0), "cuDeviceGet", err) &&
         check_opening(device, device->call.DeviceGetName(device->name, sizeof device->name, device->ordinal),
                       "cuDeviceGetName", err);
}

static bool take_context(ord_cuda_device *device, ord_error *err) {
  if (!check_opening(device, device->call.DevicePrimaryCtxRetain(&device->context, device->ordinal),
                     "cuDevicePrimaryCtxRetain", err))
    return false;
  device->has_context = true;
  return ord_cuda_enter(device, err) &&
         check_opening(device, device->call.StreamCreateWithPriority(&device->stream, CU_STREAM_NON_BLOCKING, 0),
                       "cuStreamCreateWithPriority", err);
}

static bool fill_info(ord_cuda_device *device, ord_error *err) {
  const struct {
    CUdevice_attribute attribute;
    int *out;
  } asked[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &(int){0}},
               {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &(int){0}},
               {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &(int){0}},
               {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &(int){0}},
               {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &(int){0}}};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
    if (!check_opening(device, device->call.DeviceGetAttribute(asked[i].out, asked[i].attribute, device->ordinal),
                       "cuDeviceGetAttribute", err))
      return false;
  device->base.info = (ord_device_info){.struct_size = sizeof device->base.info,
                                        .kind = ORD_DEVICE_CUDA,
                                        .compute_capability = (uint32_t)(10 * *asked[0].out + *asked[1].out),
                                        .cores = (uint32_t)*asked[2].out,
                                        .l2_bytes = (uint64_t)*asked[3].out,
                                        .shared_bytes = (uint64_t)*asked[4].out,
                                        .name = device->name};
  /* The instructions that such kernels need came with capability 9. */
  device->has_dependent_launch = *asked[0].out >= 9 && !device->options.no_dependent_launch;
  return true;
}

bool ord_device_cuda_create(int threads, const ord_cuda_options *options, ord_device **out, bool *out_oversubscribed,
                            ord_error *err) {
  *out = NULL;
  ord_cuda_device *device = calloc(1, sizeof *device);
  if (!device) return ord_fail_memory(err, "opening the CUDA device");
  device->base.table = &table;
  pthread_mutex_init(&device->lock, NULL);
  bool done = copy_options(options, &device->options) || ord_fail_memory(err, "opening the CUDA device");
  done = done && ord_pool_create(threads, &device->base.pool, out_oversubscribed, err) &&
         ord_cuda_open_driver(device, err) && find_device(device, err) && take_context(device, err) &&
         fill_info(device, err);
  if (!done) {
    destroy(&device->base);
    return false;
  }
  *out = &device->base;
  return true;
}
