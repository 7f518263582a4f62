#!/bin/sh
# SPDX-License-Identifier: MIT
# Every header compiles alone: the public ones as C11 and C++17 without a warning (the plugin header also without
# padding; the one for kernels as C++17, for the simulated device), the others as C11. Those of CUDA only where a toolkit
# is.
set -eu
cd "$(dirname "$0")/.."
: "${CC:=cc}" "${CXX:=c++}"
toolkit=$(cmake/find_toolkit.sh) || echo "no CUDA toolkit: the headers for CUDA are left out"
for header in include/*.h; do
  [ "$header" != include/ordito_device.h ] || continue
  $CC -std=c11 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c "$header"
  $CXX -std=c++17 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ "$header"
done
$CC -std=c11 -pedantic -Wpadded -Werror -Iinclude -fsyntax-only -x c include/ordito_plugin.h
if [ -n "$toolkit" ]; then
  $CXX -std=c++17 -Wall -Wextra -Werror -Wno-unused-function -Iinclude -Isimulator/device -isystem "$toolkit/include" \
    -fsyntax-only -x c++ include/ordito_device.h
fi
for header in runtime/*.h ops/*.h graphs/*.h models/*.h session/*.h cli/*.h; do
  case $header in runtime/cuda*) [ -n "$toolkit" ] || continue ;; esac
  $CC -std=c11 -D_GNU_SOURCE -pedantic -Wall -Wextra -Werror -Wno-unused-function -Iinclude -I. \
    ${toolkit:+-isystem "$toolkit/include"} -fsyntax-only -x c "$header"
done
