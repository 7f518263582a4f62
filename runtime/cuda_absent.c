/* SPDX-License-Identifier: MIT
 *
 * In a build that found no cuda.h, in place of all runtime/cuda_*.c.
 */
#include "runtime/device.h"

bool ord_device_cuda_create(int threads, const ord_cuda_options *options, ord_device **out, bool *out_oversubscribed,
                            ord_error *err) {
  (void)threads;
  (void)options;
  *out = NULL;
  if (out_oversubscribed) *out_oversubscribed = false;
  return ord_fail(err, ORD_UNSUPPORTED,
                  "no CUDA device: found a build without CUDA; wanted one made where a toolkit is (./dev toolkit)");
}
