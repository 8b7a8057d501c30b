# SPDX-License-Identifier: Apache-2.0
# Run by cpack before it packs. The archive brings the libraries of the main program, so that it starts where they are not installed.
# The C and C++ libraries are the system's; so are MPI and the BLAS, which belong to the cluster.
if(CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()

file(GLOB_RECURSE programs ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/bin/triplepoint)
if(NOT programs)
  file(GLOB_RECURSE programs ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/bin/triplepoint)
endif()
list(GET programs 0 program)
get_filename_component(prefix ${program}/../.. ABSOLUTE)

file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${program} RESOLVED_DEPENDENCIES_VAR libraries
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|pthread|rt|stdc\\+\\+|gcc_s)\\.so")
file(INSTALL ${libraries} DESTINATION ${prefix}/lib/triplepoint FOLLOW_SYMLINK_CHAIN)
