# libtorch, where it is there: src/engines/torch becomes a shared object beside the program, which loads it when the engine
# `torch` is asked for. Nothing else links libtorch, because loading it takes half a second. Without it everything
# else works, and the engine says that it was built without.

option(TANGRAM_TORCH "Run TorchScript models (needs libtorch)." ON)
set(TANGRAM_TORCH_FOUND FALSE)
if(TANGRAM_TORCH)
  find_package(Torch CONFIG QUIET)
  if(Torch_FOUND)
    set(TANGRAM_TORCH_FOUND TRUE)
  else()
    message(STATUS "libtorch is not there: building without")
  endif()
endif()

# To be called after the room `engines`.
function(tangram_add_torch)
  if(NOT TANGRAM_TORCH_FOUND)
    return()
  endif()
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/engines/torch/*.cc)
  set(tests ${files})
  list(FILTER files EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  add_library(tangram_torch MODULE ${files})
  tangram_compile_options(tangram_torch)
  target_include_directories(tangram_torch SYSTEM PRIVATE ${TORCH_INCLUDE_DIRS})
  target_link_libraries(tangram_torch PRIVATE tangram_engines ${TORCH_LIBRARIES})
  target_compile_definitions(tangram_torch PRIVATE TANGRAM_TORCH_VERSION="${Torch_VERSION}")
  # Half the time to compile libtorch's headers goes into optimising what only passes calls on.
  target_compile_options(tangram_torch PRIVATE -fvisibility=hidden -O1)
  if(TANGRAM_UNITY)
    set_target_properties(tangram_torch PROPERTIES UNITY_BUILD ON)  # And the rest goes into reading them, now once.
  endif()
  set_target_properties(tangram_torch PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/tangram)
  install(TARGETS tangram_torch LIBRARY DESTINATION lib/tangram)

  if(TANGRAM_TESTS AND tests)
    add_executable(torch_test ${tests})
    tangram_compile_options(torch_test)
    add_dependencies(torch_test tangram_torch)
    target_link_libraries(torch_test PRIVATE tangram_engines GTest::gtest_main GTest::gmock)
    gtest_discover_tests(torch_test TEST_PREFIX "torch/" DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit_gate)
  endif()
endfunction()
