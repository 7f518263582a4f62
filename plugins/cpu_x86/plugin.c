/* SPDX-License-Identifier: MIT
 *
 * cpu_x86: the kernels of cpu_plain compiled once for each level of instructions (plain x86-64, AVX2, AVX-512), and
 * matmuls made for each. Within one kernel a row gives the same bits alone, in a batch and on any number of threads;
 * kernels of two levels may differ by rounding, since sums run in more lanes where vectors are longer.
 */
#include "packed_matmul.h"

const ord_manifest ord_plugin_manifest = {
    ORD_MANIFEST_HEAD, .flags = ORD_PLUGIN_UNLOADABLE, .name = "cpu_x86", .version = "0.1.0", .toolchain = "C11",
};

/* One line of kernels.def is a kernel of each level. */
#define MATMUL(op) extern const matmul_kernel op##_packed_baseline, op##_packed_avx2, op##_packed_avx512;
#define KERNEL(op) extern const plain_kernel op##_baseline, op##_avx2, op##_avx512;
#include "kernels.def"

static const ord_kernel *const kernels[] = {
#define MATMUL(op) &op##_packed_avx512.base.base, &op##_packed_avx2.base.base, &op##_packed_baseline.base.base,
#define KERNEL(op) &op##_avx512.base, &op##_avx2.base, &op##_baseline.base,
#include "kernels.def"
};

static const ord_plugin cpu_x86 = {
    .struct_size = sizeof cpu_x86,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .kernel = kernels,
};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err) {
  (void)host, (void)err;
  *plugin = &cpu_x86;
  return ORD_OK;
}
