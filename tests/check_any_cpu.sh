#!/bin/sh
# SPDX-License-Identifier: MIT
# check_any_cpu.sh PLUGIN FUNCTION..: neither the functions, which the host calls on whatever CPU there is, nor what they
# call in the plugin by name contain an instruction beyond plain x86-64. Calls through pointers are not followed: behind
# those lies what was found to fit the CPU. Ends with 77 where nothing can be checked.
set -eu
[ "$(uname -m)" = x86_64 ] || { echo "skipped: the levels of instructions are those of x86-64"; exit 77; }
command -v objdump >/dev/null || { echo "skipped: no objdump (package binutils)"; exit 77; }
plugin=$1
shift
objdump -d --no-show-raw-insn "$plugin" | awk -F '\t' -v roots="$*" '
# A function is known by its address: static ones of several sources may share a name.
/^[0-9a-f]+ <.*>:$/ {
  at = $0; sub(/ .*/, "", at); sub(/^0+/, "", at)
  name[at] = $0; gsub(/^.*<|>:$/, "", name[at])
  next
}
$2 ~ /%[yz]mm|%k[0-7]|^(v|andn|bextr|bls|mulx|pdep|pext|rorx|sarx|shlx|shrx|movbe|lzcnt|popcnt)/ && !(at in bad) { bad[at] = $2 }
$2 ~ /^(call|j[a-z]+) +[0-9a-f]+ </ {
  target = $2; sub(/^[a-z]+ +/, "", target); sub(/ .*/, "", target)
  called[at] = called[at] " " target
}
END {
  count = split(roots, root, " ")
  for (i = 1; i <= count; i++) {
    found = 0
    for (at in name) if (name[at] == root[i]) { queue[++last] = at; found = 1 }
    if (!found) { print "no function " root[i]; failed = 1 }
  }
  for (i = 1; i <= last; i++) {
    at = queue[i]
    if (seen[at]++ || !(at in name)) continue
    checked++
    if (at in bad) { print name[at] ": " bad[at]; failed = 1 }
    count = split(called[at], callee, " ")
    for (j = 1; j <= count; j++) queue[++last] = callee[j]
  }
  print checked + 0 " functions checked"
  exit failed
}'
