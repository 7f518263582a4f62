# SPDX-License-Identifier: MIT
# CUDA: where the toolkit is, and how a CUDA C++ source becomes a device image. Without cuda.h of CUDA 13 and a C++
# compiler everything of CUDA is left out, and ORDITO_CUDA_INCLUDE, the folder of cuda.h, is empty. Without nvcc there are
# images for the simulated device alone, and ORDITO_NVCC is empty.
set(ORDITO_CUDA_PATH "" CACHE PATH "The only place where a CUDA toolkit is looked for (empty: the usual places)")
set(ORDITO_CUDA_ARCHITECTURES 80 89 90 100 120
    CACHE STRING "Compute capabilities that kernels are compiled for, ascending; PTX serves later devices")

if(NOT CMAKE_CXX_COMPILER)
  unset(CMAKE_CXX_COMPILER CACHE) # it may have been installed since
endif()
include(CheckLanguage)
check_language(CXX)
execute_process(COMMAND ${ORDITO_SOURCE_DIRECTORY}/cmake/find_toolkit.sh ${ORDITO_CUDA_PATH}
                OUTPUT_VARIABLE ORDITO_CUDA_TOOLKIT OUTPUT_STRIP_TRAILING_WHITESPACE)
set(ORDITO_CUDA_INCLUDE "")
set(ORDITO_NVCC "")
set(lacks "")
if(ORDITO_CUDA_TOOLKIT AND CMAKE_CXX_COMPILER)
  set(ORDITO_CUDA_INCLUDE ${ORDITO_CUDA_TOOLKIT}/include)
  if(EXISTS ${ORDITO_CUDA_TOOLKIT}/bin/nvcc)
    set(ORDITO_NVCC ${ORDITO_CUDA_TOOLKIT}/bin/nvcc)
  else()
    set(lacks "CUDA kernels are made for the simulated device alone: no nvcc in ${ORDITO_CUDA_TOOLKIT}")
  endif()
  enable_language(CXX)
  set(CMAKE_CXX_STANDARD 17)
  set(CMAKE_CXX_STANDARD_REQUIRED ON)
  set(CMAKE_CXX_EXTENSIONS OFF)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
else()
  set(lacks "CUDA is left out: it needs a toolkit of CUDA 13 (ORDITO_CUDA_PATH, ./dev toolkit) and a C++ compiler")
endif()
if(lacks AND NOT lacks STREQUAL ORDITO_CUDA_LACKS)
  message(STATUS "${lacks}")
endif()
set(ORDITO_CUDA_LACKS "${lacks}" CACHE INTERNAL "said once")

# Sources that include cuda.h.
function(ordito_use_cuda_headers)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_DEFINITIONS ORDITO_HAS_CUDA
                                                 COMPILE_OPTIONS "-isystem;${ORDITO_CUDA_INCLUDE}")
endfunction()

# The smallest images, by far: every start reads them all.
# -fmad=false as -ffp-contract=off on the CPU: instances of one kernel for other numbers of rows must round alike, so a
# kernel that wants a product and a sum in one rounding writes fmaf.
set(ORDITO_NVCC_FLAGS -std=c++17 -O3 -fmad=false --compress-mode=size)
# One translation to PTX for each generation that has what an earlier one lacks: each takes as long again.
foreach(architecture ${ORDITO_CUDA_ARCHITECTURES})
  foreach(generation 80 90 100)
    if(architecture GREATER_EQUAL generation)
      set(ptx ${generation})
    endif()
  endforeach()
  list(APPEND ORDITO_NVCC_FLAGS --generate-code=arch=compute_${ptx},code=sm_${architecture})
endforeach()
list(APPEND ORDITO_NVCC_FLAGS --generate-code=arch=compute_${ptx},code=compute_${ptx})
set(ORDITO_IMAGE_DIRECTORY ${CMAKE_BINARY_DIR}/images)
file(WRITE ${ORDITO_IMAGE_DIRECTORY}/list.txt "") # of all images, for tests/check_kernels.sh

