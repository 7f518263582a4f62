// SPDX-License-Identifier: MIT
//
// attention in tiles of bf16; see flash.cuh.
#include "flash.cuh"

FLASH_KERNELS(bf16);
