// SPDX-License-Identifier: MIT
// Stands for places.cpp where there is no libbacktrace.
#include "places.h"

namespace simulated {

std::string find_place(const std::vector<const void *> &, const char *) { return {}; }

} // namespace simulated
