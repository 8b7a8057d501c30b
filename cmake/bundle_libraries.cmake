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

# Of a program for another processor, only its RPATH leads to its libraries.
set(libraries_folder ${prefix}/lib/triplepoint)
if(CPACK_LIBRARIES)
  file(MAKE_DIRECTORY ${prefix}/lib)
  file(CREATE_LINK ${CPACK_LIBRARIES} ${libraries_folder} SYMBOLIC)
endif()
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${program} RESOLVED_DEPENDENCIES_VAR libraries
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|pthread|rt|stdc\\+\\+|gcc_s)\\.so")
if(CPACK_LIBRARIES)
  list(TRANSFORM libraries REPLACE ".*/" "${CPACK_LIBRARIES}/")
  file(REMOVE ${libraries_folder})
endif()
file(INSTALL ${libraries} DESTINATION ${libraries_folder} FOLLOW_SYMLINK_CHAIN)
