# How every target of the project is compiled, and what a room is.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(TANGRAM_CCACHE ccache)
if(TANGRAM_CCACHE)
  # Two trees that compile a file alike share the result, although they do it in different folders. The sloppiness is what
  # ccache asks for where headers are precompiled; no file of ours uses __TIME__.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
                                  ${TANGRAM_CCACHE})
  if(TANGRAM_UNITY)
    # The groups of files stand in the folder of the preset: paths relative to it are the same in both.
    list(INSERT CMAKE_CXX_COMPILER_LAUNCHER 3 CCACHE_BASEDIR=${PROJECT_SOURCE_DIR})
  endif()
endif()
find_program(TANGRAM_MOLD mold)
if(TANGRAM_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
if(TANGRAM_SANITIZE)
  add_compile_options(-fsanitize=${TANGRAM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TANGRAM_SANITIZE})
endif()

# Warnings are errors. Contraction of floating point is off so that every x86-64 build, with or
# without fused multiply-add, computes the same bytes.
function(tangram_compile_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
                                           -Woverloaded-virtual -Werror -ffp-contract=off)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 reports these inside libstdc++ and fmt at -O2 where nothing is wrong (GCC bugs 105562, 107852).
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-stringop-overflow -Wno-maybe-uninitialized
                                             -Wno-array-bounds -Wno-stringop-overread)
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # -Wthread-safety checks GUARDED_BY and its like (base/thread_annotations.h).
    # libstdc++ 12 deprecates std::get_temporary_buffer and uses it itself, in std::stable_sort. Clang counts changes
    # of sign among -Wconversion, GCC does not: one rule for both.
    target_compile_options(${target} PRIVATE -Wno-deprecated-declarations -Wno-sign-conversion -Wthread-safety)
  endif()
endfunction()

# tangram_compile_quickly(target level): for what is compiled more often than anything in it is hot. -O1 takes about half the
# time of -O3 (scheduler_test.cc 8.5 s against 15.6 s), -O0 a quarter less than -O1.
function(tangram_compile_quickly target level)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE ${level})
  endif()
endfunction()

# Headers of others that most files include. Ours are not among them: a change of one would compile everything again. None of
# the loud ones is: what a quiet room does not include it should not find.
set(TANGRAM_PRECOMPILED_HEADERS
  <algorithm> <array> <charconv> <cmath> <cstdint> <deque> <functional> <limits> <map> <memory> <numeric> <optional> <set>
  <span> <string> <string_view> <tuple> <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)

