#include "serve/listeners.h"

#include <unistd.h>

#include <utility>

#include "host/listen_socket.h"

namespace tangram::serve {

Listeners::~Listeners() {
  if (admin_socket_open_) unlink(config_.admin_socket.c_str());
}

Result<Nothing> Listeners::open() {
  if (config_.security.tls) {
    TANGRAM_TRY(auto made, host::TlsContext::for_server(*config_.security.tls));
    tls_.set(std::move(made));
  }
  for (int i = 0; i < config_.threads; ++i) {
    host::EventLoop* its_loop = &loop_;
    if (!one_thread()) its_loop = &io_.emplace_back(std::make_unique<IoThread>())->loop;
    auto http = std::make_unique<HttpServer>(*its_loop, clock_, gateway_, world_, config_.limits, one_thread());
    TANGRAM_RETURN_IF_ERROR(open_data(*http));
    if (i == 0) {
      TANGRAM_RETURN_IF_ERROR(open_admin(*http));
    }
    (one_thread() ? main_http_ : io_.back()->http) = std::move(http);
  }
  return open_grpc();
}

// The first takes the port that was asked for, which may be any; the others take the same.
Result<Nothing> Listeners::open_data(HttpServer& http) {
  TANGRAM_TRY(const auto data,
              host::listen_at(config_.address, data_port_ == 0 ? config_.http_port : data_port_, !one_thread()));
  http.listen(data, {.port = Port::data, .tls = tls_slot()});
  data_port_ = host::port_of(data);
  return Nothing{};
}

Result<Nothing> Listeners::open_admin(HttpServer& http) {
  TANGRAM_TRY(const auto admin, host::listen_at(config_.admin_address, config_.metrics_port, false));
  http.listen(admin, {.port = Port::admin, .tls = tls_slot()});
  admin_port_ = host::port_of(admin);
  if (config_.admin_socket.empty()) return Nothing{};
  TANGRAM_TRY(const auto local, host::listen_at_path(config_.admin_socket));
  admin_socket_open_ = true;
  http.listen(local, {.port = Port::admin, .trusted = true});
  return Nothing{};
}

Result<Nothing> Listeners::open_grpc() {
  if (!config_.grpc_port) return Nothing{};
  GrpcConfig grpc;
  grpc.address = config_.address;
  grpc.port = *config_.grpc_port;
  grpc.threads = config_.threads;
  grpc.message_max = config_.limits.body_max;
  grpc.head_max = config_.limits.head_max;
  grpc.idle = config_.limits.idle;
  grpc.tls = config_.security.tls;
  grpc.clock = clock_;
  TANGRAM_TRY(auto made, make_grpc_server(grpc, gateway_, world_));
  grpc_ = std::move(made);
  return Nothing{};
}

void Listeners::start() {
  for (auto& io : io_) io->thread = std::thread([this, &io] { run_io(*io); });
}

void Listeners::run_io(IoThread& io) {
  bool draining = false;
  while (!stopping_) {
    io.loop.wait(clock_, io.http->next_due());
    if (gateway_.draining() && !draining) {
      draining = true;
      io.http->drain();
    }
    io.http->work(clock_.now());
  }
  io.http->close_all();
}

void Listeners::set_tls(std::shared_ptr<const host::TlsContext> context, const host::TlsMaterial& material) {
  tls_.set(std::move(context));
  if (grpc_) grpc_->set_tls(material);
}

void Listeners::drain(Duration grace) {
  if (grpc_) grpc_->drain(grace);
  if (main_http_) main_http_->drain();
  for (auto& io : io_) io->loop.wake();
}

void Listeners::stop() {
  stopping_ = true;
  grpc_.reset();
  for (auto& io : io_) {
    io->loop.wake();
    if (io->thread.joinable()) io->thread.join();
  }
}

}  // namespace tangram::serve
