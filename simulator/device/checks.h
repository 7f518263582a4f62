// SPDX-License-Identifier: MIT
// What a checked image tells the driver about every access to memory that its kernels make. Such an image is compiled
// with -fsanitize=thread and linked with checks.cpp, where the compiler's callbacks lead; it exports simulated_checks.
#ifndef SIMULATOR_DEVICE_CHECKS_H
#define SIMULATOR_DEVICE_CHECKS_H

#include <stddef.h>

#include "interface.h"

namespace simulated {

constexpr unsigned checks_version = 1; // grows with every change of this file

// How memory is touched.
enum touch : unsigned {
  touch_read = 1,
  touch_write = 2,
  touch_atomic = 4,  // or volatile: it races with no other such access
  touch_release = 8, // what the thread did before is seen by whoever reads the word atomically, without a fence
};

struct check_services {
  // None of them returns where something is wrong. `code` is the address of an instruction in the kernel.
  void (*touched)(const void *address, size_t bytes, unsigned how, const void *code);
  void (*fence)(bool is_for_device);
  void (*misuse)(const char *text, source_place place);
};

struct image_checks {
  unsigned version;
  const char *file;           // this interface's other source, which lies in the folder of the built-ins
  const check_services *host; // the driver fills it in
};

} // namespace simulated

extern "C" __attribute__((visibility("default"))) simulated::image_checks simulated_checks;

#endif
