# gRPC, where its libraries are there: the server speaks it with nghttp2 and Protobuf, the clients and tests with gRPC
# itself, and TANGRAM_WITH_GRPC says so. Without them everything else works, and `tangram serve` says that it was built
# without.

option(TANGRAM_GRPC "Serve gRPC, too (needs nghttp2, gRPC and Protobuf)." ON)
set(TANGRAM_GRPC_FOUND FALSE)
if(TANGRAM_GRPC)
  find_package(Protobuf QUIET)
  find_package(gRPC CONFIG QUIET)
  find_program(TANGRAM_GRPC_PLUGIN grpc_cpp_plugin)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    # With limits of its own on resets and CONTINUATION frames, as Debian's 1.52 has them.
    pkg_check_modules(nghttp2 QUIET IMPORTED_TARGET libnghttp2>=1.52)
  endif()
  if(Protobuf_FOUND AND gRPC_FOUND AND TANGRAM_GRPC_PLUGIN AND nghttp2_FOUND)
    set(TANGRAM_GRPC_FOUND TRUE)
  else()
    message(STATUS "nghttp2, gRPC or Protobuf is not there: building without")
  endif()
endif()

# Adds gRPC to the rooms `client`, which holds the protocol and its generated code, and `serve`.
function(tangram_add_grpc)
  if(NOT TANGRAM_GRPC_FOUND)
    return()
  endif()
  set(protos ${PROJECT_SOURCE_DIR}/src/client/proto)
  set(out ${PROJECT_BINARY_DIR}/generated/proto)
  file(MAKE_DIRECTORY ${out})
  foreach(name inference health reflection reflection_v1alpha)
    set(sources ${out}/${name}.pb.cc ${out}/${name}.grpc.pb.cc)
    set(headers ${out}/${name}.pb.h ${out}/${name}.grpc.pb.h)
    add_custom_command(OUTPUT ${sources} ${headers}
      COMMAND protobuf::protoc --cpp_out=${out} --grpc_out=${out} --plugin=protoc-gen-grpc=${TANGRAM_GRPC_PLUGIN}
              -I ${protos} ${protos}/${name}.proto
      DEPENDS ${protos}/${name}.proto COMMENT "Generating the gRPC protocol ${name}")
    target_sources(tangram_client PRIVATE ${sources} ${headers})
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-w")
  endforeach()
  # The generated headers must exist before any file of these targets is compiled. The tests of `serve` are clients.
  add_dependencies(tangram_serve tangram_client)
  foreach(target tangram_client tangram_serve serve_test)
    if(NOT TARGET ${target})
      continue()
    endif()
    target_include_directories(${target} SYSTEM PRIVATE ${out})
    target_compile_definitions(${target} PRIVATE TANGRAM_WITH_GRPC=1)
    target_link_libraries(${target} PRIVATE protobuf::libprotobuf PkgConfig::nghttp2)
    target_compile_options(${target} PRIVATE -pthread)  # As they say, too; tangram_precompile() must know.
  endforeach()
  target_link_libraries(tangram_client PRIVATE gRPC::grpc++)
  if(TARGET serve_test)
    target_link_libraries(serve_test PRIVATE gRPC::grpc++)
  endif()
  if(TARGET serve_test)
    add_dependencies(serve_test tangram_serve)
  endif()
endfunction()
