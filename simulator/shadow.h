// SPDX-License-Identifier: MIT
// What is remembered of each byte of memory that checked kernels touch: whether it was ever written, and the accesses
// that a later one may race with. Four neighbouring bytes share one cell until one of them is touched alone.
#ifndef SIMULATOR_SHADOW_H
#define SIMULATOR_SHADOW_H

#include <cstddef>
#include <cstdint>

#include "ordering.h"

namespace simulated {

// One access of the thread that runs.
struct touching {
  unsigned thread, how; // of enum touch
  uint32_t code;        // offset into the image
  stamp since;          // what was touched before comes before
  bool is_global;       // but for what launches beside this one touched
};

// An access as it is remembered.
struct touched {
  stamp at;      // 0: there was none
  uint32_t code; // offset into the image
  uint16_t thread, how;
};

class shadow {
public:
  shadow() = default;
  shadow(const shadow &) = delete;
  shadow &operator=(const shadow &) = delete;
  ~shadow();
  bool open(size_t bytes); // anew: nothing of it is written; false where there is no memory

  void set_written(size_t first, size_t bytes, bool is_written);
  void copy_written(size_t first, const shadow &from, size_t from_first, size_t bytes);
  size_t find_unwritten(size_t first, size_t bytes) const; // `bytes` where all of them are written

  // Remembers the access; false where it races with an earlier one, which is `other`.
  bool touch(size_t first, size_t bytes, const touching &one, const ordering &order, touched &other);
  void forget_accesses(); // gives their memory back

  size_t bytes() const { return size; }
  bool has_accesses() const { return cells; }

private:
  struct cell {
    touched write;
    // Reads since then: those of one warp, with its lanes and the time of the last one; one of another warp; one of
    // another block.
    touched read, of_other_warp, of_other_block;
    uint32_t lanes;
    bool is_split; // of the first byte's cell: each of the four bytes has a cell of its own
  };
  bool open_cells();
  static bool visit(cell &c, const touching &one, const ordering &order, touched &other);
  static bool reads_come_before(const cell &c, const touching &one, const ordering &order, touched &other);
  static void add_read(cell &c, const touching &one, const ordering &order);
  bool touch_quad(size_t quad, unsigned first, unsigned last, const touching &one, const ordering &order,
                  touched &other);

  size_t size = 0, quads = 0;
  unsigned char *written = nullptr;
  cell *cells = nullptr; // [4, quads]: the bytes of a quad lie apart, so that those seldom needed take no memory
};

} // namespace simulated

#endif
