# tangram_build_info: an interface library whose one header, tangram_build_info.h, defines
#
#   TANGRAM_VERSION  the project's version, "0.1.0"
#   TANGRAM_COMMIT   the commit it was built from, "1a2b3c4d5e6f", with "-modified" behind it when tracked files
#                    differ from it; "unknown" outside a checkout
#
# It is asked for at each build, not at each configuration, so that it is right after a commit too. The header is
# written only when it changes, so nothing is compiled again for nothing.

set(TANGRAM_BUILD_INFO_COMMAND
    ${CMAKE_COMMAND} -D source_dir=${PROJECT_SOURCE_DIR} -D version=${PROJECT_VERSION}
    -D header=${PROJECT_BINARY_DIR}/generated/tangram_build_info.h -P ${CMAKE_CURRENT_LIST_DIR}/write_build_info.cmake)

execute_process(COMMAND ${TANGRAM_BUILD_INFO_COMMAND} COMMAND_ERROR_IS_FATAL ANY)
add_custom_target(tangram_build_info_header
                  COMMAND ${TANGRAM_BUILD_INFO_COMMAND}
                  BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/tangram_build_info.h
                  COMMENT "Asking git for the commit")
add_library(tangram_build_info INTERFACE)
target_include_directories(tangram_build_info INTERFACE ${PROJECT_BINARY_DIR}/generated)
add_dependencies(tangram_build_info tangram_build_info_header)
