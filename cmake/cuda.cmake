# SPDX-License-Identifier: MIT
# CUDA: where the toolkit is, and how a CUDA C++ source becomes a device image. Without nvcc and cuda.h of CUDA 13 and a
# C++ compiler everything of CUDA is left out, and ORDITO_CUDA_INCLUDE, the folder of cuda.h, is empty.
set(ORDITO_CUDA_PATH "" CACHE PATH "The only place where a CUDA toolkit is looked for (empty: the usual places)")
set(ORDITO_CUDA_ARCHITECTURES 80 89 90 100 120
    CACHE STRING "Compute capabilities that kernels are compiled for, ascending; PTX serves later devices")

if(NOT CMAKE_CXX_COMPILER)
  unset(CMAKE_CXX_COMPILER CACHE) # it may have been installed since
endif()
include(CheckLanguage)
check_language(CXX)
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/cmake/find_toolkit.sh ${ORDITO_CUDA_PATH}
                OUTPUT_VARIABLE ORDITO_CUDA_TOOLKIT OUTPUT_STRIP_TRAILING_WHITESPACE)
if(ORDITO_CUDA_TOOLKIT AND CMAKE_CXX_COMPILER)
  set(ORDITO_CUDA_INCLUDE ${ORDITO_CUDA_TOOLKIT}/include)
  set(ORDITO_NVCC ${ORDITO_CUDA_TOOLKIT}/bin/nvcc)
  unset(ORDITO_CUDA_LEFT_OUT CACHE)
  enable_language(CXX)
  set(CMAKE_CXX_STANDARD 17)
  set(CMAKE_CXX_STANDARD_REQUIRED ON)
  set(CMAKE_CXX_EXTENSIONS OFF)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
else()
  set(ORDITO_CUDA_INCLUDE "")
  if(NOT ORDITO_CUDA_LEFT_OUT)
    message(STATUS "CUDA is left out: it needs a toolkit of CUDA 13 (ORDITO_CUDA_PATH, ./dev toolkit) and a C++ compiler")
  endif()
  set(ORDITO_CUDA_LEFT_OUT ON CACHE INTERNAL "said once")
endif()

# Sources that include cuda.h.
function(ordito_use_cuda_headers)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_DEFINITIONS ORDITO_HAS_CUDA
                                                 COMPILE_OPTIONS "-isystem;${ORDITO_CUDA_INCLUDE}")
endfunction()

# The smallest images, by far: every start reads them all.
# -fmad=false as -ffp-contract=off on the CPU: instances of one kernel for other numbers of rows must round alike, so a
# kernel that wants a product and a sum in one rounding writes fmaf.
set(ORDITO_NVCC_FLAGS -std=c++17 -O3 -fmad=false --compress-mode=size)
# One translation to PTX before and one from compute capability 9.0 on, which no kernel asks more of: each takes as long
# again. (That of nvcc 13 for 10.0 and later takes more registers for the same loops.)
foreach(architecture ${ORDITO_CUDA_ARCHITECTURES})
  set(ptx 80)
  if(architecture GREATER_EQUAL 90)
    set(ptx 90)
  endif()
  list(APPEND ORDITO_NVCC_FLAGS --generate-code=arch=compute_${ptx},code=sm_${architecture})
endforeach()
list(APPEND ORDITO_NVCC_FLAGS --generate-code=arch=compute_${ptx},code=compute_${ptx})
set(ORDITO_IMAGE_DIRECTORY ${CMAKE_BINARY_DIR}/images)
file(WRITE ${ORDITO_IMAGE_DIRECTORY}/list.txt "") # of all images, for tests/check_kernels.sh

# ordito_add_images(target OWNER name SOURCES .. SYMBOL symbol HEADER file OUTPUT folder): each source becomes one
# device image of its file's name.
# - For real devices: its code, as data in the target. `#include "file"` declares symbols[] and symbol_count.
# - For the simulated device: the side file OUTPUT/simulated/name.image.so, and name.image.checked.so.
function(ordito_add_images target)
  cmake_parse_arguments(IMAGES "" "OWNER;SYMBOL;HEADER;OUTPUT" "SOURCES" ${ARGN})
  set(generated ${ORDITO_IMAGE_DIRECTORY}/${IMAGES_OWNER})
  get_filename_component(header_folder ${generated}/include/${IMAGES_HEADER} DIRECTORY)
  file(MAKE_DIRECTORY ${generated} ${header_folder})
  foreach(source ${IMAGES_SOURCES})
    get_filename_component(image ${source} NAME_WE)
    get_filename_component(folder ${source} DIRECTORY)
    add_custom_command(
      OUTPUT ${generated}/${image}.fatbin BYPRODUCTS ${generated}/${image}.log
      COMMAND ${PROJECT_SOURCE_DIR}/cmake/compile_image.sh ${ORDITO_NVCC} ${source} ${generated}/${image}
              ${ORDITO_NVCC_FLAGS} -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/plugins -I${folder}
      DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/compile_image.sh DEPFILE ${generated}/${image}.d VERBATIM
      COMMENT "Compiling the image ${image} of ${IMAGES_OWNER}")
    list(APPEND fatbins ${generated}/${image}.fatbin)
    file(APPEND ${ORDITO_IMAGE_DIRECTORY}/list.txt "${generated}/${image}\n")
    if(TARGET ordito_simulated_cuda)
      ordito_add_image_for_simulator(${target} ${IMAGES_OWNER}.${image} ${source} ${IMAGES_OUTPUT}/simulated)
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
    COMMAND ${PROJECT_SOURCE_DIR}/cmake/write_images.sh ${IMAGES_SYMBOL} ${IMAGES_HEADER} ${generated}/images.c ${fatbins}
    DEPENDS ${fatbins} ${PROJECT_SOURCE_DIR}/cmake/write_images.sh VERBATIM COMMENT "")
  target_sources(${target} PRIVATE ${generated}/images.c)
  target_include_directories(${target} PRIVATE ${generated}/include ${PROJECT_SOURCE_DIR}/plugins)
endfunction()

function(ordito_add_image_for_simulator target name source output)
  ordito_add_simulated_image(${name} ${source})
  get_filename_component(folder ${source} DIRECTORY)
  foreach(image ${name} ${name}.checked)
    target_include_directories(${image} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/plugins ${folder})
    set_target_properties(${image} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${output})
    add_dependencies(${target} ${image})
  endforeach()
endfunction()

# ordito_find_plugins(variable FOLDER): the folders in FOLDER that hold a plugin which this build can make. What is for
# CUDA is not made with instrumented code, which the simulated driver does not stand.
function(ordito_find_plugins variable parent)
  file(GLOB sources CONFIGURE_DEPENDS ${parent}/*/*.c)
  set(found)
  foreach(source ${sources})
    get_filename_component(folder ${source} DIRECTORY)
    list(APPEND found ${folder})
  endforeach()
  list(REMOVE_DUPLICATES found)
  if(NOT ORDITO_CUDA_INCLUDE OR ORDITO_SANITIZE OR ORDITO_FUZZ)
    list(FILTER found EXCLUDE REGEX "/(cuda_[^/]*|cublas)$")
  endif()
  if(NOT EXISTS ${ORDITO_CUDA_INCLUDE}/cublasLt.h)
    list(FILTER found EXCLUDE REGEX "/cublas$")
  endif()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()
