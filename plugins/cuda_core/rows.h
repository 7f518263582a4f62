/* SPDX-License-Identifier: MIT
 *
 * A result as rows: its leading axes, counted row-major, and the last one, its columns; and what is done to a row of
 * numbers before it is stored. Parts of the arguments of matmul.cu and norm.cu. C11 and CUDA C++ alike.
 */
#ifndef CORE_ROWS_H
#define CORE_ROWS_H

#include <stdint.h>

enum { ROWS_AXES = 5, EPILOGUE_ITEMS = 8 };

/* A size of the run: *extent * dim where an extent is given, else dim. */
typedef struct core_size {
  const int64_t *extent;
  int64_t dim;
} core_size;

/* The leading axes, joined where every operand allows it: mostly one axis or none is left. Rows are counted in 32 bits,
 * since long divisions are slow. */
typedef struct core_rows {
  uint32_t rank;
  core_size size[ROWS_AXES];
} core_rows;

/* Where the numbers of an operand lie that has, or repeats along, these leading axes. Strides are in bytes. */
typedef struct core_place {
  char *data; /* NULL: absent */
  int64_t stride[ROWS_AXES], column_stride;
  uint32_t type;
} core_place;

/* Bias, gate, residual and pointwise ops, in order. */
enum {
  EPILOGUE_ADD,
  EPILOGUE_MULTIPLY,
#define POINTWISE(op, function) EPILOGUE_##op,
#include "kernels.def"
  EPILOGUE_KINDS
};

typedef struct epilogue_item {
  uint32_t kind;
  core_place operand, output; /* output: also receives the value after this item */
} epilogue_item;

typedef struct epilogue_list {
  uint32_t count;
  epilogue_item item[EPILOGUE_ITEMS];
} epilogue_list;

/* layernorm (is_centred) or rmsnorm of whole rows. */
typedef struct norm_arguments {
  uint32_t is_wanted, is_centred;
  float eps;
  core_place weight, bias; /* [columns] */
  unsigned *ticket;        /* [groups of rows], of those who normalise what several blocks made */
} norm_arguments;

#endif
