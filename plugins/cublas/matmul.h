/* SPDX-License-Identifier: MIT
 *
 * matmul through cuBLASLt.
 */
#ifndef CUBLAS_MATMUL_H
#define CUBLAS_MATMUL_H

#include "ordito_plugin.h"

extern const ord_kernel matmul_cublas;

#endif
