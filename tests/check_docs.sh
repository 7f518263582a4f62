#!/bin/sh
# SPDX-License-Identifier: MIT
# check_docs.sh BUILD [--write]: the pages against the program. The op table of docs/model_format.md is the printed one,
# each whole model on a page passes `ordito check`, and on the pages below each command of an `sh` block (behind "$ ")
# works, in order, in a folder with include/, models/, build/ and try/, which holds what the pages before wrote there and
# the files of the page: a block whose first line names a file of try/ is that file. What a command prints must be what
# the page shows behind it; numbers that time or the machine make (see mask) may differ, and all lines of a block that
# begins "```sh varies". A block that begins "```sh cuda" is passed over where the build has no CUDA.
# With --write, the op table and what the commands print are written into the pages.
set -eu
pages="README.md docs/add_a_kernel.md docs/run_config.md docs/model_format.md"
build=$(realpath "$1")
write=${2:-}
cd "$(dirname "$0")/.."
source=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$source/include" "$source/models" "$work"
ln -s "$build" "$work/build"
cd "$work"
mkdir try
bad=0
cuda=yes
[ -f build/lib/libordito_simulated_cuda.so ] || cuda=no

say() {
  printf '%s\n' "$*" >&2
  bad=1
}

check_op_table() {
  page=$source/docs/model_format.md
  build/bin/ordito show --op-table >op_table
  begin='<!-- the op table: begin' end='<!-- the op table: end'
  if [ "$write" ]; then
    sed -i -e "/$begin/r op_table" -e "/$begin/,/$end/{//!d}" "$page"
  elif ! sed -n "/$begin/,/$end/{//!p}" "$page" | diff - op_table; then
    say "docs/model_format.md: the op table is not the program's; ./dev docs writes it"
  fi
}

# Each block that begins as a model file does, maybe behind a comment that names it.
check_models() {
  awk '/^```$/ { name = "" }
       /^```yaml$/ { getline; first = ""; if (/^# try/) { first = $0 "\n"; getline }
                     name = /^ordito: 1$/ ? "block-" ++count ".yaml" : ""; if (name) printf "%s", first > name }
       name { print > name }' "$1"
  for model in block-*.yaml; do
    [ -f "$model" ] || continue
    build/bin/ordito check "$model" >/dev/null || say "$1: a model on the page is wrong"
    rm "$model"
  done
}

# A block of C, CUDA C++ or YAML whose first line names a file of try/ becomes that file.
write_sources() {
  awk '/^```$/ { name = "" }
       /^```(c|cuda|yaml)$/ {
         getline
         name = $2 ~ /^try\/[a-z_\/]+\.(c|cu|h|yaml):$/ ? substr($2, 1, length($2) - 1) : ""
         folder = name
         if (sub(/\/[^\/]*$/, "", folder)) system("mkdir -p " folder)
       }
       name { print > name }' "$1"
}

# A page without what its commands may print otherwise on another day or machine.
mask() {
  awk '/^```sh/ { inside = 1; varies = / varies$/ }
       /^```$/ { inside = 0 }
       inside && varies && !/^```/ && !/^\$ / { next }
       inside && (/tokens\/s|^memory: | us( |$)|digest/) { gsub(/[0-9][0-9a-f.]*/, "N"); gsub(/ +/, " ") }
       { print }' "$1"
}

# compare_output PAGE PRINTED
compare_output() {
  mask "$1" >shown
  mask "$2" >printed
  diff -u --label "on the page" --label "printed" shown printed >&2
}

# The page with what its commands print now. `./dev run` and `./dev plugin` stand for what they do once everything is
# installed and built; the other verbs of dev are left as they are. Rows of kernel-test get more time. Fails if a
# command does.
run_commands() {
  awk -v build="$build" -v source="$source" -v here="$work/" -v cuda="$cuda" -v page="$1" '
    function run(command, shell, line, status) {
      status = "of the shell"
      shell = "{ " command "\n} 2>&1; echo \"@@$?\""
      while ((shell | getline line) > 0) {
        gsub(build, "build", line)
        gsub(here, "", line)
        if (match(line, /@@[0-9]+$/)) {
          status = substr(line, RSTART + 2)
          line = substr(line, 1, RSTART - 1)
          if (!line) continue
        }
        print line
      }
      close(shell)
      if (status == "0") return
      printf "%s: status %s: %s\n", page, status, command > "/dev/stderr"
      failed = 1
    }
    /^```sh cuda/ && cuda == "no" {
      if (!told++) print page ": the commands for CUDA are passed over: the build has no CUDA" > "/dev/stderr"
      print
      next
    }
    /^```sh( cuda)?( varies)?$/ { inside = 1; kept = 0; print; next }
    /^```$/ { inside = 0 }
    !inside { print; next }
    !/^\$ / { if (kept) print; next }
    {
      print
      command = substr($0, 3)
      while (command ~ /\\$/ && (getline) > 0) { print; command = command "\n" $0 }
      sub(/^\.\/dev run$/, "build/bin/ordito generate models/andrea-nano.yaml", command)
      sub(/^\.\/dev plugin /, source "/cmake/plugin/build.sh ", command)
      sub(/ordito kernel-test /, "ordito kernel-test --time-limit 3000 ", command) # of a slow build on a busy machine
      kept = command ~ /^\.\/dev/
      if (!kept) run(command)
    }
    END { exit failed }' "$1"
}

check_op_table
for page in "$source"/*.md "$source"/docs/*.md; do check_models "$page"; done
for page in $pages; do
  write_sources "$source/$page"
  if ! run_commands "$source/$page" >page; then
    say "$page: see above"
  elif [ "$write" ]; then
    cat page >"$source/$page"
  elif ! compare_output "$source/$page" page; then
    say "$page: a command prints something else; ./dev docs writes it"
  fi
done
exit $bad
