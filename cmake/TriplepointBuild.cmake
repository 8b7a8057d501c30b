# SPDX-License-Identifier: Apache-2.0
# How everything is compiled: standard, build type, warnings, compiler cache.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # the C surface is a shared library
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(TPT_CCACHE ccache)
mark_as_advanced(TPT_CCACHE)
if(TPT_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TPT_CCACHE})
endif()

# The same commit gives the same programs in any folder.
add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)

if(TPT_BROWSER)
  # One program: smaller, and the tag of exceptions, to which all else refers, is defined in wasm/'s library of them.
  set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
  add_compile_options(-fwasm-exceptions "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${PROJECT_SOURCE_DIR}/wasm/missing.h>")
endif()

# GCC collects its garbage from half a gigabyte on, not from 128 MB: a tenth less time.
add_compile_options("$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-heapsize=524288>")

# Equal input gives equal bits: no contraction into fused multiply-adds that one compiler makes and another does not.
add_compile_options(-ffp-contract=off)

# Fuzz targets watch the whole library: errors by the sanitizers, coverage by clang's fuzzer.
if(TPT_FUZZ)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer,address,undefined)
  check_cxx_source_compiles("#include <cstddef>
    extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, std::size_t) { return 0; }" TPT_LIBFUZZER)
  unset(CMAKE_REQUIRED_FLAGS)
  if(NOT TPT_LIBFUZZER)
    message(FATAL_ERROR "the fuzz targets need clang's libFuzzer; apt install clang-14 libclang-rt-14-dev and set CMAKE_CXX_COMPILER=clang++-14")
  endif()
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all)
  add_compile_options(${sanitizers} -fsanitize=fuzzer-no-link)
  add_link_options(${sanitizers})
endif()

add_library(triplepoint_warnings INTERFACE)
target_compile_options(triplepoint_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wnon-virtual-dtor
  # A unity build sees the names and anonymous namespaces of other files; the presets without it keep these two warnings.
  $<IF:$<BOOL:${TPT_UNITY}>,$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>,-Wshadow> -Woverloaded-virtual -Wcast-align
  -Wno-missing-field-initializers  # designated initializers leave the other fields at their defaults, on purpose
  $<$<BOOL:${TPT_WERROR}>:-Werror>
  # GCC 12 sees uninitialized optionals where there are none.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
