// HTTP exchanges and watches with the API server. A request blocks for at most ten seconds; a watch never does.
#include "adapters/kubernetes/kube_client.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "base/text.h"
#include "client/http_answer.h"
#include "client/stream.h"
#include "host/files.h"
#include "host/resolve.h"

namespace tangram::adapters {
namespace {

constexpr Duration kAnswerMax = std::chrono::seconds(10);
constexpr std::uint64_t kCredentialsMax = 1 << 20;
// One object of etcd has at most 1.5 MiB; a list of 500 of ours has far less.
constexpr std::uint64_t kAnswerBytesMax = std::uint64_t{64} << 20;
constexpr std::size_t kEventBytesMax = std::size_t{4} << 20;
constexpr const char* kAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount/";

using Status = client::Stream::Status;

// Everything that a connection needs.
class Connector {
 public:
  Connector(KubeServer server, std::shared_ptr<const host::TlsContext> tls)
      : server_(std::move(server)), tls_(std::move(tls)) {}

  // `waiting`: how the stream behaves after the request was sent.
  Result<Nothing> open(client::Stream& stream) const {
    const auto opened = stream.open({{server_.host, server_.port, {}}, tls_, server_.host},
                                    client::StreamWaiting::always, kAnswerMax);
    if (!opened) return failure("cannot connect", opened.error().message);
    const auto secured = stream.shake_hands(kAnswerMax);
    if (!secured) return failure("cannot connect with TLS", secured.error().message);
    return Nothing{};
  }

  Result<Nothing> send(client::Stream& stream, const KubeQuestion& question, bool close) const {
    TANGRAM_TRY(const std::string message, message_of(question, close));
    for (std::string_view rest = message; !rest.empty();) {
      const auto sent = stream.send_some(rest);
      if (sent.status != Status::moved) return failure("cannot send", stream.why());
      rest.remove_prefix(sent.bytes);
    }
    return Nothing{};
  }

  Error failure(std::string_view what, std::string_view why) const {
    return {ErrorCode::unavailable, fmt::format("{}:{}: {}: {}", server_.host, server_.port, what, why)};
  }

 private:
  Result<std::string> message_of(const KubeQuestion& question, bool close) const {
    std::string fields = fmt::format("Host: {}:{}\r\nAccept: application/json\r\nUser-Agent: tangram\r\n", server_.host,
                                     server_.port);
    if (close) fields += "Connection: close\r\n";
    if (!server_.token_file.empty()) {
      TANGRAM_TRY(const auto content, host::read_file(server_.token_file, kCredentialsMax));
      const auto token = text::trim(content);
      if (token.empty() || token.find_first_of(" \r\n\t") != std::string_view::npos) {
        return invalid_input(server_.token_file + ": expected one token");
      }
      fields += fmt::format("Authorization: Bearer {}\r\n", token);
    }
    if (!question.body.empty()) fields += fmt::format("Content-Type: {}\r\n", question.content_type);
    if (!question.body.empty() || question.method != "GET") {
      fields += fmt::format("Content-Length: {}\r\n", question.body.size());
    }
    return fmt::format("{} {} HTTP/1.1\r\n{}\r\n{}", question.method, question.path, fields, question.body);
  }

  KubeServer server_;
  std::shared_ptr<const host::TlsContext> tls_;
};

class HttpKubeWatch final : public KubeWatch {
 public:
  HttpKubeWatch(std::unique_ptr<client::Stream> stream, client::HttpAnswerReader reader)
      : stream_(std::move(stream)), reader_(std::move(reader)) {
    take();
  }

  bool poll(std::vector<std::string>& lines) override {
    host::limit_waiting(stream_->descriptor(), std::chrono::milliseconds(1));
    std::array<char, 64 << 10> buffer;
    bool open = true;
    for (int reads = 0; open && reads < 64; ++reads) {
      const auto got = stream_->receive_some(buffer.data(), buffer.size());
      if (got.status == Status::moved) {
        open = reader_.feed({buffer.data(), got.bytes}) == client::HttpAnswerReader::State::reading;
        take();
        continue;
      }
      // A stream that waits reports the passing of its limit as a failure of the socket.
      if (got.status == Status::failed && stream_->why().find("temporarily") != std::string::npos) break;
      if (got.status == Status::blocked) break;
      open = false;
    }
    std::size_t begin = 0;
    for (auto end = text_.find('\n'); end != std::string::npos; end = text_.find('\n', begin)) {
      if (end > begin) lines.push_back(text_.substr(begin, end - begin));
      begin = end + 1;
    }
    text_.erase(0, begin);
    return open && text_.size() <= kEventBytesMax;
  }