# ordito_add_images(target OWNER name SOURCES .. SYMBOL symbol HEADER file OUTPUT folder): each source becomes one
# device image of its file's name.
# - For real devices: its code, as data in the target. `#include "file"` declares symbols[] and symbol_count, which is 0
#   without nvcc.
# - For the simulated device: the side file OUTPUT/simulated/name.image.so, and name.image.checked.so.
# Headers are found beside the source, and in folders beside that folder.
function(ordito_add_images target)
  cmake_parse_arguments(IMAGES "" "OWNER;SYMBOL;HEADER;OUTPUT" "SOURCES" ${ARGN})
  set(generated ${ORDITO_IMAGE_DIRECTORY}/${IMAGES_OWNER})
  get_filename_component(header_folder ${generated}/include/${IMAGES_HEADER} DIRECTORY)
  file(MAKE_DIRECTORY ${generated} ${header_folder})
  set(fatbins)
  foreach(source ${IMAGES_SOURCES})
    get_filename_component(image ${source} NAME_WE)
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(around ${folder} DIRECTORY)
    set(includes ${ORDITO_SOURCE_DIRECTORY}/include ${around} ${folder})
    if(ORDITO_NVCC)
      ordito_compile_image(${IMAGES_OWNER} ${image} ${source} ${generated}/${image} ${includes})
      list(APPEND fatbins ${generated}/${image}.fatbin)
    endif()
    if(TARGET ordito_simulated_cuda)
      ordito_add_image_for_simulator(${target} ${IMAGES_OWNER}.${image} ${source} ${IMAGES_OUTPUT}/simulated ${includes})
    endif()
  endforeach()
  list(LENGTH fatbins count)
  string(TOUPPER ORDITO_${IMAGES_OWNER}_IMAGES_H guard)
  file(CONFIGURE OUTPUT ${generated}/include/${IMAGES_HEADER} CONTENT
"/* Written by the build: the device images of @IMAGES_OWNER@. */
#ifndef @guard@
#define @guard@
#include \"ordito_plugin.h\"

enum { @IMAGES_SYMBOL@_count = @count@ };
extern const ord_image @IMAGES_SYMBOL@s[];

#endif
" @ONLY)
  add_custom_command(
    OUTPUT ${generated}/images.c
    COMMAND ${ORDITO_SOURCE_DIRECTORY}/cmake/write_images.sh ${IMAGES_SYMBOL} ${IMAGES_HEADER} ${generated}/images.c ${fatbins}
    DEPENDS ${fatbins} ${ORDITO_SOURCE_DIRECTORY}/cmake/write_images.sh VERBATIM COMMENT "")
  target_sources(${target} PRIVATE ${generated}/images.c)
  target_include_directories(${target} PRIVATE ${generated}/include ${around})
endfunction()

# OUTPUT.fatbin
function(ordito_compile_image owner image source output)
  list(TRANSFORM ARGN PREPEND -I OUTPUT_VARIABLE includes)
  add_custom_command(
    OUTPUT ${output}.fatbin BYPRODUCTS ${output}.log
    COMMAND ${ORDITO_SOURCE_DIRECTORY}/cmake/compile_image.sh ${ORDITO_NVCC} ${source} ${output} ${ORDITO_NVCC_FLAGS}
            ${includes}
    DEPENDS ${source} ${ORDITO_SOURCE_DIRECTORY}/cmake/compile_image.sh DEPFILE ${output}.d VERBATIM
    COMMENT "Compiling the image ${image} of ${owner}")
  file(APPEND ${ORDITO_IMAGE_DIRECTORY}/list.txt "${output}\n")
endfunction()

function(ordito_add_image_for_simulator target name source output)
  ordito_add_simulated_image(${name} ${source})
  foreach(image ${name} ${name}.checked)
    target_include_directories(${image} PRIVATE ${ARGN})
    set_target_properties(${image} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${output})
    add_dependencies(${target} ${image})
  endforeach()
endfunction()
