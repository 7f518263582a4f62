#!/bin/sh
# SPDX-License-Identifier: MIT
# spills.sh [PLUGIN.so [NAME-PATTERN]]: vector registers moved to or from the stack inside the loops of the hot functions,
# by default those of cpu_x86 and attention_flash in build/ (but for the weights of attention: sixteen registers do not
# hold the constants of their polynomial).
# A loop is what lies between the target of a backward jump and the jump. Prints, for each function that has a loop, its
# innermost loops with their widest registers, instructions, multiply-adds and stack moves; ends with 1 if a loop with multiply-adds has
# stack moves.
set -u
hot_functions='^((f32|widened|i16|bf16_dot|i8_dot)_[0-9]+|(score_panel|score_keys|mix_columns|combine)(\..*)?)$'
if [ $# -eq 0 ]; then
  code=0
  for name in cpu_x86 attention_flash; do
    echo "$name"
    "$0" "build/lib/ordito/plugins/$name.so" || code=1
  done
  exit "$code"
fi
plugin=$1
pattern=${2:-$hot_functions}
objdump -d --no-show-raw-insn -M intel "$plugin" | awk -v pattern="$pattern" '
function hex(text,   i, value) {
  value = 0
  for (i = 1; i <= length(text); i++) value = value * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
  return value
}
# Loops that no shorter one overlaps.
function report(   i, j, k, inner, vector, instructions, multiplies, moves) {
  for (i = 1; i <= loops; i++) {
    inner = 1
    for (j = 1; j <= loops; j++)
      if (from[j] <= to[i] && to[j] >= from[i] && to[j] - from[j] < to[i] - from[i]) inner = 0
    if (!inner) continue
    multiplies = moves = instructions = 0
    vector = "xmm"
    for (k = 1; k <= count; k++) {
      if (at[k] < from[i] || at[k] > to[i]) continue
      instructions++
      if (text[k] ~ /zmm/) vector = "zmm"
      else if (text[k] ~ /ymm/ && vector == "xmm") vector = "ymm"
      if (text[k] ~ /vfmadd|vdpbf16ps|vpdpbusd|pmaddwd|mulps/) multiplies++
      if (text[k] ~ /(zmm|ymm|xmm)/ && text[k] ~ /\[[er](sp|bp)/) moves++
    }
    if (!multiplies) continue
    printf "%-23s %s %3d instructions %3d multiply-adds %3d stack moves\n", name, vector, instructions, multiplies, moves
    all++
    if (moves) spilled++
  }
}
/^[0-9a-f]+ <.*>:$/ {
  if (wanted) report()
  name = $2
  gsub(/[<>:]/, "", name)
  wanted = name ~ pattern
  count = loops = 0
  next
}
wanted && /^ *[0-9a-f]+:/ {
  address = $1
  sub(/:/, "", address)
  at[++count] = hex(address)
  text[count] = $0
  if ($2 ~ /^j/ && $3 ~ /^[0-9a-f]+$/ && hex($3) <= at[count]) {
    from[++loops] = hex($3)
    to[loops] = at[count]
  }
}
END {
  if (wanted) report()
  printf "%d loops with multiply-adds, %d of them with stack moves\n", all, spilled
  exit spilled > 0
}'
