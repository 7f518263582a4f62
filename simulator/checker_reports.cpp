// SPDX-License-Identifier: MIT
// What the checker says of what it finds.
#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>

#include "block.h"
#include "checker.h"
#include "places.h"

namespace simulated {

constexpr size_t near_shared = 65536; // from there on an address tells nothing of the variable that was meant

static std::string bytes_of(size_t count) { return std::to_string(count) + (count == 1 ? " byte" : " bytes"); }

static const char *name_of(unsigned how) {
  if (how & touch_atomic) return "atomic access";
  return how & touch_write ? "write" : "read";
}

static std::string describe_touch(unsigned how, size_t bytes) {
  return std::string(how & touch_atomic ? "an " : "a ") + name_of(how) + " of " + bytes_of(bytes);
}

static std::string name_of(const shared_variable &one) {
  char *readable = abi::__cxa_demangle(one.symbol.c_str(), nullptr, nullptr, nullptr);
  const std::string name = readable ? readable : one.symbol;
  free(readable);
  return name;
}

// The image's functions that are being called, the innermost first.
std::vector<const void *> checker::find_calls() const {
  const span image = {launch->library->start, launch->library->bytes};
  std::vector<const void *> calls;
  const auto *frame = static_cast<const uintptr_t *>(__builtin_frame_address(0));
  while (runner->is_on_fiber(reinterpret_cast<uintptr_t>(frame))) {
    if (image.holds(frame[1])) calls.push_back(reinterpret_cast<const void *>(frame[1]));
    const auto *outer = reinterpret_cast<const uintptr_t *>(frame[0]);
    if (outer <= frame) break;
    frame = outer;
  }
  return calls;
}

std::string checker::describe_place(const CUlib_st &library, const std::vector<const void *> &calls) {
  const std::string found = find_place(calls, library.checks->file);
  if (!found.empty() || calls.empty()) return found;
  char offset[32]; // for addr2line
  snprintf(offset, sizeof offset, "image+0x%zx", reinterpret_cast<uintptr_t>(calls[0]) - 1 - library.start);
  return offset;
}

// "the write at file.cu:12 by block (0, 0, 0), thread (1, 0, 0)"
std::string checker::describe_other(const touched &other) const {
  const past_launch *of = nullptr;
  for (const auto &one : beside)
    if (one->when.holds(other.at)) of = one.get();
  const CUlib_st &library = of ? *of->library : *launch->library;
  std::string text = std::string("the ") + name_of(other.how) + " at " +
                     describe_place(library, {reinterpret_cast<const void *>(library.start + other.code)}) + " by ";
  if (of)
    return text + describe("thread", place_in(other.thread, of->block)) + " of kernel " + of->kernel->entry->name +
           ", which may not have ended: no wait for it comes before";
  if (!order.is_of_block(other.at)) text += describe("block", place_in(order.block_of(other.at), launch->grid)) + ", ";
  return text + describe("thread", place_in(other.thread, launch->block));
}

std::string checker::describe_byte(const region &in, uintptr_t at) const {
  const std::string offset = std::to_string(at - in.where.start), size = bytes_of(in.where.bytes);
  if (in.what == kind::device) return "byte " + offset + " of an allocation of " + size;
  if (in.what == kind::host) return "byte " + offset + " of mapped host memory of " + size;
  if (in.what == kind::dynamic_shared) return "byte " + offset + " of dynamic shared memory of " + size;
  const shared_variable *found = find_variable(at);
  if (!found) return "byte " + offset + " of static shared memory of " + size;
  return "byte " + std::to_string(at - in.where.start - found->offset) + " of the shared variable " + name_of(*found);
}

std::string checker::describe_outside(uintptr_t at) const {
  if (memory.shared.holds(at)) {
    const span &own = memory.dynamic_shared;
    const bool is_beyond = at >= own.start + own.bytes;
    return bytes_of(is_beyond ? at - own.start - own.bytes : own.start - at) +
           (is_beyond ? " beyond the end" : " before the start") + " of dynamic shared memory of " +
           bytes_of(own.bytes);
  }
  const shared_variable *found = static_shared.where.holds(at) ? find_variable(at) : nullptr;
  if (found)
    return bytes_of(at - static_shared.where.start - found->offset - found->bytes) +
           " beyond the end of the shared variable " + name_of(*found) + " of " + bytes_of(found->bytes);
  const uintptr_t static_end = static_shared.where.start + static_shared.where.bytes;
  if (static_shared.where.bytes && at - static_end < near_shared)
    return bytes_of(at - static_end) + " beyond the end of the image's static shared memory";
  const lock held(d.guard);
  return d.memory.covers(at) || !at ? d.memory.describe(at) : "memory of the host, which the device cannot reach";
}

void checker::fail(CUresult code, std::string text) {
  runner->is_in_service = true;
  if (!unwritten.empty()) text += "; before it, " + unwritten;
  runner->fail(code, text);
}

// A read of what was not yet written is told when the block ends: a race on the same bytes, which is found later where
// the reader comes first, tells more.
void checker::note_unwritten(const region &read, uintptr_t at, size_t bytes) {
  if (!unwritten.empty()) return;
  const in_service entered(*runner);
  unwritten = runner->describe_thread(describe_touch(touch_read, bytes) + " at " +
                                      describe_place(*launch->library, find_calls()) +
                                      " of what was not yet written, " + describe_byte(read, at));
}

void checker::fail_race(const region &raced, uintptr_t at, size_t bytes, unsigned how, const touched &other) {
  runner->is_in_service = true;
  fail(CUDA_ERROR_LAUNCH_FAILED, "a race: " + describe_touch(how, bytes) + " at " +
                                     describe_place(*launch->library, find_calls()) + ", " + describe_byte(raced, at) +
                                     ", against " + describe_other(other));
}

void checker::fail_outside(uintptr_t outside, size_t bytes, unsigned how) {
  runner->is_in_service = true;
  fail(CUDA_ERROR_ILLEGAL_ADDRESS, describe_touch(how, bytes) + " at " +
                                       describe_place(*launch->library, find_calls()) + ", " +
                                       describe_outside(outside));
}

} // namespace simulated
