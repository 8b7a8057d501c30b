# SPDX-License-Identifier: Apache-2.0
# Shell completion and man pages, made from the program's own help, so that they have every command and flag.

set(TPT_COMPLETION_bash ${CMAKE_INSTALL_DATADIR}/bash-completion/completions triplepoint)
set(TPT_COMPLETION_zsh ${CMAKE_INSTALL_DATADIR}/zsh/site-functions _triplepoint)

if(TARGET triplepoint)
  foreach(shell bash zsh)
    list(GET TPT_COMPLETION_${shell} 0 folder)
    list(GET TPT_COMPLETION_${shell} 1 file)
    set(script ${PROJECT_BINARY_DIR}/completion/${file}.${shell})
    add_custom_command(OUTPUT ${script}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/completion
      COMMAND triplepoint completion ${shell} > ${script}
      DEPENDS triplepoint
      COMMENT "Shell completion for ${shell}")
    list(APPEND help_files ${script})
    install(FILES ${script} DESTINATION ${folder} RENAME ${file})
  endforeach()

  # What a script can start: the program itself, or one that starts it in the emulator.
  set(program $<TARGET_FILE:triplepoint>)
  if(CMAKE_CROSSCOMPILING)
    set(program ${PROJECT_BINARY_DIR}/emulated/triplepoint)
    string(JOIN " " emulator ${CMAKE_CROSSCOMPILING_EMULATOR})
    file(GENERATE OUTPUT ${program} CONTENT "#!/bin/sh\nexec ${emulator} $<TARGET_FILE:triplepoint> \"$@\"\n"
         FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endif()
  set(man_pages ${PROJECT_BINARY_DIR}/man)
  add_custom_command(OUTPUT ${man_pages}/triplepoint.1
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/make_man.py ${program} ${man_pages}
    DEPENDS triplepoint ${PROJECT_SOURCE_DIR}/tools/make_man.py ${PROJECT_SOURCE_DIR}/tools/command_help.py
    COMMENT "Man pages" VERBATIM)
  install(DIRECTORY ${man_pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

  add_custom_target(help_files ALL DEPENDS ${help_files} ${man_pages}/triplepoint.1)
  add_dependencies(programs help_files)
endif()
