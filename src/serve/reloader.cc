#include "serve/reloader.h"

#include <utility>

namespace tangram::serve {

void Reloader::ask() {
  asked_ = true;
  wake_();
}

void Reloader::begin_if_asked() {
  if (!asked_.exchange(false) || !reloads_anything(config_)) return;
  if (running_) {
    again_ = true;
    return;
  }
  running_ = true;
  join();
  number_ = reloads_.report().asked;
  thread_ = std::thread([this] { run(); });
}

void Reloader::join() {
  if (thread_.joinable()) thread_.join();
}

void Reloader::run() {
  // std::function must be copyable, and what was read need not be.
  const auto files = std::make_shared<const Result<ReloadedFiles>>(read());
  call_.work = [this, files](LiveWorld& world, ControlCall&) {
    const Result<Nothing> taken = *files ? take_(world, **files) : Result<Nothing>(files->error());
    if (!taken) {
      log_.write(host::LogLine(host::LogLevel::error, "reload_failed").text("reason", taken.error().message));
    }
    reloads_.end(number_, taken ? "" : taken.error().message);
  };
  inbox_.post(&call_);
}

void Reloader::on_controlled(ControlCall*) {
  running_ = false;
  if (std::exchange(again_, false)) ask();
}

Result<ReloadedFiles> Reloader::read() const {
  ReloadedFiles files;
  if (config_.reload_security) {
    TANGRAM_TRY(auto security, config_.reload_security());
    if (security.tls && config_.security.tls) {
      TANGRAM_TRY(auto made, host::TlsContext::for_server(*security.tls));
      files.tls = std::move(made);
    }
    files.security = std::move(security);
  }
  if (config_.reload_remote_caller) {
    TANGRAM_TRY(auto caller, config_.reload_remote_caller());
    files.remote_caller = std::move(caller);
  }
  if (config_.reload) {
    TANGRAM_TRY(auto next, config_.reload());
    files.deployment = std::move(next);
  }
  return files;
}

}  // namespace tangram::serve
