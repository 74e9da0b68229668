// One reload at a time, on a thread that lives as long as the reload.
//
// Reading files and building tables takes time that the loop of the world cannot spare. The result comes back through
// the inbox as a control call, so it is applied between two events and on the thread of the world. running_ and again_
// belong to that thread; only asked_ is set from others.

#include "serve/reloader.h"

#include <utility>

#include "serve/live_world.h"
#include "serve/same_services.h"

namespace tangram::serve {

void Reloader::ask() {
  asked_ = true;
  hooks_.wake();
}

void Reloader::begin_if_asked() {
  if (!asked_.exchange(false) || !reloads_anything(config_)) return;
  // The reload that is running may have read the files before they were changed, so another one follows it.
  if (running_) {
    again_ = true;
    return;
  }
  running_ = true;
  // The previous thread has posted its call and is about to end, so this does not block.
  join();
  // Requests up to this number are answered by the reload that begins now. Taken before the files are read.
  number_ = reloads_.report().asked;
  thread_ = std::thread([this] { run(); });
}

void Reloader::join() {
  if (thread_.joinable()) thread_.join();
}

void Reloader::run() {
  // std::function must be copyable, and the result of reading need not be.
  const auto files = std::make_shared<const Result<ReloadedFiles>>(read());
  // Applied as a whole or not at all: a file that cannot be read leaves the others unused, too.
  call_.work = [this, files](LiveWorld& world, ControlCall&) { take(world, *files); };
  inbox_.post(&call_);
}

void Reloader::take(LiveWorld& world, const Result<ReloadedFiles>& files) {
  settling_ = files && hooks_.settled && !hooks_.settled(world, *files);
  if (settling_) {
    look_at_ = world.time() + kSettlePause;
    return;
  }
  const Result<Nothing> taken = files ? hooks_.take(world, *files) : Result<Nothing>(files.error());
  if (!taken) {
    log_.write(host::LogLine(host::LogLevel::error, "reload_failed").text("reason", taken.error().message));
  } else if (files->plan) {
    roster_ = files->plan->roster;
  }
  reloads_.end(number_, taken ? "" : taken.error().message);
}

void Reloader::work(TimePoint now) {
  if (now < next_due()) return;
  posted_ = true;
  inbox_.post(&call_, false);
}

void Reloader::on_controlled(ControlCall*) {
  // On the thread of the world, after the work.
  posted_ = false;
  if (settling_) return;
  running_ = false;
  if (std::exchange(again_, false)) ask();
}

// Reads everything before anything is applied. The TLS context is built here, because it parses and checks the keys.
Result<ReloadedFiles> Reloader::read() const {
  ReloadedFiles files;
  if (config_.reload_security) {
    TANGRAM_TRY(auto security, config_.reload_security());
    // TLS cannot be switched on or off by a reload: the listeners were opened with it or without.
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
    TANGRAM_TRY(auto next, config_.reload(roster_));
    // Whoever renews a certificate has asked for no plan: none is made past the mode, a pause or a freeze.
    if (!next.deployment && same_services(roster_, next.roster)) return files;
    // Last: a plan that is made is put in force.
    if (!next.deployment && hooks_.prepare) TANGRAM_RETURN_IF_ERROR(hooks_.prepare(next.roster));
    files.plan = std::move(next);
  }
  return files;
}

}  // namespace tangram::serve
