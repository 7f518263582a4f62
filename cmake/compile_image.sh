#!/bin/sh
# SPDX-License-Identifier: MIT
# compile_image.sh NVCC SOURCE OUTPUT FLAG..: compiles a CUDA source for real devices. Writes OUTPUT.fatbin;
# OUTPUT.log, in which ptxas tells the registers, shared memory and spills of each kernel; OUTPUT.d, the files it was
# made of, for make. What was compiled once is taken from the cache as long as no input has changed.
set -eu
nvcc=$1
source=$2
output=$3
shift 3

# The headers are the same for all architectures, and flags without them are enough here.
includes() {
  for flag in "$@"; do
    case $flag in -I* | -D* | -std=*) printf '%s\n' "$flag" ;; esac
  done
}
includes "$@" | xargs -d '\n' "$nvcc" -M -MT "$output.fatbin" "$source" >"$output.d"

# Where a header lies does not matter, only what is in it.
key() {
  "$nvcc" --version
  printf '%s\n' "${NVCC_PREPEND_FLAGS:-}" "${NVCC_APPEND_FLAGS:-}"
  for flag in "$@"; do
    case $flag in -I*) ;; *) printf '%s\n' "$flag" ;; esac
  done
  sed -e '1s/^.*\.fatbin : *//' -e 's/^ *//' -e 's/ *\\$//' -e 's/\\ / /g' -e '/^$/d' "$output.d" |
    xargs -d '\n' sha256sum | cut -d ' ' -f 1
}
cache=$("$(dirname "$0")/cache_folder.sh")/nvcc
kept=$cache/$(key "$@" | sha256sum | cut -c 1-40)

if [ ! -f "$kept/fatbin" ]; then
  mkdir -p "$cache"
  find "$cache" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} + # not used for a month
  partial=$(mktemp -d "$cache/partial.XXXXXX")
  trap 'rm -rf "$partial"' EXIT
  "$nvcc" -fatbin "$@" -Xptxas -v "$source" -o "$partial/fatbin" >"$partial/log" 2>&1 || {
    cat "$partial/log" >&2
    exit 1
  }
  # A rename is whole or not at all; where another build was faster, its result serves.
  mv -T "$partial" "$kept" 2>/dev/null || [ -f "$kept/fatbin" ]
fi
touch -c "$kept"
cp "$kept/log" "$output.log"
cp "$kept/fatbin" "$output.fatbin"
