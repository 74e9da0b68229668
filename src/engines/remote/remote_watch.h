// Notices that a remote server is gone while no batch runs on it.
//
// Every half a second it asks the server whether it lives, on a connection of its own, so that all slices of a server
// that is gone are lost at once and within two seconds, whether it refuses connections or cannot be reached at all.
#pragma once

#include <functional>
#include <string>

#include "client/http_connection.h"
#include "engines/executor_links.h"
#include "engines/remote/remote_link.h"

namespace tangram::engines {

class RemoteWatch final : private host::Readiness {
 public:
  // `needed`: whether slices count on the server; it is not asked otherwise. `gone`: called with the reason each time
  // that the server does not answer.
  RemoteWatch(LinkContext context, host::Endpoint address, RemoteCaller caller, std::function<bool()> needed,
              std::function<void(const std::string&)> gone);
  ~RemoteWatch() override { disconnect(); }
  RemoteWatch(const RemoteWatch&) = delete;
  RemoteWatch& operator=(const RemoteWatch&) = delete;

  // The server has answered something else: it lives.
  void heard() { heard_ = context_.clock.now(); }
  void set_caller(RemoteCaller caller);
  void work(TimePoint now);
  TimePoint next_due() const { return due_; }

 private:
  void ask();
  // Opens a new connection. False: the kernel refuses at once.
  bool connect();
  void disconnect();
  void take(client::HttpConnection::Event event);
  void watch();
  void on_ready(bool readable, bool writable, bool broken) override;
  // The question is answered, or not. `reason` is empty if it is.
  void end(const std::string& reason);

  LinkContext context_;
  host::Endpoint address_;
  RemoteCaller caller_;
  std::function<bool()> needed_;
  std::function<void(const std::string&)> gone_;
  client::HttpConnection http_;
  bool asking_ = false;
  bool used_before_ = false;  // The connection has carried an answer, so it may have ended while it was idle.
  bool watched_for_writing_ = false;
  TimePoint heard_;
  TimePoint due_;  // Of the next question, or of the end of this one.
};

}  // namespace tangram::engines
