#!/bin/sh
# SPDX-License-Identifier: MIT
# check_plugin_layout.sh PROGRAM: the layout of the plugin ABI against the committed one; and every field of the header
# is in plugin_layout.def.
set -eu
cd "$(dirname "$0")"
"$1" | diff plugin_layout.txt - || {
  echo "the layout of the plugin ABI changed; if that is wanted, commit the new plugin_layout.txt"
  exit 1
}
