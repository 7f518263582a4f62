#!/bin/sh
# SPDX-License-Identifier: MIT
# check_exports.sh LIBRARY CUDA_H: every name that the simulated driver exports is declared in cuda.h, entries.def lists
# them all, and nobody can take the library for the real driver by its SONAME.
set -eu
library=$1
header=$2
entries=$(dirname "$0")/../../simulator/entries.def
names=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sort)
bad=0
[ -n "$names" ] || { echo "nothing is exported"; bad=1; }
for name in $names; do
  grep -qE "CUDAAPI $name\(|#define +cu[A-Za-z]+ +(__CUDA_API_PT[DS][SZ]\()?$name\b" "$header" || { echo "cuda.h does not declare $name"; bad=1; }
  grep -q ", $name, " "$entries" || { echo "entries.def lacks $name"; bad=1; }
done
for name in $(sed -n 's/^ENTRY([^,]*, \([^,]*\),.*/\1/p' "$entries"); do
  echo "$names" | grep -qx "$name" || { echo "$name is not exported"; bad=1; }
done
soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = libordito_simulated_cuda.so ] || { echo "SONAME is $soname"; bad=1; }
echo "$(echo "$names" | wc -l) names"
exit $bad
