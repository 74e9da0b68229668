# What `cmake --install` puts where: the program, the rooms as static libraries with their headers, and a package
# file, so that others can embed the brain:
#
#   find_package(tangram REQUIRED)
#   target_link_libraries(mine PRIVATE tangram::core)

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tangram)

# The command line is a program, not a library: nobody links it.
get_property(rooms GLOBAL PROPERTY TANGRAM_ROOMS)
list(REMOVE_ITEM rooms cli)
foreach(room ${rooms})
  install(TARGETS tangram_${room} EXPORT tangram ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  if(NOT IS_DIRECTORY ${PROJECT_SOURCE_DIR}/src/${room})
    continue()  # A part of another room, whose headers are installed with it.
  endif()
  install(DIRECTORY src/${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tangram
          FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
endforeach()
install(TARGETS tangram tangram-worker RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT tangram NAMESPACE tangram:: FILE tangram-targets.cmake DESTINATION ${package_dir})

configure_package_config_file(cmake/tangram-config.cmake.in ${PROJECT_BINARY_DIR}/tangram-config.cmake
                              INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tangram-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tangram-config.cmake ${PROJECT_BINARY_DIR}/tangram-config-version.cmake
        DESTINATION ${package_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tangram)
# `tangram demo` looks for them beside the installed program.
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DATADIR}/tangram)
# What `tangram train` runs in each trainer; pure Python, which needs PyTorch only when it is used.
install(DIRECTORY src/serve/python/ DESTINATION ${CMAKE_INSTALL_DATADIR}/tangram/python FILES_MATCHING PATTERN "*.py")
