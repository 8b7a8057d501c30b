# SPDX-License-Identifier: Apache-2.0
# Packages (make package): a relocatable archive, and the Debian packages triplepoint and triplepoint-train. The trainer is
# apart because it brings MPI and a BLAS; the main package needs neither.

find_package(Python3 3.11 QUIET COMPONENTS Interpreter)
set(notices ${PROJECT_BINARY_DIR}/notices)
set(notices_of triplepoint)
foreach(target triplepoint-train triplepoint-machine)
  if(TARGET ${target})
    list(APPEND notices_of ${target})
  endif()
endforeach()
if(Python3_FOUND)
  list(TRANSFORM notices_of REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE notices_files)
  add_custom_command(OUTPUT ${notices}/THIRD_PARTY.txt
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/make_notices.py ${notices} ${PROJECT_VERSION} ${notices_files}
    DEPENDS ${notices_of} ${PROJECT_SOURCE_DIR}/packaging/components.toml ${PROJECT_SOURCE_DIR}/tools/make_notices.py
    COMMENT "Third-party notices" VERBATIM)
  add_custom_target(notices DEPENDS ${notices}/THIRD_PARTY.txt)
  add_dependencies(programs notices)
  install(FILES ${notices}/THIRD_PARTY.txt ${notices}/triplepoint.spdx.json DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)  # the name Debian asks for
install(DIRECTORY packaging/monitoring DESTINATION ${CMAKE_INSTALL_DATADIR}/triplepoint)
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_PACKAGE_NAME triplepoint)
set(CPACK_PACKAGE_VENDOR Triplepoint)
set(CPACK_PACKAGE_CONTACT "Triplepoint maintainers <maintainers@triplepoint.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_PACKAGE_FILE_NAME triplepoint-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
if(CMAKE_CROSSCOMPILING)
  set(CPACK_GENERATOR TXZ)  # dpkg knows the libraries of this machine only
  set(CPACK_LIBRARIES ${CMAKE_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
else()
  set(CPACK_GENERATOR TXZ DEB)
endif()
set(CPACK_ARCHIVE_THREADS 0)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/bundle_libraries.cmake)

set(CPACK_COMPONENTS_ALL program trainer)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME triplepoint)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "triplepoint-train, bubblewrap")
set(CPACK_DEBIAN_TRAINER_PACKAGE_NAME triplepoint-train)
set(CPACK_DEBIAN_TRAINER_PACKAGE_DEPENDS "triplepoint (= ${PROJECT_VERSION}), openmpi-bin")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "Predicts and measures speed, power and temperature of distributed LLM training. Simulation needs no GPU.")
set(CPACK_COMPONENT_TRAINER_DESCRIPTION "Trains small models with real parallelism on CPUs and GPUs; uses MPI.")
include(CPack)
