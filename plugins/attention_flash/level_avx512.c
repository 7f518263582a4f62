/* SPDX-License-Identifier: MIT
 *
 * The code on vectors for AVX-512.
 */
#include "lanes_avx512.h"
#include "tile.h"

const flash_level flash_avx512 = FLASH_LEVEL("avx512", ORD_CPU_AVX2 | ORD_CPU_AVX512);
