// Measures a server over HTTP on one kept connection that may block: whoever measures has nothing else to do.
#include "engines/remote/remote_engine.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <thread>

#include "client/http_answer.h"
#include "client/http_client.h"
#include "client/stream.h"
#include "core/sample_tensors.h"
#include "engines/tensor_memory.h"

namespace tangram::engines {
namespace {

using Clock = std::chrono::steady_clock;

// Between questions to a server that starts.
constexpr std::chrono::milliseconds kAskEvery{20};
// For a server that should be there already.
constexpr std::chrono::seconds kAnswer{10};

// Servers say it in their own words, with any status.
bool tells_of_memory(std::string_view text) {
  for (const std::string_view words :
       {"out of memory", "OutOfMemory", "Failed to allocate memory", "cudaErrorMemoryAllocation"}) {
    if (text.find(words) != std::string_view::npos) return true;
  }
  return false;
}

// One connection that is kept as long as the server does.
class Connection {
 public:
  Connection(const RemoteCaller& caller, host::Endpoint address, Duration patience)
      : target_{std::move(address), caller.tls, caller.server_name}, patience_(patience) {}

  // The answer to the request. Errors: none came.
  Result<const client::HttpAnswerReader*> ask(const std::string& request) {
    const bool kept = stream_.is_open();
    auto answer = try_once(request);
    // A server may close a connection that was idle at any time, and has not seen the request then.
    if (!answer && kept && !reader_.anything()) answer = try_once(request);
    if (!answer) stream_.close();
    return answer;
  }

 private:
  Result<const client::HttpAnswerReader*> try_once(const std::string& request) {
    reader_.begin();
    if (!stream_.is_open()) {
      TANGRAM_RETURN_IF_ERROR(stream_.open(target_, client::StreamWaiting::always, patience_));
      TANGRAM_RETURN_IF_ERROR(stream_.shake_hands(patience_));
    }
    for (std::string_view rest = request; !rest.empty();) {
      const auto sent = stream_.send_some(rest);
      if (sent.status != client::Stream::Status::moved) return lost();
      rest.remove_prefix(sent.bytes);
    }
    while (reader_.state() == client::HttpAnswerReader::State::reading) {
      const auto got = stream_.receive_some(buffer_.data(), buffer_.size());
      if (got.status == client::Stream::Status::closed) reader_.end();
      if (got.status != client::Stream::Status::moved) break;
      reader_.feed({buffer_.data(), got.bytes});
    }
    if (reader_.state() != client::HttpAnswerReader::State::complete) return lost();
    if (!reader_.keep_alive()) stream_.close();
    return &reader_;
  }

  Error lost() {
    stream_.close();
    return {ErrorCode::unavailable, target_.endpoint.text() + ": the server does not answer, or not in HTTP"};
  }

  client::StreamTarget target_;
  Duration patience_;
  client::Stream stream_;
  client::HttpAnswerReader reader_{{.body_max = std::uint64_t{4} << 30}};
  std::array<char, 256 << 10> buffer_{};
};

class RemoteReplica final : public LoadedReplica {
 public:
  RemoteReplica(const RemoteEngineConfig& config, host::Endpoint address, std::unique_ptr<StartedServer> server,
                LoadFacts facts)
      : config_(config),
        server_(std::move(server)),
        facts_(facts),
        fields_(fmt::format("Host: {}\r\n", address.text())),
        connection_(std::make_unique<Connection>(config.caller, std::move(address), config.patience)) {
    if (!config.caller.key.empty()) fields_ += fmt::format("Authorization: Bearer {}\r\n", config.caller.key);
  }

  LoadFacts load_facts() const override { return facts_; }

  Result<RunOutcome> run(const BatchShape& shape) override {
    const BatchJob job{.batch = BatchId(1),
                       .service = ServiceId(0),
                       .samples = static_cast<std::int32_t>(shape.batch),
                       .size = shape.size};
    if (shape != shape_) {
      TANGRAM_RETURN_IF_ERROR(prepare(job));
      shape_ = shape;
    }
    const auto begin = Clock::now();
    const auto answer = connection_->ask(request_);
    const Duration took = Clock::now() - begin;
    if (!answer) return gone(answer.error());
    const std::string& body = (*answer)->body();
    if ((*answer)->status() != 200) {
      if (tells_of_memory(body)) return RunOutcome(OutOfMemory{});
      return Error{ErrorCode::invalid,
                   fmt::format("the server answers {}: {}", (*answer)->status(), body.substr(0, 300))};
    }
    // Checked every time: a server that answers something else was not measured.
    const std::size_t json_length = (*answer)->json_length().value_or(body.size());
    TANGRAM_RETURN_IF_ERROR(read_remote_answer(config_.model, body, json_length, tensors_));
    return RunOutcome(Completed{.duration = took,
                                .spread = std::nullopt,
                                .memory_mib = server_ == nullptr ? std::nullopt : server_->memory_mib()});
  }

