#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh [--simulated] [--short] [BUILD]: everything that a GPU can show, in under eight minutes: the CUDA tests on the
# real driver, the conformance rows of each CUDA plugin, bench, PyTorch where python3 has it, the conformance rows again
# under compute-sanitizer where it is. BUILD is a build tree; without it, the folder that ./dev gpu --pack made, in which
# this lies. Needs a shell, coreutils, sed, awk.
#
# Prints one table. Writes into $OUT, or the current folder: gpu_evidence.json; gpu_evidence.md, which is
# docs/gpu_evidence.md with what this run showed; gpu_logs/, what each stage printed. Exits with 0 if nothing failed and
# every test came to its end, else 1, or 4 where there is no device.
#
# --simulated: on the simulated driver, which stands for the real one. --short: a part of each stage.
set -eu
export LC_ALL=C

SECONDS_IN_ALL=${ORDITO_GPU_SECONDS:-470}
is_simulated=""
is_short=""
while [ $# -gt 0 ]; do
  case $1 in
  --simulated) is_simulated=1 ;;
  --short) is_short=1 ;;
  -*) echo "run.sh: found '$1'; wanted --simulated, --short or a build tree" >&2; exit 2 ;;
  *) break ;;
  esac
  shift
done
source=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$source}
if [ $# -gt 1 ] || [ ! -x "$build/tests/print_cuda_device" ]; then
  echo "run.sh: found '$*'; wanted options, then one build tree with the CUDA tests, or none beside a packed folder" >&2
  exit 2
fi
build=$(cd "$build" && pwd)
out=${OUT:-$PWD}
mkdir -p "$out/gpu_logs"
out=$(cd "$out" && pwd)
logs=$out/gpu_logs
work=$(mktemp -d)
running=""
# What runs is a group of processes of its own, that of `timeout`, which hands a signal on to it.
stop() {
  [ -z "$running" ] || kill "$running" 2>/dev/null || true
  exit 130
}
trap 'rm -rf "$work"' EXIT
trap stop INT TERM
begin=$(date +%s)
: >"$work/rows"
: >"$work/cases"
cd "$source" # packed tests look for their files in the current folder

say() { printf '%s\n' "gpu: $*" >&2; }

# ---- what is here --------------------------------------------------------------------------------------------------

# Prints the first of these folders that holds the file.
find_in() {
  file=$1
  shift
  for folder in "$@"; do
    if [ -e "$folder/$file" ]; then
      printf '%s\n' "$folder"
      return
    fi
  done
}

has_cublas() { case $device in *'"cublas": true'*) ;; *) return 1 ;; esac }

# Where the loader does not find cuBLAS by itself, a toolkit or a Python package may hold it.
find_cublas() {
  packages=$(python3 -c 'import site; print(*site.getsitepackages())' 2>/dev/null) || packages=""
  set -- "${CUDA_HOME:-/usr/local/cuda}/lib64" /usr/local/cuda/lib64
  for folder in $packages; do
    set -- "$@" "$folder/nvidia/cu13/lib"
  done
  folder=$(find_in libcublasLt.so.13 "$@")
  [ -z "$folder" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
}

find_sanitizer() {
  sanitizer=${ORDITO_COMPUTE_SANITIZER:-}
  if [ -z "$sanitizer" ] && [ -z "$is_simulated" ]; then
    folder=$(find_in compute-sanitizer "${CUDA_HOME:-/usr/local/cuda}/bin" /usr/local/cuda/bin)
    sanitizer=$(command -v compute-sanitizer || printf '%s' "${folder:+$folder/compute-sanitizer}")
  fi
}

# The release of a real driver.
find_release() {
  [ -z "$is_simulated" ] || return 0
  awk 'NR == 1 { for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]+\.[0-9.]+$/) print $i }' /proc/driver/nvidia/version \
    2>/dev/null || true
}

find_commit() {
  cat "$source/commit" 2>/dev/null || git -C "$source" describe --always --dirty 2>/dev/null || echo unknown
}

# ---- stages --------------------------------------------------------------------------------------------------------

left() { echo $((begin + SECONDS_IN_ALL - $(date +%s))); }

# row STAGE OUTCOME PASSED FAILED SKIPPED SECONDS REMARK
row() {
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$@" >>"$work/rows"
  say "$1: $2${7:+ ($7)}"
}

# run STAGE SECONDS COMMAND..: what the command says goes to the stage's log. Sets outcome, remark and took.
run() {
  stage=$1
  bound=$2
  shift 2
  [ "$bound" -le "$(left)" ] || bound=$(left)
  say "$stage, at most $bound s"
  : >"$logs/$stage.log"
  outcome="not finished"
  remark="no time was left"
  took=0
  [ "$bound" -gt 0 ] || return 0
  from=$(date +%s)
  status=0
  timeout -k 5 "$bound" "$@" >"$logs/$stage.log" 2>&1 </dev/null &
  running=$!
  wait "$running" || status=$?
  running=""
  took=$(($(date +%s) - from))
  outcome=passed
  remark=""
  if [ "$status" != 0 ] && [ "$took" -ge "$bound" ]; then
    outcome="not finished"
    remark="no end within $bound s"
  elif [ "$status" != 0 ]; then
    outcome=failed
    remark=$(awk 'NF { line = $0 } END { print substr(line, 1, 200) }' "$logs/$stage.log")
  fi
}

test_program() {
  name=$1
  run "$name" 90 "$build/tests/$name"
  awk -v program="$name" -f "$source/tests/gpu/cases.awk" "$logs/$name.log" >"$work/its"
  cat "$work/its" >>"$work/cases"
  count() { awk -F '\t' -v outcome="$1" '$3 == outcome { n++ } END { print n + 0 }' "$work/its"; }
  bad=$(awk -F '\t' '$3 == "failed" { printf "%s%s", n++ ? ", " : "", $2 }' "$work/its")
  [ "$outcome" != passed ] || [ "$(count passed)" -gt 0 ] || outcome=skipped
  row "$name" "$outcome" "$(count passed)" "$(count failed)" "$(count skipped)" "$took" "${bad:-$remark}"
}

# rows_of STAGE: passed, failed and refused rows in the reports of kernel-test.
rows_of() {
  awk '/^[0-9]+ rows? passed, / {
         passed += $1
         n = split($0, part, ", ")
         for (i = 2; i <= n; i++) {
           split(part[i], word, " ")
           if (word[2] == "refused") refused += word[1]; else failed += word[1]
         }
       }
       END { printf "%d %d %d", passed, failed, refused }' "$logs/$1.log"
}

