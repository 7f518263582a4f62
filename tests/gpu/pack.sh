#!/bin/sh
# SPDX-License-Identifier: MIT
# pack.sh BUILD FOLDER: makes the folder that is taken to a machine with a GPU where nothing can be installed, out of a
# tree in which gpu_tests was built with ORDITO_PORTABLE. Fails if it is too large or needs more than libc.
set -eu
MIB_MAX=64
build=$1
folder=$2
cd "$(dirname "$0")/../.."

# collect FOLDER FILE..: into this folder of the pack.
collect() {
  mkdir -p "$folder/$1"
  into=$1
  shift
  cp -RL "$@" "$folder/$into"
}

rm -rf "$folder"
collect bin "$build/bin/ordito"
collect lib "$build"/lib/*.so "$build/lib/ordito"
collect lib "$(ldd "$build/tests/print_cuda_device" | awk '$1 ~ /^libcmocka/ { print $3 }')" # Debian has no archive of it
for program in "$build"/tests/test_cuda_* "$build"/tests/test_cublas "$build"/tests/print_cuda_device; do
  [ ! -x "$program" ] || collect tests "$program"
done
collect tests "$build"/tests/*.so "$build/tests/plugins" tests/gpu
collect tests/bench tests/bench/*.py
for model in models/*.yaml; do
  collect models "$model"
  [ ! -d "${model%.yaml}" ] || collect models "${model%.yaml}"
done
collect docs docs/gpu_evidence.md
collect . LICENSE
git describe --always --dirty 2>/dev/null >"$folder/commit" || echo unknown >"$folder/commit"
cat >"$folder/run" <<'END'
#!/bin/sh
# ./dev gpu in this folder; tests/gpu/run.sh says what it takes and writes.
here=$(cd "$(dirname "$0")" && pwd)
export ORDITO_PLUGIN_PATH="$here/lib/ordito/plugins" ORDITO_SIMULATOR_PATH="$here/lib"
exec "$here/tests/gpu/run.sh" "$@"
END
chmod +x "$folder/run"

programs() { find "$folder" -type f \( -name '*.so*' -o -path '*/bin/*' -o -path '*/tests/*' ! -name '*.*' \); }
programs | xargs strip --strip-unneeded

# Beside the folder's own: what belongs to libc.
needed=$(programs | xargs readelf -d | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u)
for library in $needed; do
  case $library in
  libc.so.* | libm.so.* | ld-linux-*) ;;
  *) [ -e "$folder/lib/$library" ] || { echo "pack.sh: found $library; wanted libc alone" >&2; exit 1; } ;;
  esac
done
glibc=$(programs | grep -v /libordito_simulated_ | xargs objdump -T | grep -o 'GLIBC_[0-9.]*' | sort -u -t_ -k2V | tail -1)
mib=$(du -sm "$folder" | cut -f1)
[ "$mib" -lt "$MIB_MAX" ] || { echo "pack.sh: found $mib MiB; wanted less than $MIB_MAX" >&2; exit 1; }
echo "$folder: $mib MiB, needs $glibc (the simulated driver that of this machine); run its program \`run\`"
