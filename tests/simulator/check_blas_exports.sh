#!/bin/sh
# SPDX-License-Identifier: MIT
# check_blas_exports.sh LIBRARY TOOLKIT: the simulated cuBLAS exports what the plugin calls and nothing else, each
# declared in cublasLt.h and exported by the toolkit's own library, if there is one; and nobody can take it for the real
# one by its SONAME.
set -eu
library=$1
toolkit=$2
header=$toolkit/include/cublasLt.h
calls=$(dirname "$0")/../../plugins/cublas/calls.def
wanted=$(sed -n 's/^CALL(\(.*\))$/cublasLt\1/p' "$calls" | sort)
names=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sort)
bad=0
[ -n "$names" ] || { echo "nothing is exported"; bad=1; }
[ "$names" = "$wanted" ] || { printf 'exported:\n%s\ncalls.def has:\n%s\n' "$names" "$wanted"; bad=1; }
for name in $names; do
  grep -qE "CUBLASWINAPI $name\(" "$header" || { echo "cublasLt.h does not declare $name"; bad=1; }
done
soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = libordito_simulated_cublas.so ] || { echo "SONAME is $soname"; bad=1; }

real=
for folder in "$toolkit/lib64" "$toolkit/lib"; do
  [ -z "$real" ] && [ -e "$folder/libcublasLt.so.13" ] && real=$folder/libcublasLt.so.13
done
if [ -n "$real" ]; then
  exported=$(nm -D --defined-only "$real" | awk '{ sub(/@.*/, "", $3); print $3 }')
  for name in $names; do
    echo "$exported" | grep -qx "$name" || { echo "$real does not export $name"; bad=1; }
  done
  echo "$(echo "$names" | wc -l) names, which $real has too"
else
  echo "$(echo "$names" | wc -l) names; not compared with the real library: no libcublasLt.so.13 in $toolkit"
fi
exit $bad
