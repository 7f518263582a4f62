/* SPDX-License-Identifier: MIT
 *
 * Arrays in .npy files, as `run` takes and gives them: C order, little-endian, f32, f16, i32, i64, bool and u1. Depends
 * on ordito.h alone.
 */
#ifndef ORDITO_CLI_NPY_H
#define ORDITO_CLI_NPY_H

#include "ordito.h"

/* Reads a whole file. *out_data is the malloc'ed memory behind tensor->data, NULL after a failure. Everything is
 * checked against the file's size before memory is taken. u1 becomes i32, the smallest type that the library computes
 * with and that holds it. */
ORD_MUST_CHECK bool npy_read(const char *path, ord_tensor *tensor, void **out_data, ord_error *err);

/* Writes a file that is whole or absent: beside `path`, then renamed. bf16, which .npy does not know, is written as
 * f32. */
ORD_MUST_CHECK bool npy_write(const char *path, const ord_tensor *tensor, ord_error *err);

#endif
