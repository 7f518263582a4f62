#!/bin/sh
# SPDX-License-Identifier: MIT
# build.sh FOLDER [CMAKE-OPTION..]: builds the plugin that FOLDER holds and bears the name of into FOLDER/build; prints
# the file's path. Warnings and errors of compilers go to stderr.
set -eu
folder=${1%/}
shift
[ -d "$folder" ] || { echo "$folder: found no folder; wanted that of a plugin" >&2; exit 1; }
name=$(basename "$(realpath "$folder")")
case $name in
*[!A-Za-z0-9_.+-]*)
  echo "$folder: found a plugin of the name '$name'; wanted letters, digits and any of _ . + -" >&2
  exit 1
  ;;
esac
mkdir -p "$folder/build"
log=$folder/build/configure.log
# Another copy of Ordito may have built it: CMake takes a tree over from no other sources.
cache=$folder/build/CMakeCache.txt
home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache" 2>/dev/null || :)
[ "$home" -ef "$(dirname "$0")" ] || rm -rf "$cache" "$folder/build/CMakeFiles"
cmake -S "$(dirname "$0")" -B "$folder/build" -DORDITO_PLUGIN_FOLDER="$(realpath "$folder")" "$@" >"$log" 2>&1 || {
  cat "$log" >&2
  exit 1
}
sed -n 's/^-- \(CUDA kernels\)/\1/p' "$log" >&2
cmake --build "$folder/build" -j "$(nproc)" --target "plugin_$name" >"$folder/build/build.log"
printf '%s\n' "$folder/build/$name.so"
