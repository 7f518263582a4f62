#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the folder for what is kept between builds: ORDITO_CACHE/ordito, or that of the user's cache.
set -eu
printf '%s/ordito\n' "${ORDITO_CACHE:-${XDG_CACHE_HOME:-${HOME:?HOME, XDG_CACHE_HOME or ORDITO_CACHE has to be set}/.cache}}"
