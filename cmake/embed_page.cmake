# Writes `output`, a C++ source with the page of web/ as text: the modules joined into one script, the style sheet, and
# the body. Called with -D source_dir, output and modules (names with commas between them).
#
# A module keeps its text, but for its lines with `import`, which go, and the word `export`. All of them become one
# function, so that nothing of the page is global.

string(REPLACE "," ";" modules "${modules}")
set(script "'use strict';\n(() => {\n")
foreach(module ${modules})
  file(READ ${source_dir}/${module}.js text)
  string(REGEX REPLACE "(^|\n)import [^\n]*" "\\1" text "${text}")
  string(REGEX REPLACE "(^|\n)export (const|function|class|async)" "\\1\\2" text "${text}")
  if(text MATCHES "(^|\n)(import|export) ")
    message(FATAL_ERROR "web/${module}.js has an import or export that takes more than one line, or of another form")
  endif()
  string(APPEND script "// ---- ${module}.js\n${text}\n")
endforeach()
string(APPEND script "})();\n")
file(READ ${source_dir}/page.css style)
file(READ ${source_dir}/index.html body)
foreach(part script style body)
  if(${part} MATCHES "\\)PAGE\"")
    message(FATAL_ERROR "the page must not contain )PAGE\"")
  endif()
endforeach()
# What the page is made of must not end the element that holds it.
if(script MATCHES "</script" OR style MATCHES "</style")
  message(FATAL_ERROR "web/ contains the end of the element that it is put into")
endif()
file(WRITE ${output} "// Written by cmake/embed_page.cmake.
#include \"report/page_parts.h\"
namespace tangram::report {
const std::string_view kLivePageScript = R\"PAGE(${script})PAGE\";
const std::string_view kLivePageStyle = R\"PAGE(${style})PAGE\";
const std::string_view kLivePageBody = R\"PAGE(${body})PAGE\";
}  // namespace tangram::report
")