 private:
  void take() { text_ += reader_.take_body(); }

  std::unique_ptr<client::Stream> stream_;
  client::HttpAnswerReader reader_;
  std::string text_;
};

class HttpKubeApi final : public KubeApi {
 public:
  explicit HttpKubeApi(Connector connector) : connector_(std::move(connector)) {}

  Result<KubeAnswer> ask(const KubeQuestion& question) override {
    client::Stream stream;
    TANGRAM_RETURN_IF_ERROR(connector_.open(stream));
    TANGRAM_RETURN_IF_ERROR(connector_.send(stream, question, true));
    client::HttpAnswerReader reader({.body_max = kAnswerBytesMax});
    reader.begin(true);
    TANGRAM_RETURN_IF_ERROR(receive(stream, reader, false));
    return KubeAnswer{reader.status(), reader.take_body(), reader.retry_after()};
  }

  Result<std::unique_ptr<KubeWatch>> watch(const std::string& path, int& refused) override {
    refused = 0;
    auto stream = std::make_unique<client::Stream>();
    TANGRAM_RETURN_IF_ERROR(connector_.open(*stream));
    TANGRAM_RETURN_IF_ERROR(connector_.send(*stream, {.path = path}, false));
    client::HttpAnswerReader reader({.body_max = kAnswerBytesMax});
    reader.begin(false);
    TANGRAM_RETURN_IF_ERROR(receive(*stream, reader, true));
    if (reader.status() != 200) {
      refused = reader.status();
      return std::unique_ptr<KubeWatch>();
    }
    return std::unique_ptr<KubeWatch>(std::make_unique<HttpKubeWatch>(std::move(stream), std::move(reader)));
  }

 private:
  // Reads the whole answer, or its head only.
  Result<Nothing> receive(client::Stream& stream, client::HttpAnswerReader& reader, bool head_only) const {
    std::array<char, 64 << 10> buffer;
    using State = client::HttpAnswerReader::State;
    while (reader.state() == State::reading && !(head_only && reader.status() != 0)) {
      const auto got = stream.receive_some(buffer.data(), buffer.size());
      if (got.status == Status::moved) {
        reader.feed({buffer.data(), got.bytes});
        continue;
      }
      if (got.status == Status::closed && reader.end() == State::complete) break;
      return connector_.failure("no answer", got.status == Status::closed ? "the connection was closed" : stream.why());
    }
    if (reader.state() == State::too_long) return connector_.failure("no answer", "it is too long");
    if (reader.state() == State::garbled) return connector_.failure("no answer", "it is not HTTP");
    return Nothing{};
  }

  Connector connector_;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<InCluster> in_cluster() {
  InCluster found;
  found.server.host = variable("KUBERNETES_SERVICE_HOST");
  const auto port = text::parse_integer(variable("KUBERNETES_SERVICE_PORT"));
  if (found.server.host.empty() || !port || *port < 1 || *port > 65'535) {
    return Error{ErrorCode::unavailable,
                 "this is no pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set); name the API server "
                 "with --server, as `kubectl proxy` offers it"};
  }
  found.server.port = static_cast<std::uint16_t>(*port);
  found.server.authorities_file = std::string(kAccountFolder) + "ca.crt";
  found.server.token_file = std::string(kAccountFolder) + "token";
  TANGRAM_TRY(const auto name, host::read_file(std::string(kAccountFolder) + "namespace", kCredentialsMax));
  found.name_space = text::trim(name);
  return found;
}

Result<std::unique_ptr<KubeApi>> connect_to_kubernetes(const KubeServer& server) {
  std::shared_ptr<const host::TlsContext> tls;
  if (server.tls) {
    host::TlsMaterial material;
    if (!server.authorities_file.empty()) {
      TANGRAM_TRY(material.authorities, host::read_file(server.authorities_file, kCredentialsMax));
      material.authorities_file = server.authorities_file;
    }
    TANGRAM_TRY(tls, host::TlsContext::for_client(material));
  }
  return std::unique_ptr<KubeApi>(std::make_unique<HttpKubeApi>(Connector(server, std::move(tls))));
}

}  // namespace tangram::adapters
