/* SPDX-License-Identifier: MIT
 *
 * The functions of the passes, one per line of passes.def: ord_pass_NAME, in graphs/NAME.c.
 */
#ifndef ORDITO_GRAPHS_PASSES_H
#define ORDITO_GRAPHS_PASSES_H

#include "graphs/pass.h"

#define PASS(name, about)                                                                                              \
  ORD_MUST_CHECK bool ord_pass_##name(const ord_graph *graph, const ord_pass_options *options, ord_graph **out,        \
                                      ord_error *err);
#include "graphs/passes.def"
#undef PASS

#endif
