// Tells the service manager that started this process how it is: the protocol of systemd's notify sockets.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace tangram::host {

// One datagram for each message, to the socket that the environment named when this was made. Messages never wait and
// never fail: a manager that does not listen learns nothing.
class ServiceManager {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and removes them: workers must not speak for the server.
  static ServiceManager from_environment();
  // No manager: every message is dropped.
  ServiceManager() = default;

  bool listens() const { return !socket_path_.empty(); }
  void ready(std::string_view status) const;
  void reloading() const;  // To be followed by ready().
  void stopping() const;
  void status(std::string_view text) const;

  // How often alive() has to be called, so that the manager does not restart this process: half of its time. Nothing:
  // it does not watch.
  std::optional<Duration> watchdog() const { return watchdog_; }
  void alive() const;

 private:
  void send(const std::string& message) const;

  std::string socket_path_;  // A path, or "@name" in the abstract namespace.
  std::optional<Duration> watchdog_;
};

}  // namespace tangram::host
