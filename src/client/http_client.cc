// One blocking HTTP exchange on a connection of its own, for commands that ask a server a single question.
#include "client/http_client.h"

#include <fmt/format.h>

#include <array>

#include "client/http_answer.h"
#include "client/stream.h"

namespace tangram::client {
namespace {

Error failure(const HttpQuestion& question, std::string_view what, std::string_view why) {
  return {ErrorCode::unavailable, fmt::format("{}: {}: {}", question.place(), what, why)};
}

// One exchange per connection. `Connection: close` also makes the end of the answer clear to old proxies.
std::string message_of(const HttpQuestion& question) {
  std::string fields = fmt::format("Host: {}\r\nConnection: close\r\n", question.place());
  if (!question.key.empty()) fields += fmt::format("Authorization: Bearer {}\r\n", question.key);
  return fmt::format("{} {} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n{}", question.method, question.path, fields,
                     question.body.size(), question.body);
}

// On an error, `stage` says how far the exchange came: no server, no trust, or no answer.
Result<Nothing> connect(Stream& stream, const HttpQuestion& question, HttpStage& stage) {
  const auto opened =
      stream.open({question.endpoint(), question.tls, question.server_name}, StreamWaiting::always, question.timeout);
  if (!opened && opened.error().code == ErrorCode::invalid) {
    return Error{ErrorCode::invalid, question.place() + ": " + opened.error().message};
  }
  if (!opened) return failure(question, "cannot connect", opened.error().message);
  stage = HttpStage::securing;
  const auto secured = stream.shake_hands(question.timeout);
  if (!secured) return failure(question, "cannot connect with TLS", secured.error().message);
  stage = HttpStage::asking;
  return Nothing{};
}

// Sends the whole request. The stream blocks, so anything but progress means failure or the time limit.
Result<Nothing> send_all(Stream& stream, const HttpQuestion& question) {
  const std::string message = message_of(question);
  for (std::string_view rest = message; !rest.empty();) {
    const Stream::Moved sent = stream.send_some(rest);
    if (sent.status == Stream::Status::closed) return failure(question, "cannot send", "the connection was closed");
    if (sent.status != Stream::Status::moved) return failure(question, "cannot send", stream.why());
    rest.remove_prefix(sent.bytes);
  }
  return Nothing{};
}

// A connection that ends without a byte is not an HTTP server; one that ends within an answer is a broken one.
Result<HttpAnswer> receive(Stream& stream, const HttpQuestion& question) {
  HttpAnswerReader reader;
  // True: this request asked the server to close, so the end of the connection may end the body.
  reader.begin(true);
  std::array<char, 32 << 10> buffer;
  while (reader.state() == HttpAnswerReader::State::reading) {
    const Stream::Moved got = stream.receive_some(buffer.data(), buffer.size());
    if (got.status == Stream::Status::failed) return failure(question, "no answer", stream.why());
    if (got.status == Stream::Status::moved) {
      reader.feed({buffer.data(), got.bytes});
      continue;
    }
    // The connection has ended: complete for a body without a length, too short for any other.
    if (reader.end() == HttpAnswerReader::State::reading && reader.anything()) {
      return failure(question, "incomplete answer", "the connection was closed");
    }
    break;
  }
  if (reader.state() == HttpAnswerReader::State::too_long)
    return Error{ErrorCode::exhausted, question.place() + ": the answer is too long"};
  if (reader.state() != HttpAnswerReader::State::complete) {
    return Error{
        ErrorCode::unavailable,
        question.place() + ": the server closed the connection early or does not speak HTTP; check the port and --tls"};
  }
  return HttpAnswer{reader.status(), reader.take_body(), reader.head()};
}

}  // namespace

Result<HttpAnswer> ask_http(const HttpQuestion& question, HttpStage* reached) {
  HttpStage unused = HttpStage::connecting;
  HttpStage& stage = reached == nullptr ? unused : *reached;
  stage = HttpStage::connecting;
  Stream stream;
  TANGRAM_RETURN_IF_ERROR(connect(stream, question, stage));
  TANGRAM_RETURN_IF_ERROR(send_all(stream, question));
  return receive(stream, question);
}

}  // namespace tangram::client
