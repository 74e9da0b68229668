# Each step must work, in this order: install, find_package and build, run.
file(REMOVE_RECURSE ${scratch_dir})
set(prefix ${scratch_dir}/prefix)

execute_process(COMMAND ${CMAKE_COMMAND} --install ${build_dir} --prefix ${prefix}
                COMMAND_ERROR_IS_FATAL ANY)
# Nothing of the build may be needed afterwards: an exported path into it would break on another machine.
file(GLOB_RECURSE package_files ${prefix}/*.cmake)
foreach(package_file ${package_files})
  file(READ ${package_file} text)
  string(FIND "${text}" "${build_dir}" place)
  if(NOT place EQUAL -1)
    message(FATAL_ERROR "${package_file} points into the build directory")
  endif()
endforeach()

execute_process(COMMAND ${CMAKE_COMMAND} -G ${generator} -S ${consumer_dir} -B ${scratch_dir}/build
                        -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_COMPILER=${compiler}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${scratch_dir}/build COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${scratch_dir}/build/consumer OUTPUT_VARIABLE printed OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
if(NOT printed STREQUAL "4g.20gb@0 + 3g.20gb@4")
  message(FATAL_ERROR "the consumer printed \"${printed}\"")
endif()
execute_process(COMMAND ${prefix}/bin/tangram version COMMAND_ERROR_IS_FATAL ANY)
