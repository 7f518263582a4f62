/* SPDX-License-Identifier: MIT
 *
 * The code on vectors for any x86-64.
 */
#include "lanes_baseline.h"
#include "tile.h"

const flash_level flash_baseline = FLASH_LEVEL("baseline", 0);
