// Rows of offline jobs, as JSONL and as CSV. However the bytes come in pieces, the rows are the same; a row that is
// accepted becomes a request that is JSON.

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "client/test_rows.h"

namespace {

using namespace tangram;
using namespace tangram::client;

void require(bool holds) {
  if (!holds) std::abort();
}

// Small, so that the limit is met.
constexpr std::size_t kFuzzedRowMax = 200;

void translate(RowFormat format, const std::vector<Row>& rows) {
  RowTranslator translator(format, {{.name = "a", .datatype = Datatype::fp32, .shape = {kVariableAxis, 2}},
                                    {.name = "b", .datatype = Datatype::bytes, .shape = {}},
                                    {.name = "c", .datatype = Datatype::int64, .shape = {}}});
  std::size_t first = 0;
  if (format == RowFormat::csv && !rows.empty()) {
    first = 1;
    if (!translator.read_header(rows[0]).ok()) return;
  }
  for (std::size_t i = first; i < rows.size(); ++i) {
    const auto body = translator.request_of(rows[i]);
    static_cast<void>(translator.id_of(rows[i]));
    require(body.ok() ? nlohmann::json::accept(*body) : !body.error().message.empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const RowFormat format = data[0] % 2 == 0 ? RowFormat::jsonl : RowFormat::csv;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  std::string whole_problem;
  std::string pieces_problem;
  const auto whole = test::split_rows(format, text, text.size() + 1, &whole_problem, kFuzzedRowMax);
  const auto pieces = test::split_rows(format, text, 1 + data[0] / 2 % 7, &pieces_problem, kFuzzedRowMax);
  require(whole.size() == pieces.size() && whole_problem == pieces_problem);
  std::uint64_t number = format == RowFormat::csv ? 0 : 1;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    require(whole[i].number == number++ && whole[i].line == pieces[i].line && whole[i].text == pieces[i].text);
    require(whole[i].too_long == pieces[i].too_long && whole[i].text.size() <= kFuzzedRowMax);
  }
  translate(format, whole);
  const std::string metadata(text);
  static_cast<void>(read_model_inputs(metadata));
  return 0;
}
