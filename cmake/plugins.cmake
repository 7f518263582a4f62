# SPDX-License-Identifier: MIT
# How a folder becomes a plugin, in the tree (CMakeLists.txt) and outside of it (cmake/plugin).

# The instructions that a source may use stand at the end of its name; every other source is for plain x86-64. What is
# called such must be reached only after the CPU was asked.
set(ORDITO_AVX2 -mavx2 -mfma -mf16c)
set(ORDITO_AVX512 ${ORDITO_AVX2} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512)
function(ordito_set_instructions)
  foreach(source ${ARGN})
    if(source MATCHES "_avx2\\.c$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${ORDITO_AVX2}")
    elseif(source MATCHES "_avx512\\.c$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${ORDITO_AVX512}")
    elseif(source MATCHES "_avx512_bf16\\.c$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${ORDITO_AVX512};-mavx512bf16")
    elseif(source MATCHES "_avx512_vnni\\.c$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${ORDITO_AVX512};-mavx512vnni")
    endif()
  endforeach()
endfunction()

set(ORDITO_PLUGIN_OPTIONS -O3 -fno-math-errno -fno-trapping-math)
# Every start copies the whole file of a plugin, so what only a debugger reads is left out of the usual build.
if(NOT ORDITO_SANITIZE)
  list(APPEND ORDITO_PLUGIN_OPTIONS $<$<CONFIG:RelWithDebInfo>:-g0>)
endif()
# ordito_add_levels(plugin_NAME SOURCES .. [INCLUDES ..]): compiles the sources once for each level of instructions,
# with ORDITO_LEVEL defined as its name (baseline, avx2, avx512), and adds them all to the plugin.
function(ordito_add_levels plugin)
  cmake_parse_arguments(LEVELS "" "" "SOURCES;INCLUDES" ${ARGN})
  set(ORDITO_BASELINE)
  foreach(level baseline avx2 avx512)
    string(TOUPPER ORDITO_${level} instructions)
    add_library(${plugin}_${level} OBJECT ${LEVELS_SOURCES})
    set_target_properties(${plugin}_${level} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_include_directories(${plugin}_${level} PRIVATE ${ORDITO_SOURCE_DIRECTORY}/include ${LEVELS_INCLUDES})
    target_compile_definitions(${plugin}_${level} PRIVATE ORDITO_LEVEL=${level})
    target_compile_options(${plugin}_${level} PRIVATE ${ORDITO_PLUGIN_OPTIONS} ${${instructions}})
    target_sources(${plugin} PRIVATE $<TARGET_OBJECTS:${plugin}_${level}>)
  endforeach()
endfunction()

# A plugin is a folder: every C source in it makes one shared object of the folder's name, each CUDA source (*.cu) one
# device image in it. What else belongs to it, its own CMakeLists.txt adds to the target plugin_NAME.
function(ordito_add_plugin folder output)
  get_filename_component(name ${folder} NAME)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.c)
  ordito_set_instructions(${sources})
  add_library(plugin_${name} MODULE ${sources})
  target_include_directories(plugin_${name} PRIVATE ${ORDITO_SOURCE_DIRECTORY}/include)
  target_compile_options(plugin_${name} PRIVATE ${ORDITO_PLUGIN_OPTIONS})
  target_link_libraries(plugin_${name} PRIVATE m)
  if(NOT ORDITO_SANITIZE AND NOT ORDITO_FUZZ)
    target_link_options(plugin_${name} PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(plugin_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${output})
  file(GLOB kernels CONFIGURE_DEPENDS ${folder}/*.cu)
  if(kernels)
    ordito_add_images(plugin_${name} OWNER ${name} SYMBOL plugin_image HEADER images.h SOURCES ${kernels}
                      OUTPUT ${output})
  endif()
  if(EXISTS ${folder}/CMakeLists.txt)
    add_subdirectory(${folder} ${CMAKE_BINARY_DIR}/plugins/${name})
  endif()
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
