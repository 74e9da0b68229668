# gRPC, where it is there: the generated code of the protocol joins the room `serve`, and TANGRAM_WITH_GRPC says so.
# Without it everything else works, and `tangram serve` says that it was built without.

option(TANGRAM_GRPC "Serve gRPC, too (needs gRPC and Protobuf)." ON)
set(TANGRAM_GRPC_FOUND FALSE)
if(TANGRAM_GRPC)
  find_package(Protobuf QUIET)
  find_package(gRPC CONFIG QUIET)
  find_program(TANGRAM_GRPC_PLUGIN grpc_cpp_plugin)
  if(Protobuf_FOUND AND gRPC_FOUND AND TANGRAM_GRPC_PLUGIN)
    set(TANGRAM_GRPC_FOUND TRUE)
  else()
    message(STATUS "gRPC or Protobuf is not there: building without")
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
  foreach(name inference health)
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
    target_link_libraries(${target} PRIVATE gRPC::grpc++ protobuf::libprotobuf)
    target_compile_options(${target} PRIVATE -pthread)  # As they say, too; tangram_precompile() must know.
  endforeach()
  target_link_libraries(tangram_serve PRIVATE gRPC::grpc++_reflection)
  if(TARGET serve_test)
    add_dependencies(serve_test tangram_serve)
  endif()
endfunction()
