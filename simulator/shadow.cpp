// SPDX-License-Identifier: MIT
#include "shadow.h"

#include <sys/mman.h>

#include <cstring>

#include "device/checks.h"

namespace simulated {

constexpr size_t quad_bytes = 4;

// Pages that are zero, and take memory only when they are written.
static void *map_zeros(size_t bytes) {
  void *made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return made == MAP_FAILED ? nullptr : made;
}

shadow::~shadow() {
  if (written) munmap(written, size);
  forget_accesses();
}

bool shadow::open(size_t bytes) {
  if (written) munmap(written, size);
  forget_accesses(); // whose cells are for the old size
  size = bytes;
  quads = (bytes + quad_bytes - 1) / quad_bytes;
  written = static_cast<unsigned char *>(map_zeros(size));
  return written;
}

bool shadow::open_cells() {
  cells = static_cast<cell *>(map_zeros(quad_bytes * quads * sizeof(cell)));
  return cells;
}

void shadow::forget_accesses() {
  if (cells) munmap(cells, quad_bytes * quads * sizeof(cell));
  cells = nullptr;
}

void shadow::set_written(size_t first, size_t bytes, bool is_written) { memset(written + first, is_written, bytes); }

void shadow::copy_written(size_t first, const shadow &from, size_t from_first, size_t bytes) {
  memmove(written + first, from.written + from_first, bytes);
}

size_t shadow::find_unwritten(size_t first, size_t bytes) const {
  const void *found = memchr(written + first, 0, bytes);
  return found ? static_cast<size_t>(static_cast<const unsigned char *>(found) - written) - first : bytes;
}

static touched remember(const touching &one, const ordering &order) {
  return {order.now(), one.code, static_cast<uint16_t>(one.thread), static_cast<uint16_t>(one.how)};
}

static bool races(const touched &earlier, const touching &one, const ordering &order) {
  if (!earlier.at || (earlier.how & one.how & touch_atomic)) return false;
  if (earlier.at >= one.since) return !order.is_before(earlier.thread, earlier.at, one.thread);
  return one.is_global && order.is_beside(earlier.at, one.thread);
}

bool shadow::reads_come_before(const cell &c, const touching &one, const ordering &order, touched &other) {
  for (const touched *read : {&c.of_other_warp, &c.of_other_block})
    if (races(*read, one, order)) {
      other = *read;
      return false;
    }
  if (c.read.at < one.since) {
    other = c.read;
    return !races(c.read, one, order);
  }
  if (c.read.how & one.how & touch_atomic) return true;
  const unsigned first = c.read.thread / warp_size * warp_size;
  for (unsigned lanes = c.lanes; lanes; lanes &= lanes - 1) {
    other = c.read;
    other.thread = static_cast<uint16_t>(first + static_cast<unsigned>(__builtin_ctz(lanes)));
    if (!order.is_before(other.thread, other.at, one.thread)) return false;
  }
  return true;
}

void shadow::add_read(cell &c, const touching &one, const ordering &order) {
  const uint32_t lane = 1u << one.thread % warp_size;
  touched made = remember(one, order);
  const bool is_current = order.is_current(c.read.at);
  if (is_current && c.read.thread / warp_size == one.thread / warp_size) {
    c.lanes |= lane;
    made.how &= c.read.how; // atomic only where all are
  } else if (is_current) {
    c.of_other_warp = made;
    return;
  } else {
    const bool may_race = c.read.at >= one.since || (one.is_global && order.is_beside(c.read.at, one.thread));
    if (may_race && !order.is_of_block(c.read.at)) c.of_other_block = c.read;
    c.lanes = lane;
  }
  c.read = made;
}

bool shadow::visit(cell &c, const touching &one, const ordering &order, touched &other) {
  if (races(c.write, one, order)) {
    other = c.write;
    return false;
  }
  if (!(one.how & touch_write)) {
    add_read(c, one, order);
    return true;
  }
  if (!reads_come_before(c, one, order, other)) return false;
  // Whoever comes after this write comes after those reads too.
  c.write = remember(one, order);
  c.read.at = c.of_other_warp.at = c.of_other_block.at = 0;
  return true;
}

bool shadow::touch_quad(size_t quad, unsigned first, unsigned last, const touching &one, const ordering &order,
                        touched &other) {
  cell &shared = cells[quad];
  const bool is_whole = first == 0 && last == quad_bytes;
  if (is_whole && !shared.is_split) return visit(shared, one, order, other);
  if (!shared.is_split) {
    for (size_t i = 1; i < quad_bytes; i++) cells[i * quads + quad] = shared;
    shared.is_split = true;
  }
  for (unsigned i = first; i < last; i++)
    if (!visit(cells[i * quads + quad], one, order, other)) return false;
  if (is_whole && (one.how & touch_write)) shared.is_split = false; // all four know the same again
  return true;
}

bool shadow::touch(size_t first, size_t bytes, const touching &one, const ordering &order, touched &other) {
  if (!cells && !open_cells()) return true;
  while (bytes) {
    const unsigned from = static_cast<unsigned>(first % quad_bytes);
    const unsigned taken = static_cast<unsigned>(bytes < quad_bytes - from ? bytes : quad_bytes - from);
    if (!touch_quad(first / quad_bytes, from, from + taken, one, order, other)) return false;
    first += taken;
    bytes -= taken;
  }
  return true;
}

} // namespace simulated
