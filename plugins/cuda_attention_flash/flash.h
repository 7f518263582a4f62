/* SPDX-License-Identifier: MIT
 *
 * What the host side and the device side of this plugin agree on.
 */
#ifndef FLASH_H
#define FLASH_H

enum { FLASH_THREADS = 128, FLASH_WARPS = FLASH_THREADS / 32 };

/* Queries of a block: each warp has `tiles` times 16. */
#define FLASH_QUERIES(tiles) (16 * FLASH_WARPS * (tiles))

/* Keys of a tile: fewer where a row of values takes most registers. */
#define FLASH_KEYS(width) ((width) > 128 ? 32 : 64)

/* Bytes between rows in shared memory: 16 more than there are, so that eight rows lie in different banks. */
#define FLASH_STRIDE(width) ((width)*2 + 16)

#define FLASH_SHARED_BYTES(width, tiles) ((FLASH_QUERIES(tiles) + 2 * FLASH_KEYS(width)) * FLASH_STRIDE(width))

/* Whether scores are products times a positive number and nothing else; blocks of 128 queries serve only these. */
#define FLASH_IS_PLAIN(has_mask, soft_cap, scale) (!(has_mask) && !((soft_cap) > 0) && (scale) > 1e-30f)

#endif
