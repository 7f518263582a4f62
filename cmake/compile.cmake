# SPDX-License-Identifier: MIT
# How C is compiled, the tree's and that of plugins outside of it.
get_filename_component(ORDITO_SOURCE_DIRECTORY ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# -ffp-contract=off: whether a product and a sum become one rounding must not depend on the compiler's mood, since
# replay, batch and thread counts promise equal bits.
add_compile_options(-Wall -Wextra -Wshadow -Wundef $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes> -Wvla -ffp-contract=off)
add_compile_definitions(_GNU_SOURCE)
