// sd_notify(3) without its library: newline-separated assignments in a datagram.

#include "host/service_manager.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "host/descriptor.h"

namespace tangram::host {
namespace {

// The value of a variable, which is removed; empty if it is not set.
std::string taken_from_environment(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value == nullptr ? "" : value;
  unsetenv(name);
  return text;
}

// A message is a list of lines, so a line break in a text would begin another.
std::string one_line(std::string_view text) {
  std::string result(text);
  std::ranges::replace(result, '\n', ' ');
  return result;
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
  ServiceManager manager;
  manager.socket_path_ = taken_from_environment("NOTIFY_SOCKET");
  const auto interval_us = text::parse_integer(taken_from_environment("WATCHDOG_USEC"));
  const auto watched = taken_from_environment("WATCHDOG_PID");
  const bool ours = watched.empty() || watched == std::to_string(getpid());
  if (manager.listens() && ours && interval_us && *interval_us > 0) {
    manager.watchdog_ = std::chrono::microseconds(*interval_us) / 2;
  }
  return manager;
}

void ServiceManager::ready(std::string_view status) const {
  send(fmt::format("READY=1\nMAINPID={}\nSTATUS={}", getpid(), one_line(status)));
}

// The manager compares the time with its own clock, to know the READY that belongs to this reload.
void ServiceManager::reloading() const {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000));
}

void ServiceManager::stopping() const { send("STOPPING=1"); }

void ServiceManager::status(std::string_view text) const { send("STATUS=" + one_line(text)); }

void ServiceManager::alive() const { send("WATCHDOG=1"); }

void ServiceManager::send(const std::string& message) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path_.empty() || socket_path_.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, socket_path_.data(), socket_path_.size());
  if (socket_path_.front() == '@') address.sun_path[0] = '\0';
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.open()) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_path_.size());
  ::sendto(socket.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
           reinterpret_cast<const sockaddr*>(&address), length);
}

}  // namespace tangram::host
