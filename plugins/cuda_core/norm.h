/* SPDX-License-Identifier: MIT
 *
 * Arguments of the kernel in norm.cu.
 */
#ifndef CORE_NORM_H
#define CORE_NORM_H

#include "rows.h"

enum { NORM_THREADS_MAX = 512, NORM_KEPT = 8 };

/* out [rows, columns] = in [rows, columns], each row normalised; out may be in. */
typedef struct norm_rows_arguments {
  core_rows rows;
  core_place in, out;
  core_size columns;
  norm_arguments norm;
} norm_rows_arguments;

#endif
