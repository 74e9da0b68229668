# The page (web/) as a part of the room `report`. Its modules are joined by CMake itself, so that neither Node nor npm is
# needed.

set(TANGRAM_PAGE_MODULES model words dom lines now time why app)

function(tangram_embed_page)
  set(output ${PROJECT_BINARY_DIR}/generated/live_page_parts.cc)
  list(TRANSFORM TANGRAM_PAGE_MODULES PREPEND ${PROJECT_SOURCE_DIR}/web/ OUTPUT_VARIABLE files)
  list(TRANSFORM files APPEND .js)
  list(JOIN TANGRAM_PAGE_MODULES "," modules)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D source_dir=${PROJECT_SOURCE_DIR}/web -D output=${output} -D modules=${modules}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/web/page.css ${PROJECT_SOURCE_DIR}/web/index.html
            ${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake
    COMMENT "Joining the modules of the page"
    VERBATIM)
  target_sources(tangram_report PRIVATE ${output})
  # The page is longer than the text that every compiler must take in one literal.
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON COMPILE_OPTIONS -Wno-overlength-strings)
endfunction()
