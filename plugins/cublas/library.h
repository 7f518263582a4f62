/* SPDX-License-Identifier: MIT
 *
 * cuBLASLt, opened at run time: the host names the file. Of its header only types and declarations are used.
 */
#ifndef CUBLAS_LIBRARY_H
#define CUBLAS_LIBRARY_H

#include <cublasLt.h>

#include "ordito_plugin.h"

typedef struct library {
  void *file; /* NULL: not open */
#define CALL(name) __typeof__(cublasLt##name) *name;
#include "calls.def"
#undef CALL
} library;

/* For prepare. ORD_UNSUPPORTED: there is no such library, or it is not of CUDA 13. */
ord_status library_open(const ord_host *host, library *out, ord_plugin_error *err);
/* The file stays mapped: code of the CUDA runtime inside it may run until the process ends. */
void library_close(library *opened);

/* ORD_OK, or what the status means with the call and what the library says of it. */
ord_status library_check(const library *opened, cublasStatus_t status, const char *call, ord_plugin_error *err);

#endif
