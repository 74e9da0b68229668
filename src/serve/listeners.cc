// Opens the ports and runs the I/O threads.
//
// With several threads each one has its own socket at the same port (SO_REUSEPORT) and the kernel spreads connections
// over them: no accept lock, and a connection stays on its thread for life. With one thread the loop of the world
// serves the sockets itself, which saves two thread switches per request.

#include "serve/listeners.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "host/descriptor.h"
#include "host/listen_socket.h"
#include "host/prompt_thread.h"

namespace tangram::serve {

namespace {

// Descriptors that are not for connections: files, listeners, epoll and workers' sockets; and of a process with many, a
// share for workers that start anew.
constexpr std::uint64_t kDescriptorsReserved = 64;
constexpr std::uint64_t kReservedShare = 8;
constexpr std::uint64_t kReservedMax = 1024;
// Of the memory for callers, the share that the fixed bytes of connections may take.
constexpr std::uint64_t kConnectionsShare = 4;

// Connections of each thread, so that all of them find descriptors and memory. Where gRPC is served, it has half of the
// descriptors.
HttpLimits limits_within(const ServerConfig& config, const Gateway& gateway) {
  HttpLimits limits = config.limits;
  const auto threads = static_cast<std::uint64_t>(config.threads);
  const std::uint64_t protocols = config.grpc_port ? 2 : 1;
  const std::uint64_t wanted = limits.connections_max * threads * protocols + kReservedMax;
  const std::uint64_t descriptors = host::raise_descriptor_limit(wanted);
  const std::uint64_t reserved = std::clamp(descriptors / kReservedShare, kDescriptorsReserved, kReservedMax);
  const std::uint64_t left = descriptors > reserved ? descriptors - reserved : 1;
  const std::uint64_t each = HttpConnection::fixed_bytes(config.security.tls.has_value());
  const std::uint64_t most = std::min(left / protocols, gateway.memory.data().limit() / kConnectionsShare / each);
  limits.connections_max = std::max<std::size_t>(1, std::min<std::size_t>(limits.connections_max, most / threads));
  if (limits.peer_max == 0) limits.peer_max = std::max<std::size_t>(1, limits.connections_max * threads / 2);
  return limits;
}

}  // namespace

Listeners::Listeners(const ServerConfig& config, host::EventLoop& loop, const host::LiveClock& clock, Gateway& gateway,
                     LiveWorld& world)
    : config_(config),
      limits_(limits_within(config, gateway)),
      shared_(limits_.peer_max, gateway.memory.data().limit() / 2),
      loop_(loop),
      clock_(clock),
      gateway_(gateway),
      world_(world) {
  shared_.cross_site = config.cross_site;
  for (const auto& origin : shared_.cross_site.origins) {
    shared_.cross_site.answer_fields.push_back(cors_answer_fields(origin));
  }
}

// Only a socket file that this server has created: another server may listen at the path if open() has failed.
Listeners::~Listeners() {
  if (admin_socket_open_) unlink(config_.admin_socket.c_str());
}

Result<Nothing> Listeners::open() {
  // Certificates first: a wrong one is reported before any port is open.
  if (config_.security.tls) {
    TANGRAM_TRY(auto made, host::TlsContext::for_server(*config_.security.tls));
    tls_.set(std::move(made));
  }
  for (int i = 0; i < config_.threads; ++i) {
    IoThread* io = one_thread() ? nullptr : io_.emplace_back(std::make_unique<IoThread>()).get();
    host::EventLoop& its_loop = io == nullptr ? loop_ : io->loop;
    Servers& servers = io == nullptr ? main_ : io->servers;
    servers.http =
        std::make_unique<HttpServer>(its_loop, clock_, gateway_, world_, limits_, shared_, large_, one_thread());
    TANGRAM_RETURN_IF_ERROR(open_data(*servers.http));
    // The admin port is not shared, so one thread has it.
    if (i == 0) {
      TANGRAM_RETURN_IF_ERROR(open_admin(*servers.http));
    }
    TANGRAM_RETURN_IF_ERROR(open_grpc(its_loop, servers));
  }
  return Nothing{};
}

// The first server takes the configured port, where 0 means any free one; the others then share the port that it got.
Result<Nothing> Listeners::open_data(HttpServer& http) {
  TANGRAM_TRY(const auto data,
              host::listen_at(config_.address, data_port_ == 0 ? config_.http_port : data_port_, !one_thread()));
  http.listen(data, {.port = Port::data, .tls = tls_slot()});
  data_port_ = host::port_of(data);
  return Nothing{};
}

// The Unix socket has no TLS and asks for no key: the permissions of its file decide who can connect.
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

// Limits that both protocols have are those of HTTP.
Result<Nothing> Listeners::open_grpc(host::EventLoop& loop, Servers& servers) {
  if (!config_.grpc_port) return Nothing{};
  if (!has_grpc()) return Error{ErrorCode::unavailable, "this program was built without gRPC"};
  GrpcLimits limits;
  limits.head_max = config_.limits.head_max;
  limits.message_max = config_.limits.body_max;
  // All that the table holds must find its fixed bytes: only a full table makes quiet ones give way.
  const std::uint64_t room = gateway_.memory.data().limit() / kConnectionsShare /
                             grpc_connection_bytes(config_.security.tls.has_value()) /
                             static_cast<std::uint64_t>(config_.threads);
  limits.connections_max = std::clamp<std::size_t>(limits_.connections_max, 1, std::max<std::uint64_t>(1, room));
  limits.unread_max = std::max(limits.unread_max, config_.limits.body_max);
  limits.grace = config_.limits.grace;
  limits.rate_min = config_.limits.rate_min;
  limits.idle = config_.limits.idle;
  limits.unread = config_.limits.unread;
  TANGRAM_TRY(const auto socket,
              host::listen_at(config_.address, grpc_port_ == 0 ? *config_.grpc_port : grpc_port_, !one_thread()));
  grpc_port_ = host::port_of(socket);
  const GrpcShared shared{clock_, gateway_, world_, gateway_.memory, shared_.peers, health_};
  servers.grpc = make_grpc_server(loop, shared, limits, one_thread());
  servers.grpc->listen(socket, tls_slot());
  return Nothing{};
}

void Listeners::start() {
  for (auto& io : io_) io->thread = std::thread([this, &io] { run_io(*io); });
}

// Each thread notices the drain by itself, since its servers belong to it; drain() only wakes it.
void Listeners::run_io(IoThread& io) {
  host::wake_promptly();
  bool draining = false;
  while (!stopping_) {
    io.loop.wait(clock_, io.servers.next_due());
    if (gateway_.draining() && !draining) {
      draining = true;
      io.servers.drain();
    }
    io.servers.work(clock_.now());
  }
  io.servers.close_all();
}

void Listeners::set_serving(bool serving) {
  health_.serving = serving;
  for (auto& io : io_) io->loop.wake();
}

// Requires that the gateway already says that it drains: the I/O threads look there.
void Listeners::drain() {
  health_.ending = true;
  main_.drain();
  for (auto& io : io_) io->loop.wake();
}

// An I/O thread closes its connections before it ends.
void Listeners::stop() {
  stopping_ = true;
  large_.stop();
  for (auto& io : io_) {
    io->loop.wake();
    if (io->thread.joinable()) io->thread.join();
  }
  main_.close_all();
}

// ---- The servers of one thread ----

bool Listeners::Servers::work(TimePoint now) {
  bool posted = http != nullptr && http->work(now);
  if (grpc != nullptr && grpc->work(now)) posted = true;
  return posted;
}

TimePoint Listeners::Servers::next_due() const {
  return std::min(http == nullptr ? kTimeNever : http->next_due(), grpc == nullptr ? kTimeNever : grpc->next_due());
}

void Listeners::Servers::drain() {
  if (http) http->drain();
  if (grpc) grpc->drain();
}

void Listeners::Servers::close_all() {
  if (http) http->close_all();
  if (grpc) grpc->close_all();
}

}  // namespace tangram::serve
