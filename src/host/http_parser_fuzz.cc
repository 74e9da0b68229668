// Bytes of a client: a head is either waited for, refused, or complete within what was given, in any pieces; chunks
// never give more than the limit.

#include <cstdlib>

#include "host/http_parser.h"

namespace {

using namespace tangram::host;

void require(bool holds) {
  if (!holds) std::abort();
}

bool within(std::string_view part, std::string_view whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void read_head(std::string_view text) {
  constexpr std::size_t kHeadMax = 4096;
  HttpHead head;
  const auto result = parse_http_head(text, kHeadMax, head);
  if (result.kind == HttpHeadResult::Kind::refused)
    require(result.refusal.status >= 400 && !result.refusal.reason.empty());
  if (result.kind != HttpHeadResult::Kind::complete) return;
  require(result.consumed <= text.size() && result.consumed <= kHeadMax + 8);
  require(within(head.path, text) || head.path == "/");
  require(!(head.chunked && head.content_length != 0));
  for (const auto& field : head.all_fields()) {
    require(!field.name.empty() && within(field.name, text) && within(field.value, text));
    require(field.value.find_first_of("\r\n") == std::string_view::npos);
  }
  // What is complete does not depend on what follows it.
  HttpHead again;
  const auto alone = parse_http_head(text.substr(0, result.consumed), kHeadMax, again);
  require(alone.kind == HttpHeadResult::Kind::complete && alone.consumed == result.consumed);
  require(again.content_length == head.content_length && again.path == head.path);
}

// The body of chunks, read in pieces of `piece` bytes.
std::string read_chunks(std::string_view text, std::size_t piece, ChunkedReader::State* state) {
  constexpr std::uint64_t kBodyMax = 2000;
  ChunkedReader reader;
  std::string body;
  for (std::size_t at = 0; at < text.size() && reader.state() == ChunkedReader::State::reading; at += piece) {
    const auto part = text.substr(at, piece);
    require(reader.feed(part, body, kBodyMax) <= part.size());
  }
  require(body.size() <= kBodyMax);
  *state = reader.state();
  return body;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_head(text);
  ChunkedReader::State whole{};
  ChunkedReader::State bytewise{};
  const std::string at_once = read_chunks(text, size == 0 ? 1 : size, &whole);
  const std::string by_byte = read_chunks(text, 1, &bytewise);
  require(whole == bytewise);
  if (whole == ChunkedReader::State::complete) require(at_once == by_byte);
  return 0;
}
