/* SPDX-License-Identifier: MIT
 *
 * Prints what the device of the CUDA tests is, as one line of JSON; or fails and says why there is none.
 */
#include <jansson.h>

#include "cuda_fixture.h"
#include "runtime/cuda.h"

static bool print_device(const ord_cuda_device *device) {
  CUresult (*get_info)(size_t *, size_t *) = NULL;
  size_t free_bytes = 0, bytes = 0;
  int cuda = 0;
  char capability[24], version[24];
  *(void **)&get_info = dlsym(dlopen(cuda_options()->driver, RTLD_NOW | RTLD_NOLOAD), "cuMemGetInfo_v2");
  if (!get_info || get_info(&free_bytes, &bytes) != CUDA_SUCCESS ||
      device->call.DriverGetVersion(&cuda) != CUDA_SUCCESS)
    return false;
  const uint32_t of_device = device->base.info.compute_capability;
  snprintf(capability, sizeof capability, "%u.%u", of_device / 10, of_device % 10);
  snprintf(version, sizeof version, "%d.%d", cuda / 1000, cuda % 1000 / 10);
  json_t *line = json_pack("{s:s, s:s, s:I, s:s, s:b}", "name", device->base.info.name, "compute_capability",
                           capability, "memory_mib", (json_int_t)(bytes >> 20), "cuda", version, "cublas",
                           dlopen(cuda_options()->cublas_lt, RTLD_LAZY) != NULL);
  const bool is_printed = line && json_dumpf(line, stdout, JSON_PRESERVE_ORDER) == 0 && putchar('\n') != EOF;
  json_decref(line);
  return is_printed;
}

int main(void) {
  ord_error err = ORD_ERROR_INIT;
  ord_device *device = NULL;
  if (!ord_device_cuda_create(1, cuda_options(), &device, NULL, &err)) {
    fprintf(stderr, "%s\n", err.text);
    return EXIT_FAILURE;
  }
  const bool is_printed = print_device((const ord_cuda_device *)device);
  device->table->destroy(device);
  return is_printed ? EXIT_SUCCESS : EXIT_FAILURE;
}
