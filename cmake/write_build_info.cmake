# Writes `header` from `version` and the state of the checkout in `source_dir`.

# A checkout may belong to another user than the one who builds, e.g. root in a container: it is only read here.
set(git git -c safe.directory=${source_dir} -C ${source_dir})
set(commit "unknown")
if(EXISTS ${source_dir}/.git)
  execute_process(COMMAND ${git} rev-parse --short=12 HEAD OUTPUT_VARIABLE answer RESULT_VARIABLE failed
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    set(commit ${answer})
    execute_process(COMMAND ${git} diff-index --quiet HEAD -- RESULT_VARIABLE modified OUTPUT_QUIET ERROR_QUIET)
    if(modified)
      string(APPEND commit "-modified")
    endif()
  endif()
endif()

set(text "// Written by cmake/write_build_info.cmake.
#pragma once
#define TANGRAM_VERSION \"${version}\"
#define TANGRAM_COMMIT \"${commit}\"
")
set(before "")
if(EXISTS ${header})
  file(READ ${header} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${header} "${text}")
endif()
