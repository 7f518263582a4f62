/* SPDX-License-Identifier: MIT
 *
 * The one kernel of this plugin.
 */
#ifndef ATTENTION_NAIVE_H
#define ATTENTION_NAIVE_H

#include "ordito_plugin.h"

extern const ord_kernel attention_naive;

#endif
