// SPDX-License-Identifier: MIT
// What a kernel image for the simulated CUDA driver and the driver say to each other. An image is an ELF shared object
// that exports one object, simulated_image; the driver fills in its table of services before it runs a kernel.
// Includes nothing but the toolkit's plain types, so that images need no other header of this folder.
#ifndef SIMULATOR_DEVICE_INTERFACE_H
#define SIMULATOR_DEVICE_INTERFACE_H

#include <stddef.h>

#include <vector_types.h>

namespace simulated {

constexpr unsigned image_magic = 0x4f53494d;
constexpr unsigned image_version = 3; // grows with every change of this file
constexpr unsigned warp_size = 32;

// What one CUDA thread knows about itself; constant while its kernel runs.
struct thread_position {
  uint3 thread, block;
  dim3 block_size, grid_size;
  unsigned lane;
};

enum class barrier_kind : int { plain, count, all, any };

// A place in a kernel's source, for reports.
struct source_place {
  const char *file;
  int line;
};

typedef const thread_position *(*find_position)() __attribute__((const)); // constant, as seen by one CUDA thread

// A copy of 16 bytes into shared memory that a thread has begun and that is made when it waits for it.
struct pending_copy {
  void *into;
  const void *from; // null: zeros
};

struct services {
  find_position position;
  // Waits until every thread of the block is here; the result is what `kind` makes of all predicates.
  int (*barrier)(barrier_kind kind, int predicate, source_place place);
  // Waits until every lane of `mask` is here with the same `kind`, then copies the `bytes` of each lane to
  // all[lane * bytes]. What lies there for lanes outside the mask is unspecified.
  void (*meet)(unsigned mask, int kind, const void *own, size_t bytes, void *all, source_place place);
  void *(*dynamic_shared)(); // its end lies against memory that faults
  void (*set_condition)(unsigned long long handle, unsigned value);
  void (*trap)(const char *text, source_place place); // ends the kernel with an error
  // Of the calling thread: notes a copy, closes the group of those noted since the last group, and hands out, one by
  // one, the copies of all but the last `groups_left` groups; false when there is none left.
  void (*copy_begin)(pending_copy copy, source_place place);
  void (*copy_commit)();
  bool (*copy_take)(unsigned groups_left, pending_copy *copy);
  // Between a kernel that may begin early and the one ahead of it: waits until that is over; lets the next one begin.
  void (*dependency_wait)();
  void (*dependency_trigger)();
};

struct kernel_entry {
  const char *name;
  void (*invoke)(void **arguments);
  size_t parameter_count;
  const size_t *offsets, *sizes;
};

struct image {
  unsigned magic, version;
  const kernel_entry *const *first, *const *last; // one beyond the last
  const services *host;
};

constexpr size_t meet_bytes_limit = 64; // of one lane
constexpr int meeting_sync = 1;         // the kind of meeting that orders what its lanes do to memory; no other does

} // namespace simulated

#endif
