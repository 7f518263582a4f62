#!/bin/sh
# SPDX-License-Identifier: MIT
# Every header compiles alone: the public ones as C11 and C++17 without a warning (the plugin header also without
# padding), the others as C11.
set -eu
cd "$(dirname "$0")/.."
: "${CC:=cc}" "${CXX:=c++}"
for header in include/*.h; do
  $CC -std=c11 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c "$header"
  $CXX -std=c++17 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ "$header"
done
$CC -std=c11 -pedantic -Wpadded -Werror -Iinclude -fsyntax-only -x c include/ordito_plugin.h
for header in runtime/*.h ops/*.h graphs/*.h models/*.h session/*.h cli/*.h; do
  $CC -std=c11 -D_GNU_SOURCE -pedantic -Wall -Wextra -Werror -Wno-unused-function -Iinclude -I. -fsyntax-only -x c "$header"
done
