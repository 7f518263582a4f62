// SPDX-License-Identifier: MIT
#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace simulated {

constexpr size_t page = 4096;
constexpr size_t alignment = 256;    // as cuMemAlloc promises
constexpr unsigned char fill = 0xff; // NaN in f32, f16 and bf16

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

bool memory::open() {
  if (size) return true;
  for (size = size_t{1} << 42; size >= size_t{1} << 32; size /= 2) {
    void *range = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) continue;
    base = reinterpret_cast<uintptr_t>(range);
    next = base + page;
    return true;
  }
  size = 0;
  return false;
}

bool memory::allocate(size_t bytes, place where, uintptr_t &start) {
  if (bytes > size / 2) return false;
  const size_t rounded = round_up(bytes, alignment), pages_bytes = round_up(rounded, page);
  if (next - base + pages_bytes + page > size) return false;
  void *pages = reinterpret_cast<void *>(next);
  if (mprotect(pages, pages_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  memset(pages, fill, pages_bytes);
  start = next + pages_bytes - rounded;
  allocations[next] = {start, next, bytes, pages_bytes, where, false};
  if (where == place::device) {
    used += rounded;
    if (is_hidden) mprotect(pages, pages_bytes, PROT_NONE);
  }
  next += pages_bytes + page;
  return true;
}

void memory::free_pages(allocation &freed) {
  mmap(reinterpret_cast<void *>(freed.pages), freed.pages_bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (freed.where == place::device) used -= round_up(freed.bytes, alignment);
  freed.is_freed = true;
}

bool memory::release(uintptr_t start, place where) {
  auto found = allocations.upper_bound(start);
  if (found == allocations.begin()) return false;
  allocation &freed = (--found)->second;
  if (freed.start != start || freed.where != where || freed.is_freed) return false;
  free_pages(freed);
  return true;
}

void memory::release_all() {
  for (auto &entry : allocations)
    if (!entry.second.is_freed) free_pages(entry.second);
}

const allocation *memory::find(uintptr_t start, size_t bytes) const {
  auto found = allocations.upper_bound(start);
  if (found == allocations.begin()) return nullptr;
  const allocation &held = (--found)->second;
  if (held.is_freed || start < held.start || start - held.start > held.bytes) return nullptr;
  return bytes <= held.bytes - (start - held.start) ? &held : nullptr;
}

void memory::show() {
  is_hidden = false;
  for (auto &[address, held] : allocations)
    if (!held.is_freed && held.where == place::device)
      mprotect(reinterpret_cast<void *>(address), held.pages_bytes, PROT_READ | PROT_WRITE);
}

void memory::hide() {
  is_hidden = true;
  for (auto &[address, held] : allocations)
    if (!held.is_freed && held.where == place::device)
      mprotect(reinterpret_cast<void *>(address), held.pages_bytes, PROT_NONE);
}

static bool is_filled(uintptr_t from, uintptr_t to) {
  const auto *bytes = reinterpret_cast<const unsigned char *>(from);
  return std::all_of(bytes, bytes + (to - from), [](unsigned char byte) { return byte == fill; });
}

bool memory::check_slack(const allocation &checked, std::string &text) const {
  const uintptr_t end = checked.start + checked.bytes;
  const bool is_after = !is_filled(end, checked.pages + checked.pages_bytes);
  if (!is_after && is_filled(checked.pages, checked.start)) return true;
  text = std::string("bytes ") + (is_after ? "beyond the end" : "before the start") + " of an allocation of " +
         std::to_string(checked.bytes) + " bytes were written";
  return false;
}

bool memory::check_slack(std::string &text) const {
  for (const auto &entry : allocations) {
    const allocation &held = entry.second;
    if (!held.is_freed && held.where == place::device && !check_slack(held, text)) return false;
  }
  return true;
}

std::string memory::describe(uintptr_t address) const {
  if (!covers(address)) return "an address that is no device memory";
  auto found = allocations.upper_bound(address);
  if (found == allocations.begin()) return "device memory that was never allocated";
  const allocation &before = (--found)->second;
  const std::string bytes = std::to_string(before.bytes) + " bytes";
  if (address >= before.start + before.bytes)
    return std::to_string(address - before.start - before.bytes) + " bytes beyond the end of an allocation of " + bytes;
  if (address < before.start)
    return std::to_string(before.start - address) + " bytes before the start of an allocation of " + bytes;
  return (before.is_freed ? "freed memory, once an allocation of " : "an allocation of ") + bytes;
}

} // namespace simulated
