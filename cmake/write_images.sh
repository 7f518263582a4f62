#!/bin/sh
# SPDX-License-Identifier: MIT
# write_images.sh SYMBOL HEADER OUTPUT FATBIN..: writes a C source with the table of device images that HEADER declares;
# the image's name is the file's.
set -eu
symbol=$1
header=$2
output=$3
shift 3

{
  printf '/* Written by the build: device code as data. */\n#include "%s"\n\n' "$header"
  printf '__asm__(".pushsection .rodata\\n"\n'
  for fatbin in "$@"; do
    name=$(basename "$fatbin" .fatbin)
    printf '        ".balign 64\\n%s_%s:\\n.incbin \\"%s\\"\\n"\n' "$symbol" "$name" "$fatbin"
  done
  printf '        ".popsection\\n");\n\n'
  for fatbin in "$@"; do
    printf '__attribute__((visibility("hidden"))) extern const unsigned char %s_%s[];\n' "$symbol" \
      "$(basename "$fatbin" .fatbin)"
  done
  printf '\nconst ord_image %ss[] = {\n' "$symbol"
  for fatbin in "$@"; do
    name=$(basename "$fatbin" .fatbin)
    printf '    {.name = "%s", .kind = ORD_IMAGE_FATBIN, .bytes = %s_%s, .size = %s},\n' "$name" "$symbol" "$name" \
      "$(wc -c <"$fatbin")"
  done
  printf '    {0}};\n' # an array has at least one element
} >"$output.partial"
mv "$output.partial" "$output"
