// Bytes of the other side: what is read can be written and read again to the same value, whatever it is.

#include <cstdlib>

#include "node/node_protocol.h"
#include "node/tokens.h"

namespace {

using namespace tangram::node;

void require(bool holds) {
  if (!holds) std::abort();
}

void read_messages(std::string_view text) {
  if (const auto join = read_join(text); join && join->protocol == kNodeProtocol) {
    require(*read_join(write_join(*join)) == *join);
    require(is_node_name(join->name) && join->boards.size() <= kBoardsMax);
  }
  if (const auto message = read_control(text)) {
    const std::string line = write_control(*message);
    require(line.find('\n') == line.size() - 1);
    const auto again = read_control(line.substr(0, line.size() - 1));
    require(again && write_control(*again) == line);
  }
  if (const auto answer = read_join_answer(text)) require(read_join_answer(write_join_answer(*answer)).ok());
  if (const auto join = read_slice_join(text)) require(read_slice_join(write_slice_join(*join)).ok());
  read_refusal(text);
  if (const auto file = read_token_file(text)) require(read_token_file(write_token_file(*file)).ok());
  if (const auto token = parse_token(text)) require(token->gateway.size() == 64);
}

void read_bytes(std::string_view text) {
  std::string in(text);
  const auto answer = take_answer(in);
  if (answer && *answer) require(in.size() < text.size() && (*answer)->body.size() <= kJoinBodyMax);
  if (answer && !*answer) require(in == text);
  read_answer_fields(text);
  tangram::host::HttpHead head;
  const auto parsed = tangram::host::parse_http_head(text, 16 << 10, head);
  if (parsed.kind != tangram::host::HttpHeadResult::Kind::complete) return;
  if (const auto batch = read_batch_fields(head)) {
    require(batch->job.samples >= 1 && batch->job.size >= 1 && batch->job.expected.count() >= 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_messages(text);
  read_bytes(text);
  return 0;
}
