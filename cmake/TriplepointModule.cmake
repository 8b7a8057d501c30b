# SPDX-License-Identifier: Apache-2.0
# One module is one folder, the modules it may use, and a test program made of its *_test.cpp.

# Adds the folders (relative to the caller) which have a CMakeLists.txt.
function(triplepoint_add_folders)
  foreach(folder IN LISTS ARGN)
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt)
      add_subdirectory(${folder})
    endif()
  endforeach()
endfunction()

# Leaves out of the list the files that do not exist, and says so; where warnings are errors, so is this.
function(triplepoint_drop_missing list)
  set(existing "")
  foreach(file IN LISTS ${list})
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${file} OR IS_ABSOLUTE ${file})
      list(APPEND existing ${file})
    elseif(TPT_WERROR)
      message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR}/${file} does not exist (CMakeLists.txt there names it)")
    else()
      message(WARNING "${CMAKE_CURRENT_SOURCE_DIR}/${file} does not exist; left out")
    endif()
  endforeach()
  set(${list} "${existing}" PARENT_SCOPE)
endfunction()

# Where TPT_UNITY is on (the presets of users), puts sources into groups that are compiled as one translation unit each;
# files that share a local name are kept apart (unity_groups.py).
function(triplepoint_unity target)
  if(NOT TPT_UNITY)
    return()
  endif()
  list(FILTER ARGN INCLUDE REGEX "\\.cpp$")
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/unity_groups.py ${TPT_UNITY_SIZE} ${ARGN}
                  WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${lines}")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([0-9]+) (.*)$" found "${line}")
    set_source_files_properties(${CMAKE_MATCH_2} PROPERTIES UNITY_GROUP ${CMAKE_MATCH_1})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# Releases compile the target in two thirds of the time: for what no user waits for.
function(triplepoint_compile_fast target)
  if(NOT TPT_BROWSER)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# What a target that belongs to us is made with.
function(triplepoint_link target)
  cmake_parse_arguments(ARG "" "" "USES;LIBS" ${ARGN})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  foreach(module IN LISTS ARG_USES)
    # A module without a source file yet is its headers only.
    target_link_libraries(${target} PUBLIC $<TARGET_NAME_IF_EXISTS:triplepoint_${module}>)
  endforeach()
  target_link_libraries(${target} PUBLIC ${ARG_LIBS} PRIVATE triplepoint_warnings)
  if(TPT_BROWSER AND target STREQUAL triplepoint_base)
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/wasm/common.h)
  elseif(TPT_BROWSER)
    target_precompile_headers(${target} REUSE_FROM triplepoint_base)
  endif()
endfunction()

# triplepoint_module(<name> SOURCES a.cpp ... TESTS a_test.cpp ... USES <modules> [LIBS <targets>] [TEST_USES <modules>] [TEST_LIBS <targets>]
#                    [TEST_LABELS ...] [NOT_IN_BROWSER a.cpp ...] [LITTLE_TO_COMPUTE])
#
# Called in the module's own folder; sources are relative to it. LIBS are targets of system packages. For a browser, wasm/ has what
# the sources do that it cannot compile. LITTLE_TO_COMPUTE is for modules of words, tables, pages and files of settings.
# Makes triplepoint_<name> and, with tests, <name>_test.
function(triplepoint_module name)
  cmake_parse_arguments(ARG "LITTLE_TO_COMPUTE" "" "SOURCES;TESTS;USES;LIBS;TEST_USES;TEST_LIBS;TEST_LABELS;NOT_IN_BROWSER" ${ARGN})
  if(TPT_BROWSER AND ARG_NOT_IN_BROWSER)
    list(REMOVE_ITEM ARG_SOURCES ${ARG_NOT_IN_BROWSER})
  endif()
  triplepoint_drop_missing(ARG_SOURCES)
  triplepoint_drop_missing(ARG_TESTS)
  if(NOT ARG_SOURCES)
    return()  # headers only, so far
  endif()
  add_library(triplepoint_${name} STATIC ${ARG_SOURCES})
  triplepoint_unity(triplepoint_${name} ${ARG_SOURCES})
  triplepoint_link(triplepoint_${name} USES ${ARG_USES} LIBS ${ARG_LIBS})
  if(ARG_LITTLE_TO_COMPUTE)
    triplepoint_compile_fast(triplepoint_${name})
  endif()
  if(ARG_TESTS)
    triplepoint_test(${name} SOURCES ${ARG_TESTS} USES ${name} ${ARG_TEST_USES} LIBS ${ARG_TEST_LIBS} LABELS ${ARG_TEST_LABELS})
  endif()
endfunction()

# What `make build` builds and `make install` installs.
add_custom_target(programs)

# triplepoint_program(<name> [COMPONENT trainer] SOURCES main.cpp ... USES <modules> [LIBS <targets>]): an installed program, built into
# bin/. It looks for libraries in ../lib/triplepoint first, where the archive of `make package` and the wheel have them, also for what they load.
function(triplepoint_program name)
  cmake_parse_arguments(ARG "" "COMPONENT" "SOURCES;USES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  triplepoint_link(${name} USES ${ARG_USES} LIBS ${ARG_LIBS})
  add_dependencies(programs ${name})
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/triplepoint" BUILD_WITH_INSTALL_RPATH ON)
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
  if(NOT ARG_COMPONENT)
    set(ARG_COMPONENT program)
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${ARG_COMPONENT})
endfunction()

# triplepoint_test(<name> SOURCES ... USES <modules> [LIBS <targets>] [LABELS ...]): a doctest program <name>_test; each TEST_CASE is one ctest.
#
# Labels with a meaning: slow (more than some seconds; only `make pages` runs it), pages (needs a browser), threads (also run under
# the thread sanitizer), gpu.
function(triplepoint_test name)
  if(NOT TPT_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LIBS;LABELS" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  triplepoint_unity(${name}_test ${ARG_SOURCES})
  target_compile_options(${name}_test PRIVATE -O0)  # the time of a test is that of what it tests
  set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
  triplepoint_link(${name}_test USES ${ARG_USES} LIBS ${ARG_LIBS} triplepoint_test_main)
  # A test that says "skipped" lacks its data or rights: ctest reports it as skipped, not as passed.
  set(properties TIMEOUT 300 SKIP_REGULAR_EXPRESSION "MESSAGE:.skipped")
  if(ARG_LABELS)
    list(APPEND properties LABELS "${ARG_LABELS}")
  endif()
  if("threads" IN_LIST ARG_LABELS)
    set_property(GLOBAL APPEND PROPERTY TPT_THREADED_TESTS ${name}_test)
  endif()
  doctest_discover_tests(${name}_test TEST_PREFIX "${name}:" PROPERTIES ${properties})
endfunction()

# triplepoint_bench(<name> SOURCES ... USES <modules> [LIBS <targets>]): a Google Benchmark program <name>_bench.
function(triplepoint_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LIBS" ${ARGN})
  add_executable(${name}_bench ${ARG_SOURCES})
  set_target_properties(${name}_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench/bin)
  triplepoint_link(${name}_bench USES ${ARG_USES} LIBS ${ARG_LIBS} benchmark::benchmark_main)
  add_dependencies(benches ${name}_bench)
endfunction()
