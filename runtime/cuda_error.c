/* SPDX-License-Identifier: MIT
 *
 * What the driver's codes mean to the caller, and the end of a device: after a fault in a kernel the context answers
 * every call with the same code until the process ends. It is never reset, since other libraries may share it.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/cuda.h"

/* Faults of a kernel, of whichever was running: the driver does not say. */
static bool is_fault(CUresult code) {
  switch (code) {
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_LAUNCH_FAILED:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
    return true;
  default:
    return false;
  }
}

static bool is_fatal(CUresult code) {
  switch (code) {
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_NVLINK_UNCORRECTABLE:
  case CUDA_ERROR_CONTEXT_IS_DESTROYED:
  case CUDA_ERROR_EXTERNAL_DEVICE:
  case CUDA_ERROR_CONTAINED:
    return true;
  default:
    return is_fault(code);
  }
}

/* It cannot be done here: the driver lacks it, or a kernel has no code for this device, or does what no capture allows.
 */
static bool is_refusal(CUresult code) {
  switch (code) {
  case CUDA_ERROR_INVALID_IMAGE:
  case CUDA_ERROR_NO_BINARY_FOR_GPU:
  case CUDA_ERROR_INVALID_PTX:
  case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
  case CUDA_ERROR_NOT_SUPPORTED:
    return true;
  default:
    return code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
}

/* What names the kernel: each launch is waited for then, and is one step of the plan. */
static const char FIND_IT[] = "; if no kernel is named, capture off and CUDA_LAUNCH_BLOCKING=1 in the environment do";

void ord_cuda_describe(const ord_cuda_device *device, CUresult code, char *out, size_t bytes) {
  const char *name = NULL, *text = NULL;
  if (device->call.GetErrorName(code, &name) != CUDA_SUCCESS || !name) name = "an unknown code";
  if (device->call.GetErrorString(code, &text) != CUDA_SUCCESS || !text) text = "no description";
  snprintf(out, bytes, "%s (%d): %s", name, (int)code, text);
}

/* The first cause is the one that counts. */
static void lose(ord_cuda_device *device, const char *text) {
  pthread_mutex_lock(&device->lock);
  if (!device->is_lost) snprintf(device->lost_text, sizeof device->lost_text, "%s", text);
  device->is_lost = true;
  pthread_mutex_unlock(&device->lock);
}

static bool is_working(ord_cuda_device *device, ord_error *err) {
  char text[sizeof device->lost_text];
  pthread_mutex_lock(&device->lock);
  const bool is_lost = device->is_lost;
  if (is_lost) memcpy(text, device->lost_text, sizeof text);
  pthread_mutex_unlock(&device->lock);
  return !is_lost || ord_fail(err, ORD_DEVICE_FAILED,
                              "the CUDA device is lost until the process ends, the CPU device is not; %s", text);
}

static bool judge(ord_cuda_device *device, CUresult code, const char *call, const char *what, ord_error *err) {
  char described[400], text[sizeof device->lost_text];
  if (code == CUDA_SUCCESS) return true;
  ord_cuda_describe(device, code, described, sizeof described);
  snprintf(text, sizeof text, "%s: %s failed: %s%s", what, call, described, is_fault(code) ? FIND_IT : "");
  if (code == CUDA_ERROR_OUT_OF_MEMORY) return ord_fail(err, ORD_NO_MEMORY, "%s", text);
  if (is_fatal(code)) {
    lose(device, text);
    return is_working(device, err);
  }
  return ord_fail(err, is_refusal(code) ? ORD_UNSUPPORTED : ORD_DEVICE_FAILED, "%s", text);
}

bool ord_cuda_check(ord_cuda_device *device, CUresult code, const char *call, const char *what, ord_error *err) {
  ord_cuda_count_call(device);
  return judge(device, code, call, what, err);
}

bool ord_cuda_enter_to_poll(ord_cuda_device *device, ord_error *err) {
  return is_working(device, err) &&
         judge(device, device->call.CtxSetCurrent(device->context), "cuCtxSetCurrent", "using the CUDA device", err);
}

bool ord_cuda_enter(ord_cuda_device *device, ord_error *err) {
  ord_cuda_count_call(device);
  return ord_cuda_enter_to_poll(device, err);
}

ord_status ord_cuda_tell_plugin(const ord_error *failure, ord_plugin_error *err) {
  if (err) {
    err->native = 0; /* stands in the text, with its name */
    snprintf(err->text, sizeof err->text, "%.*s", (int)sizeof err->text - 1, failure->text);
  }
  return failure->code;
}
