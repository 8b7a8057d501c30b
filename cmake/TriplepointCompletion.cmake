# SPDX-License-Identifier: Apache-2.0
# Shell completion, written by the program itself, so that it knows every verb and flag.

set(TPT_COMPLETION_bash ${CMAKE_INSTALL_DATADIR}/bash-completion/completions triplepoint)
set(TPT_COMPLETION_zsh ${CMAKE_INSTALL_DATADIR}/zsh/site-functions _triplepoint)
set(TPT_COMPLETION_fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d triplepoint.fish)

if(TARGET triplepoint)
  foreach(shell bash zsh fish)
    list(GET TPT_COMPLETION_${shell} 0 folder)
    list(GET TPT_COMPLETION_${shell} 1 file)
    set(script ${PROJECT_BINARY_DIR}/completion/${file}.${shell})
    add_custom_command(OUTPUT ${script}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/completion
      COMMAND triplepoint completion ${shell} > ${script}
      DEPENDS triplepoint
      COMMENT "Shell completion for ${shell}")
    list(APPEND scripts ${script})
    install(FILES ${script} DESTINATION ${folder} RENAME ${file})
  endforeach()
  add_custom_target(completion DEPENDS ${scripts})
  add_dependencies(programs completion)
endif()
