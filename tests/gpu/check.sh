#!/bin/sh
# SPDX-License-Identifier: MIT
# check.sh BUILD: run.sh tells what came out, tried with programs that only pretend; its short form passes on the
# simulated driver; docs/gpu_evidence.md names tests that there are. BUILD may be what pack.sh made.
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# program FILE: an executable script of stdin.
program() {
  mkdir -p "$(dirname "$work/$1")"
  { echo '#!/bin/sh' && cat; } >"$work/$1"
  chmod +x "$work/$1"
}

# wants FILE LINE: this line, or part of one.
wants() {
  grep -qF -- "$2" "$work/$1" && return
  echo "found in $1:" && cat "$work/$1"
  echo "wanted: $2"
  bad=1
}

# runs STATUS COMMAND..: in the folder of the outcome.
runs() {
  wanted=$1
  shift
  status=0
  OUT="$work" "$@" >"$work/printed" 2>"$work/told" || status=$?
  [ "$status" = "$wanted" ] && return
  cat "$work/told"
  echo "$*: found status $status; wanted $wanted"
  bad=1
}

# ---- what is told of every outcome -------------------------------------------------------------------------------------

program fake/tests/print_cuda_device <<'END'
echo '{"name": "SIMULATED a \"device\"", "compute_capability": "9.0", "memory_mib": 10, "cuda": "13.0", "cublas": false}'
END
program fake/tests/test_cuda_good <<'END'
echo '[ RUN      ] test_one'
echo '[ RUN      ] inside'
echo '[       OK ] inside'
echo '[       OK ] test_one'
echo '[ RUN      ] test_two'
echo 'skipped: it "sets" the driver'
echo '[  SKIPPED ] test_two'
echo '[  SKIPPED ] tests: 1 test(s), listed below:'
echo '[  SKIPPED ] test_two'
END
program fake/tests/test_cuda_dies <<'END'
echo '[ RUN      ] test_three'
kill -9 $$
END
program fake/tests/test_cuda_fails <<'END'
echo '[ RUN      ] test_four'
echo '[  FAILED  ] test_four'
exit 1
END
program fake/tests/test_cuda_hangs <<'END'
echo '[ RUN      ] test_five'
exec sleep 60
END
program fake/bin/ordito <<'END'
[ "$1" = kernel-test ] || { echo 'ordito: no bench' >&2; exit 3; }
echo '5 rows passed, 2 refused, 0 failed'
END
program sanitizer <<'END'
case "$*" in
*memcheck*) exit 0 ;;
*racecheck*) echo '========= ERROR SUMMARY: 1 error'; exit 9 ;;
*) exec sleep 60 ;;
esac
END
export ORDITO_COMPUTE_SANITIZER="$work/sanitizer"
mkdir -p "$work/fake/lib/ordito/plugins"
touch "$work/fake/lib/ordito/plugins/cuda_one.so" "$work/fake/lib/ordito/plugins/cuda_two.so"
ORDITO_GPU_SECONDS=5 runs 1 tests/gpu/run.sh --simulated "$work/fake"
for line in '| test_cuda_good | passed | 1 | 0 | 1 |' '| test_cuda_dies | failed | 0 | 1 | 0 |' \
  '| test_cuda_fails | failed | 0 | 1 | 0 |' '| test_cuda_hangs | not finished | 0 | 1 | 0 |' \
  '| grid | not finished |' '- it "sets" the driver: `test_cuda_good: test_two`' 'SIMULATED'; do
  wants printed "$line"
done
wants gpu_evidence.json '{"stage": "test_cuda_dies", "outcome": "failed", "passed": 0, "failed": 1, "skipped": 0,'
wants gpu_evidence.json '"case": "test_two", "outcome": "skipped", "reason": "it \"sets\" the driver"}'
wants gpu_evidence.json '"bench": null'

rm "$work"/fake/tests/test_cuda_*
ORDITO_GPU_SECONDS=7 runs 1 tests/gpu/run.sh --simulated "$work/fake"
for line in '| grid | passed | 10 | 0 | 4 |' '| bench | failed |' 'ordito: no bench' '| pytorch | skipped |' \
  '| memcheck | passed |' '| racecheck | failed |' '| initcheck | not finished |' '| synccheck | not finished |'; do
  wants printed "$line"
done

program fake/tests/print_cuda_device <<'END'
exit 1
END
runs 4 tests/gpu/run.sh --simulated "$work/fake"
wants told 'no device: nothing was run'

# ---- the tests themselves, on the simulated driver ---------------------------------------------------------------------

unset ORDITO_COMPUTE_SANITIZER
run=tests/gpu/run.sh
[ ! -x "$build/run" ] || run=$build/run
runs 0 "$run" --simulated --short "$build"
wants printed 'SIMULATED CUDA device'
for stage in test_cuda_device test_cuda_capture grid; do wants printed "| $stage | passed |"; done
wants printed 'it sets the simulated driver'
wants gpu_evidence.md ', SIMULATED CUDA device (sm_90): passed'

# ---- the page ----------------------------------------------------------------------------------------------------------

# shellcheck disable=SC2016
grep -o '`test_[^`]*`' docs/gpu_evidence.md | tr -d '`:' | sort -u >"$work/named"
while read -r file name; do
  grep -q "cmocka_unit_test($name)" "tests/$file.c" && continue
  echo "docs/gpu_evidence.md: found \`$file: $name\`; wanted a test that there is"
  bad=1
done <"$work/named"
exit $bad
