// SPDX-License-Identifier: MIT
// From an address in a kernel's code to a place in its source.
#ifndef SIMULATOR_PLACES_H
#define SIMULATOR_PLACES_H

#include <string>
#include <vector>

namespace simulated {

// "file.cu:12" for return addresses, of the innermost call first, as the debug information of the loaded objects has
// it; with the outermost place where that is another. Files of the folder in which the file `builtins` lies are passed
// over, unless there is no other. Empty where nothing is known.
std::string find_place(const std::vector<const void *> &calls, const char *builtins);

} // namespace simulated

#endif
