#!/bin/sh
# SPDX-License-Identifier: MIT
# check_kernels.sh BUILD: a table of all CUDA kernels by architecture (registers of a thread, static shared bytes of a
# block, bytes of the spill stores and loads), out of what ptxas said when they were compiled. Fails where a kernel
# spills that known_spills.txt does not list with its reason, and where one of this build is listed that does not.
set -eu
build=$1
[ -s "$build/images/list.txt" ] || { echo "$build has no CUDA kernels"; exit 1; }
known=$(dirname "$0")/known_spills.txt

# image kernel architecture registers shared spilled
measure() {
  while read -r image; do
    [ -f "$image.log" ] || { echo "$image.log"; continue; }
    awk -v image="$(basename "$(dirname "$image")").$(basename "$image")" '
      function tell() { if (kernel != "") print image, kernel, architecture, registers, shared, spilled }
      / Compiling entry function / {
        tell()
        gsub("\047", "")
        kernel = $(NF - 2); architecture = $NF; registers = shared = spilled = 0
      }
      / bytes spill stores/ { spilled += $5 + $9 } # of the kernel and of what it calls
      / Used [0-9]+ registers/ {
        for (i = 2; i <= NF; i++) {
          if ($i ~ /^registers/) registers = $(i - 1)
          if ($i ~ /^smem/) shared = $(i - 2)
        }
      }
      END { tell() }' "$image.log"
  done <"$build/images/list.txt"
}

measure | awk -v known="$known" '
  BEGIN {
    widest = 26
    while ((getline line <known) > 0) {
      if (line ~ /^ *(#|$)/) continue
      count = split(line, word, " ")
      if (count < 4) { print known ": no reason in: " line; bad = 1 }
      reason[word[1] " " word[2] " " word[3]] = line
    }
  }
  NF == 1 { fault[++faults] = $1 " is not there; build first"; next }
  {
    row = $1 " " $2
    images[$1] = 1
    if (!(row in width)) order[++rows] = row
    if (length(row) > widest) widest = length(row)
    width[row] = 1
    if (!($3 in seen)) { seen[$3] = 1; column[++columns] = $3 }
    cell[row, $3] = $4 " " $5 " " ($6 ? $6 : "-")
    id = row " " $3
    met[id] = 1
    if ($6 && !(id in reason)) fault[++faults] = id " spills " $6 " bytes; wanted none, or its reason in tests/known_spills.txt"
    if (!$6 && id in reason) fault[++faults] = id " does not spill; remove its line from tests/known_spills.txt"
  }
  END {
    for (id in reason) {
      split(id, word, " ")
      if (!(id in met) && word[1] in images && word[3] in seen) fault[++faults] = id " is in tests/known_spills.txt, but there is no such kernel"
    }
    for (i = 2; i <= columns; i++)
      for (k = i; k > 1 && substr(column[k], 4) + 0 < substr(column[k - 1], 4) + 0; k--) {
        other = column[k]; column[k] = column[k - 1]; column[k - 1] = other
      }
    name = "%-" widest "s"
    printf name, "registers, shared, spilled"
    for (i = 1; i <= columns; i++) printf "  %14s", column[i]
    print ""
    for (r = 1; r <= rows; r++) {
      printf name, order[r]
      for (i = 1; i <= columns; i++) printf "  %14s", cell[order[r], column[i]]
      print ""
    }
    printf "%d kernel%s, %d fault%s\n", rows, rows == 1 ? "" : "s", faults, faults == 1 ? "" : "s"
    for (i = 1; i <= faults; i++) print fault[i]
    exit bad || faults || !rows
  }'