 private:
  // A fixed seed: every repetition computes on the same numbers, so run times differ only by noise.
  Result<Nothing> prepare(const BatchJob& job) {
    const Signature& signature = config_.model.signature;
    const auto needed = memory_needed(signature, job);
    if (!needed) return Error{ErrorCode::exhausted, "the batch is larger than the address space"};
    room_.assign(*needed, std::byte{0});
    cut_memory(signature, job, room_.data(), tensors_);
    Rng rng(1);
    for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
      fill_sample(signature.inputs[i], tensors_.inputs[i], rng);
    }
    request_ = write_remote_request(config_.model, job, tensors_, fields_);
    return Nothing{};
  }

  // A server of our own that was ended by SIGKILL has most likely run out of memory.
  Result<RunOutcome> gone(const Error& error) {
    const auto how = server_ == nullptr ? std::nullopt : server_->ended();
    if (how && how->find("signal 9") != std::string::npos) return RunOutcome(OutOfMemory{});
    if (how) return Error{ErrorCode::unavailable, *how};
    return error;
  }

  const RemoteEngineConfig& config_;
  std::unique_ptr<StartedServer> server_;  // Null: it was there.
  LoadFacts facts_;
  std::string fields_;
  std::unique_ptr<Connection> connection_;
  BatchShape shape_{0, 0};
  std::vector<std::byte> room_;
  BatchMemory tensors_;
  std::string request_;
};

class RemoteEngine final : public Engine {
 public:
  explicit RemoteEngine(RemoteEngineConfig config) : config_(std::move(config)) {}

  Capabilities capabilities() const override {
    return {.times_itself = true, .reports_memory = config_.start != nullptr};
  }

  std::optional<std::string> why_not(const RunPoint& point) const override {
    if (point.model != config_.model.network) return fmt::format("the services file has no model {}", point.model);
    if (point.processes != 1) return "a server decides itself how many copies of a model it has; give --processes 1";
    if (!config_.profile.empty() && point.mig_profile != config_.profile) {
      return fmt::format("the server runs on a {}", config_.profile);
    }
    return std::nullopt;
  }

  Result<LoadOutcome> load(const Placement& placement) override {
    const auto begin = Clock::now();
    host::Endpoint address = config_.address;
    std::unique_ptr<StartedServer> server;
    if (config_.start) {
      TANGRAM_TRY(server, config_.start(placement));
      address = server->address();
    }
    TANGRAM_RETURN_IF_ERROR(await_ready(address, server.get()));
    LoadFacts facts;
    // From the start of the command: that is what a slice has to wait for. Of a server that was there nothing is known.
    if (server != nullptr) facts.duration = Clock::now() - begin;
    return LoadOutcome(std::make_unique<RemoteReplica>(config_, address, std::move(server), facts));
  }

 private:
  Result<Nothing> await_ready(const host::Endpoint& address, StartedServer* server) const {
    const client::HttpQuestion question{.address = address.address,
                                        .port = address.port,
                                        .path = fmt::format("/v2/models/{}/ready", config_.model.network),
                                        .timeout = kAnswer,
                                        .key = config_.caller.key,
                                        .tls = config_.caller.tls,
                                        .server_name = config_.caller.server_name};
    const auto limit = Clock::now() + (server == nullptr ? Duration(kAnswer) : config_.patience);
    while (true) {
      const auto answer = client::ask_http(question);
      if (answer && answer->status == 200) return Nothing{};
      if (server != nullptr) {
        if (const auto how = server->ended()) return Error{ErrorCode::unavailable, *how};
      }
      if (Clock::now() >= limit) {
        return Error{ErrorCode::unavailable,
                     fmt::format("{}: the model {} did not become ready: {}", address.text(), config_.model.network,
                                 answer ? fmt::format("status {}", answer->status) : answer.error().message)};
      }
      std::this_thread::sleep_for(kAskEvery);
    }
  }

  RemoteEngineConfig config_;
};

}  // namespace

std::unique_ptr<Engine> make_remote_engine(RemoteEngineConfig config) {
  return std::make_unique<RemoteEngine>(std::move(config));
}

}  // namespace tangram::engines