# grid STAGE SECONDS COMMAND..: the conformance rows of every CUDA plugin; the command runs each test. Where all is well
# `about` is the remark, here and below.
grid() {
  name=$1
  seconds=$2
  shift 2
  # shellcheck disable=SC2016
  run "$name" "$seconds" sh -c '
    how=$1; ordito=$2; plugins=$3; shift 3; bad=0
    for plugin in $plugins; do "$@" "$ordito" kernel-test $how "$plugin" || bad=1; done
    exit $bad' sh "$on" "$build/bin/ordito" "$plugins" "$@"
  # shellcheck disable=SC2046
  set -- $(rows_of "$name")
  row "$name" "$outcome" "$1" "$2" "$3" "$took" "${remark:-$about}"
}

# figures STAGE SECONDS COMMAND..: a program whose JSON is kept.
figures() {
  name=$1
  seconds=$2
  shift 2
  # shellcheck disable=SC2016
  run "$name" "$seconds" sh -c 'into=$1; shift; exec "$@" >"$into"' sh "$work/$name.json" "$@"
  [ "$outcome" = passed ] || rm -f "$work/$name.json"
  row "$name" "$outcome" "" "" "" "$took" "${remark:-$about}"
}

# ---- the run -------------------------------------------------------------------------------------------------------

find_sanitizer
if [ "$is_simulated" ]; then
  export ORDITO_TEST_CUDA=stand-in
  on="--simulated" # with each access looked at, which is slow
  grid_seconds=300
  model="models/andrea-nano.yaml --simulated --steps 2 --repeat 1 --prompt 16 --position 16"
else
  export ORDITO_TEST_CUDA=real ORDITO_SIMULATOR_PATH=/nowhere # nothing of this may be simulated
  on="--device cuda"
  grid_seconds=150
  model="models/andrea.yaml --size 120m --random-weights 1 --compute bf16 --position 512"
fi
if ! device=$("$build/tests/print_cuda_device"); then # which says why
  say "no device: nothing was run"
  exit 4
fi
own_libraries=${LD_LIBRARY_PATH:-}
if ! has_cublas; then
  find_cublas
  device=$("$build/tests/print_cuda_device")
fi
say "$device"

tests=$(cd "$build/tests" && for name in test_cuda_* test_cublas; do [ ! -x "$name" ] || echo "$name"; done)
plugins=$(for file in "$build"/lib/ordito/plugins/cuda_*.so; do echo "$file"; done)
about_grid="skipped: refused by kernels"
if has_cublas; then
  plugins="$plugins $build/lib/ordito/plugins/cublas.so"
else
  about_grid="$about_grid; without plugin cublas, whose library is not found"
fi
if [ "$is_short" ]; then
  tests="test_cuda_device test_cuda_capture"
  plugins=$build/lib/ordito/plugins/cuda_attention_naive.so
fi

for name in $tests; do
  test_program "$name"
done
about=$about_grid
grid grid "$grid_seconds"
about=""
# shellcheck disable=SC2086
figures bench 120 "$build/bin/ordito" bench --device cuda --json $model
if [ "$is_simulated" ]; then
  row pytorch skipped "" "" "" "" "a simulated device"
elif ! timeout 60 python3 -c 'import torch' 2>/dev/null; then
  row pytorch skipped "" "" "" "" "python3 with torch is not found"
else
  about="without the compiled ways, which take minutes"
  figures pytorch 100 env LD_LIBRARY_PATH="$own_libraries" \
    python3 tests/bench/pytorch_gpu.py --json --no-compile --size 120m --position 512
fi
about=$about_grid
tools=4
for tool in memcheck racecheck initcheck synccheck; do
  if [ "$sanitizer" ]; then
    grid "$tool" $(($(left) / tools)) "$sanitizer" --tool "$tool" --target-processes all --error-exitcode 9
  else
    row "$tool" skipped "" "" "" "" "compute-sanitizer is not found"
  fi
  tools=$((tools - 1))
done

# ---- what is told --------------------------------------------------------------------------------------------------

when=$(date -u +%Y-%m-%d)
took=$(($(date +%s) - begin))
export device when took commit release simulated
commit=$(find_commit)
release=$(find_release)
simulated=${is_simulated:+true}
report() { awk -F '\t' -v rows="$work/rows" -v cases="$work/cases" "$@"; }
report -v bench="$work/bench.json" -v pytorch="$work/pytorch.json" -f "$source/tests/gpu/json.awk" \
  >"$out/gpu_evidence.json"
report -f "$source/tests/gpu/page.awk" "$source/docs/gpu_evidence.md" >"$out/gpu_evidence.md"
report -v is_table=1 -f "$source/tests/gpu/page.awk" </dev/null
awk -F '\t' '$2 == "failed" || ($2 == "not finished" && $1 ~ /^(test_|grid)/) { bad = 1 } END { exit bad }' "$work/rows"
