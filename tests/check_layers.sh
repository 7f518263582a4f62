#!/bin/sh
# SPDX-License-Identifier: MIT
# The include arrow: session -> models -> graphs -> ops -> runtime -> include, never back. cli/, plugins/ and the
# reference kernels' own files see the public headers only. Prints every include that breaks it.
set -u
cd "$(dirname "$0")/.."
bad=0

# forbid FILES-PATTERN INCLUDE-PATTERN WHY
forbid() {
  found=$(grep -rnE "^#include \"($2)" $1 --include='*.c' --include='*.h' --include='*.def' 2>/dev/null)
  [ -z "$found" ] && return 0
  printf '%s\n%s\n' "$3" "$found"
  bad=1
}

forbid runtime 'ops/|graphs/|models/|session/|cli/' 'runtime/ may include include/ only:'
forbid ops 'graphs/|models/|session/|cli/' 'ops/ may include runtime/ and include/ only:'
forbid graphs 'models/|session/|cli/' 'graphs/ may include ops/, runtime/ and include/ only:'
forbid models 'session/|cli/' 'models/ may not include session/ or cli/:'
forbid session 'cli/' 'session/ may not include cli/:'
forbid cli 'session/|models/|graphs/|ops/|runtime/|ordito_plugin' 'cli/ may include ordito.h, ordito_measure.h and ordito_compute.def only:'
forbid plugins 'ordito\.h|ordito_measure|session/|models/|graphs/|ops/|runtime/|cli/' 'plugins/ may include ordito_plugin.h only:'
forbid include 'session/|models/|graphs/|ops/|runtime/|cli/' 'public headers may include each other only:'
forbid 'runtime ops graphs models session cli plugins include tests' '\.\./' 'no include goes up:'

found=$(grep -rnE '\b(abort|exit|printf|puts|fprintf)\(' runtime ops graphs models session --include='*.c' --include='*.h' |
  grep -vE 'format\(printf|snprintf|vsnprintf|/\*|^[^:]*:[0-9]*: \*')
[ -n "$found" ] && { printf 'the library never prints or ends the program:\n%s\n' "$found"; bad=1; }
exit $bad
