// SPDX-License-Identifier: MIT
// The ELF side of a kernel image.
#ifndef SIMULATOR_IMAGE_H
#define SIMULATOR_IMAGE_H

#include "work.h"

namespace simulated {

// Bytes up to the end of the last thing that the headers name; 0 where it is no shared object for this machine.
size_t find_image_bytes(const void *code);
// Loads it and finds where it and its shared variables lie; library.handle stays null where it cannot be loaded.
// The file that holds it stays open as long as the library: its number makes the name under which the loader knows the
// image, and an image with the name of another would not be loaded.
void open_image(const void *code, size_t bytes, CUlib_st &library);
// The static __shared__ variables that a kernel may use, by offset: all but those of the image's other kernels. Who
// calls a function that has some, the image does not tell.
std::vector<shared_variable> find_shared_variables(const CUlib_st &library, const image &of, const char *kernel);

} // namespace simulated

#endif