# tangram_precompile(target [headers...]): compiles the target with those headers and the given ones precompiled. A
# precompiled header serves all targets that are compiled with the same options, so it belongs to none of them, and this
# is called when the options are complete. Files include what they need all the same: without TANGRAM_PCH they must compile.
function(tangram_precompile target)
  if(NOT TANGRAM_PCH OR NOT TARGET ${target})
    return()
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    return()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # For ccache.
  else()
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")  # For ccache.
  endif()
  get_target_property(options ${target} COMPILE_OPTIONS)
  list(REMOVE_ITEM options -Wno-subobject-linkage)  # Of no consequence for headers; -Wpedantic defines macros.
  if(type STREQUAL "EXECUTABLE")
    list(APPEND options -fPIE)
  endif()
  string(MD5 key "${options} ${ARGN}")
  string(SUBSTRING ${key} 0 8 key)
  set(owner tangram_headers_${key})
  if(NOT TARGET ${owner})
    file(WRITE ${PROJECT_BINARY_DIR}/generated/headers.cc "")
    add_library(${owner} OBJECT ${PROJECT_BINARY_DIR}/generated/headers.cc)
    target_compile_options(${owner} PRIVATE ${options})
    target_link_libraries(${owner} PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
    if(ARGN)
      target_link_libraries(${owner} PRIVATE GTest::gmock)
    endif()
    if(type STREQUAL "EXECUTABLE")
      set_target_properties(${owner} PROPERTIES POSITION_INDEPENDENT_CODE OFF)  # -fPIE is among the options.
    endif()
    target_precompile_headers(${owner} PRIVATE ${TANGRAM_PRECOMPILED_HEADERS} ${ARGN})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# For all rooms, their tests and fuzz targets, at the end.
function(tangram_precompile_rooms)
  get_property(rooms GLOBAL PROPERTY TANGRAM_ROOMS)
  get_property(fuzzers GLOBAL PROPERTY TANGRAM_FUZZERS)
  foreach(room ${rooms})
    tangram_precompile(tangram_${room})
    tangram_precompile(${room}_test <gmock/gmock.h> <gtest/gtest.h>)
  endforeach()
  foreach(fuzzer ${fuzzers})
    tangram_precompile(${fuzzer})
  endforeach()
endfunction()

# Compiles the files of a target in groups of eight: most of the time of a small file goes into headers that its neighbours
# include, too. Names in anonymous namespaces must then differ within a group. Left alone are generated files and those
# that share names with others of their room on purpose: each importer and each table of a
# published result its Row.
set(TANGRAM_COMPILED_ALONE
  "/formats/importers/" "/experiments/(reproduce_|highest_rate)" "/report/(mosaic|plan_svg)\\.cc$"
  "/client/offline_output\\.cc$" "/serve/(http_exchange|load|server_refusals|server_security)_test\\.cc$" "\\.pb\\.cc$")
function(tangram_compile_in_groups target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  get_target_property(files ${target} SOURCES)
  list(JOIN TANGRAM_COMPILED_ALONE "|" alone)
  list(FILTER files INCLUDE REGEX "${alone}")
  set_source_files_properties(${files} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND target MATCHES "(cli|client|experiments|report|serve)")
    # GCC takes files of a group for headers, whose classes must not hold types of an anonymous namespace.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# What ./test builds and runs of a tree, the target `gate`: each unit test once, which is under the sanitizers where it can
# be. Exceptions, for which release is the tree: rooms at the end of the doors, which the sanitizers would take as long to
# compile as a fifth of the others and which print and parse arguments only. And plan runs in both, because its tests
# against brute force draw five times as many problems in release. ./test --quick and --full, and a plain build, do all.
set(TANGRAM_GATE_RELEASE_ONLY report experiments cli)
set(TANGRAM_GATE_BOTH plan)

# Whether the unit tests of a room belong to the gate of this tree.
function(tangram_in_gate room result)
  set(answer TRUE)
  if(TANGRAM_SANITIZE AND room IN_LIST TANGRAM_GATE_RELEASE_ONLY)
    set(answer FALSE)
  elseif(NOT TANGRAM_SANITIZE AND NOT room IN_LIST TANGRAM_GATE_RELEASE_ONLY AND NOT room IN_LIST TANGRAM_GATE_BOTH)
    set(answer FALSE)
  endif()
  set(${result} ${answer} PARENT_SCOPE)
endfunction()

# Adds the target `gate`: every program and library of this folder and those below but for what is not in the gate. To be
# called at the end.
function(tangram_add_gate)
  add_custom_target(gate COMMENT "All that ./test runs")
  get_property(excluded GLOBAL PROPERTY TANGRAM_NOT_IN_GATE)
  set(folders ${PROJECT_SOURCE_DIR})
  while(folders)
    list(POP_FRONT folders folder)
    get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    list(APPEND folders ${below})
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      get_target_property(type ${target} TYPE)
      get_target_property(asked_for_only ${target} EXCLUDE_FROM_ALL)
      if(type MATCHES "EXECUTABLE|STATIC|SHARED|MODULE" AND NOT asked_for_only AND NOT target IN_LIST excluded)
        add_dependencies(gate ${target})
      endif()
    endforeach()
  endwhile()
endfunction()

# tangram_add_unit_tests(target name files label): the tests of a gtest program, as <name>/<test>. Under a sanitizer a process takes
# longer to start than most tests to run, so there ctest knows shards of about twenty tests, <name>/1, <name>/2, ... The number
# of tests is taken from the files, where each begins a line.
function(tangram_add_unit_tests target name files label)
  if(NOT TANGRAM_SANITIZE)
    gtest_discover_tests(${target} TEST_PREFIX "${name}/" DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${label})
    return()
  endif()
  set(count 0)
  foreach(file ${files})
    file(STRINGS ${file} lines REGEX "^(TEST|TEST_F|TEST_P|TYPED_TEST)\\(")
    list(LENGTH lines more)
    math(EXPR count "${count} + ${more}")
  endforeach()
  math(EXPR shards "(${count} + 19) / 20")
  foreach(shard RANGE 1 ${shards})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name}/${shard} COMMAND ${target} --gtest_brief=1)
    set_tests_properties(${name}/${shard} PROPERTIES LABELS ${label}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

if(TANGRAM_FUZZ)
  add_custom_target(fuzzers COMMENT "All fuzz targets")  # Each room adds its own.
endif()

# tangram_room(name [IN folder] [USES rooms...] [LIBRARIES targets...])
#
# src/<name>, or src/<folder>, becomes the library tangram_<name> (exported as tangram::<name>) and, when tests are on, the program
# <name>_test. Files are found by their place, so that none falls out of the build unnoticed: *_test.cc are
# tests, *_fuzz.cc are fuzz targets, cli/main.cc and worker/worker_main.cc are the programs, engines/torch is a shared object of its own
# (TangramTorch.cmake), engines/remote, adapters/slurm and adapters/kubernetes libraries of their own, the rest is the room.
function(tangram_room name)
  cmake_parse_arguments(room "" "IN" "USES;LIBRARIES" ${ARGN})
  if(NOT room_IN)
    set(room_IN ${name})
  endif()
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room_IN}/*.cc)
  if(name STREQUAL "engines")
    list(FILTER files EXCLUDE REGEX "/engines/remote/")
  elseif(name STREQUAL "adapters")
    list(FILTER files EXCLUDE REGEX "/adapters/(slurm|kubernetes)/")
  endif()
  set(tests ${files})
  set(fuzzers ${files})
  list(FILTER files EXCLUDE REGEX "(_test|_fuzz)\\.cc$|/(cli/main|worker/worker_main)\\.cc$|/engines/torch/")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER tests EXCLUDE REGEX "/engines/torch/")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(TRANSFORM room_USES PREPEND tangram_)

  set(scope PUBLIC)
  if(files)
    add_library(tangram_${name} STATIC ${files})
    tangram_compile_options(tangram_${name})
    # What reads text from outside. Elsewhere it would lengthen the compilation by a fifth, and every comparison at run time.
    if(TANGRAM_FUZZ AND name MATCHES "^(base|host|core|formats|client|learn|lab|serve|node)$")
      target_compile_options(tangram_${name} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
    if(TANGRAM_UNITY)
      tangram_compile_in_groups(tangram_${name})
    endif()
  else()
    add_library(tangram_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(tangram::${name} ALIAS tangram_${name})
  set_target_properties(tangram_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(tangram_${name} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                                      $<INSTALL_INTERFACE:include/tangram>)
  target_compile_features(tangram_${name} ${scope} cxx_std_20)
  target_link_libraries(tangram_${name} ${scope} ${room_USES} ${room_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY TANGRAM_ROOMS ${name})

  if(TANGRAM_TESTS AND tests)
    add_executable(${name}_test ${tests})
    tangram_compile_options(${name}_test)
    tangram_compile_quickly(${name}_test -O0)
    tangram_compile_in_groups(${name}_test)
    target_link_libraries(${name}_test PRIVATE tangram_${name} GTest::gtest_main GTest::gmock)
    target_compile_definitions(${name}_test PRIVATE TANGRAM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    set(label unit_gate)
    tangram_in_gate(${name} in_gate)
    if(NOT in_gate)
      set(label unit)
      set_property(GLOBAL APPEND PROPERTY TANGRAM_NOT_IN_GATE ${name}_test)
      if(TANGRAM_SANITIZE)
        set_property(GLOBAL APPEND PROPERTY TANGRAM_NOT_IN_GATE tangram_${name})  # Nothing else there uses it.
      endif()
    endif()
    tangram_add_unit_tests(${name}_test ${name} "${tests}" ${label})
  endif()
  if(TANGRAM_FUZZ)
    foreach(fuzzer ${fuzzers})
      get_filename_component(target ${fuzzer} NAME_WE)
      add_executable(${target} EXCLUDE_FROM_ALL ${fuzzer})
      tangram_compile_options(${target})
      target_link_libraries(${target} PRIVATE tangram_${name})
      target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
      set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
      add_dependencies(fuzzers ${target})
      set_property(GLOBAL APPEND PROPERTY TANGRAM_FUZZERS ${target})
    endforeach()
  endif()
endfunction()
