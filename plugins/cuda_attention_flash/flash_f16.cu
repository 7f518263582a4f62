// SPDX-License-Identifier: MIT
//
// attention in tiles of f16; see flash.cuh.
#include "flash.cuh"

FLASH_KERNELS(f16);
