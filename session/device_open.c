/* SPDX-License-Identifier: MIT
 *
 * Which device the options of a context mean, and where what it needs is found.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/plugin_image.h"
#include "session/parts.h"

enum { FILE_BYTES = PATH_MAX + 64 };

static bool open_cuda(const ord_context_options *options, ord_device **out, bool *out_oversubscribed, ord_error *err) {
  const ord_cuda_options cuda = {.driver = "libcuda.so.1",
                                 .no_dependent_launch = options->no_dependent_launch,
                                 .cublas = "libcublas.so.13",
                                 .cublas_lt = "libcublasLt.so.13"};
  return ord_device_cuda_create(options->threads, &cuda, out, out_oversubscribed, err);
}

/* The system's loader says what it finds wrong with a library, but one that was cut ends the process. A real driver
 * lies where the loader finds it, and is not looked at here. */
static bool check_library(const char *file, ord_error *err) {
  ord_error why = ORD_ERROR_INIT;
  if (access(file, F_OK) != 0 || ord_image_file_check(file, &why)) return true;
  return ord_fail(err, why.code == ORD_INVALID ? ORD_UNSUPPORTED : why.code, "no CUDA device: %s", why.text);
}

/* Everything of the simulator lies in one folder. */
static bool open_simulated(const ord_context_options *options, ord_device **out, bool *out_oversubscribed,
                           ord_error *err) {
  char folder[PATH_MAX], driver[FILE_BYTES], cublas[FILE_BYTES], images[FILE_BYTES];
  const char *named = getenv("ORDITO_SIMULATOR_PATH");
  if (named && *named)
    snprintf(folder, sizeof folder, "%s", named);
  else if (!ord_library_folder(folder, sizeof folder))
    return ord_fail(err, ORD_UNSUPPORTED,
                    "no CUDA device: found no folder to look for the simulated driver in; wanted "
                    "ORDITO_SIMULATOR_PATH");
  snprintf(driver, sizeof driver, "%s/libordito_simulated_cuda.so", folder);
  snprintf(cublas, sizeof cublas, "%s/libordito_simulated_cublas.so", folder);
  snprintf(images, sizeof images, "%s/ordito/plugins/simulated", folder);
  if (!check_library(driver, err) || !check_library(cublas, err)) return false;
  const ord_cuda_options cuda = {.driver = driver,
                                 .is_simulated = true,
                                 .is_checked = options->checked,
                                 .no_dependent_launch = options->no_dependent_launch,
                                 .cublas = cublas,
                                 .cublas_lt = cublas,
                                 .runtime_images = images};
  return ord_device_cuda_create(options->threads, &cuda, out, out_oversubscribed, err);
}

bool ord_device_open(const ord_context_options *options, ord_device **out, bool *out_oversubscribed, ord_error *err) {
  const char *device = options->device ? options->device : "cpu";
  const bool is_cuda = strcmp(device, "cuda") == 0;
  if (!is_cuda && strcmp(device, "cpu") != 0)
    return ord_fail(err, ORD_INVALID, "device: found '%s'; wanted cpu or cuda", device);
  if (options->checked && !options->simulated)
    return ord_fail(err, ORD_INVALID,
                    "checked: found a real device; wanted the simulated one, which can check kernels");
  if (!is_cuda && options->simulated)
    return ord_fail(err, ORD_INVALID, "simulated: found device 'cpu'; wanted cuda, which can be simulated");
  if (!is_cuda) return ord_device_cpu_create(options->threads, options->cpu, out, out_oversubscribed, err);
  return options->simulated ? open_simulated(options, out, out_oversubscribed, err)
                            : open_cuda(options, out, out_oversubscribed, err);
}
