#!/bin/sh
# SPDX-License-Identifier: MIT
# check_dev.sh: the folders that ./dev is given count from where it is called, blanks in their paths and all.
set -eu
dev=$(cd "$(dirname "$0")/.." && pwd)/dev
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
bad=0

# Nothing is to be installed.
mkdir tools "a place" "bad name" pack
printf '#!/bin/sh\necho install ok installed\n' >tools/dpkg-query
printf '#!/bin/sh\necho "ran in $PWD with $*"\n' >pack/run
chmod +x tools/dpkg-query pack/run
export PATH="$work/tools:$PATH"
cp -r "$(dirname "$dev")/plugins/attention_naive" "a place"

# runs STATUS LINE ARGUMENT..: ./dev ends with the status and prints the line, last of all.
runs() {
  status=0
  "$dev" "$3" "$4" ${5+"$5"} >out 2>&1 || status=$?
  [ "$status" = "$1" ] && [ "$(tail -n 1 out)" = "$2" ] && return
  cat out
  echo "dev $3 $4: found status $status; wanted $1 and: $2"
  bad=1
}

runs 0 "a place/attention_naive/build/attention_naive.so" plugin "a place/attention_naive"
runs 0 "$work/a place/attention_naive/build/attention_naive.so" plugin "$work/a place/attention_naive/"
runs 1 "a place/attention_naive/build has no CUDA kernels" kernels "a place/attention_naive"
runs 1 "nowhere: found no folder; wanted that of a plugin" plugin nowhere
runs 1 "bad name: found a plugin of the name 'bad name'; wanted letters, digits and any of _ . + -" plugin "bad name"
runs 0 "ran in $work with --short" gpu pack --short
runs 2 "dev: gpu: found 'tools'; wanted --pack, options, or the folder that --pack has made" gpu tools
exit $bad
