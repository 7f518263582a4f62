/* SPDX-License-Identifier: MIT
 *
 * What the host side and the device side of this plugin agree on.
 */
#ifndef SPLIT_H
#define SPLIT_H

enum {
  SPLIT_THREADS = 128,
  SPLIT_WARPS = SPLIT_THREADS / 32,
  SPLIT_COUNT_MAX = 32, /* blocks that share the keys of a head; a lane of a combining warp for each */
  SPLIT_STEPS = 4,      /* keys that a thread has under way at once */
  SPLIT_ROWS = 4        /* queries that go through the keys together, where there are more than one */
};

/* Numbers between two records of a query: its sums of values, the largest score, the sum of weights. */
#define SPLIT_RECORD(width) ((width) + 2)

#endif
