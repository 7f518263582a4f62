/* SPDX-License-Identifier: MIT
 *
 * The code on vectors for AVX2 with FMA.
 */
#include "lanes_avx2.h"
#include "tile.h"

const flash_level flash_avx2 = FLASH_LEVEL("avx2", ORD_CPU_AVX2);
