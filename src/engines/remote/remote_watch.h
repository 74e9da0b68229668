// Notices that a remote server, or one of its models, is gone while no batch runs on it.
//
// Every half a second it asks the server on a connection of its own whether the models are ready that idle slices count
// on, one question after the other. So all slices of a server that is gone are lost at once and within two seconds,
// whether it refuses connections or cannot be reached at all, and so are those of a model that a server has unloaded.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/http_connection.h"
#include "engines/executor_links.h"
#include "engines/remote/remote_link.h"

namespace tangram::engines {

class RemoteWatch final : private host::Readiness {
 public:
  // What the watch needs to know, and whom it tells.
  struct Slices {
    // The models that idle slices count on, as the server calls them. None: it is not asked.
    std::function<std::vector<std::string>()> models;
    // The server does not answer, or not for this model (empty: for any), for this reason.
    std::function<void(const std::string& model, const std::string& reason)> gone;
  };

  RemoteWatch(LinkContext context, host::Endpoint address, RemoteCaller caller, Slices slices);
  ~RemoteWatch() override { disconnect(); }
  RemoteWatch(const RemoteWatch&) = delete;
  RemoteWatch& operator=(const RemoteWatch&) = delete;

  // The server has answered something else: it lives.
  void heard() { heard_ = context_.clock.now(); }
  void set_caller(RemoteCaller caller);
  void work(TimePoint now);
  TimePoint next_due() const { return due_; }

 private:
  // Asks for the first model of to_ask_. Requires that there is one.
  void ask();
  // The server has answered: asks for the next model, or rests.
  void answered(int status);
  // Opens a new connection. False: the kernel refuses at once.
  bool connect();
  void disconnect();
  void take(client::HttpConnection::Event event);
  void watch();
  void on_ready(bool readable, bool writable, bool broken) override;
  // The server has not answered.
  void end(const std::string& reason);
  void rest();

  LinkContext context_;
  host::Endpoint address_;
  RemoteCaller caller_;
  Slices slices_;
  std::vector<std::string> to_ask_;  // Models; the first one is asked for.
  client::HttpConnection http_;
  bool asking_ = false;
  bool used_before_ = false;  // The connection has carried an answer, so it may have ended while it was idle.
  bool watched_for_writing_ = false;
  TimePoint heard_;
  TimePoint due_;  // Of the next question, or of the end of this one.
};

}  // namespace tangram::engines
