#!/bin/sh
# SPDX-License-Identifier: MIT
# find_toolkit.sh [FOLDER]: prints the folder of the CUDA toolkit, which holds include/cuda.h and, where there is one of
# them, bin/nvcc; fails, printing nothing, where there is none. Only FOLDER is looked at where it is given, else only that
# of the environment's ORDITO_CUDA_PATH, else the usual places. A folder into which pip installed counts too
# (nvidia/cu13 in it).
set -eu
here=$(dirname "$0")

# The whole project is written for CUDA 13: its driver entries, its architectures.
is_toolkit() {
  [ -f "$1/include/cuda.h" ] &&
    [ "$(awk '$1 == "#define" && $2 == "CUDA_VERSION" { print $3 }' "$1/include/cuda.h")" -ge 13000 ]
}

given=${1:-${ORDITO_CUDA_PATH:-}}
if [ -n "$given" ]; then
  set -- "$given"
else
  set -- "${CUDA_HOME:-/usr/local/cuda}" /usr/local/cuda "$("$here/cache_folder.sh")/toolkit"
fi
without_nvcc=
for folder in "$@"; do
  for root in "$folder" "$folder/nvidia/cu13"; do
    is_toolkit "$root" || continue
    if [ -x "$root/bin/nvcc" ]; then
      printf '%s\n' "$root"
      exit 0
    fi
    : "${without_nvcc:=$root}"
  done
done
[ -n "$without_nvcc" ] && printf '%s\n' "$without_nvcc"
