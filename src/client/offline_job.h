// An offline job from its input to its output, over a server that also serves online traffic.
//
// Rows go out as requests in the background, of which the gateway runs as many as online traffic leaves room for. What
// is answered is recorded before it counts, so the process may be killed at any instant: whoever resumes asks again for
// the rows that were under way and for no other. The output appears whole, in the order of the input, or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "client/offline_store.h"
#include "host/tls.h"

namespace tangram::client {

// How things stand, told about ten times a second.
struct OfflineView {
  std::uint64_t answered = 0;
  std::uint64_t failed = 0;
  std::uint64_t left = 0;
  double rows_per_s = 0;
  std::size_t under_way = 0;
  bool pressed = false;                 // The deadline is near.
  std::optional<Duration> needed;       // For what is left, if known.
  std::optional<Duration> deadline_in;  // Negative: it has passed.
  std::string trouble;                  // Why nothing moves at the moment.
  bool stalled = false;                 // For so long that people should know.
};

struct OfflineRunConfig {
  std::vector<std::string> headers = {};                  // "Name: value", with every request.
  std::string key = {};                                   // Shown as a bearer token.
  std::shared_ptr<const host::TlsContext> tls = nullptr;  // Null: plain.
  std::string server_name = {};                           // Whose certificate it must be; empty: the address.
  std::size_t under_way_max = 256;                        // Rows; four times as many when the deadline is near.
  Duration row_deadline = std::chrono::seconds(60);  // How long a row may wait at the server before it is sent again.
  Duration patience = std::chrono::minutes(10);      // How long a server that does not answer is waited for.
  Duration stall = std::chrono::seconds(3);          // After how long without any result the reason is looked for.
  std::function<void(const OfflineView&)> progress = {};
  std::function<bool()> interrupted = {};
};

enum class OfflineEnd : std::uint8_t { done, cancelled, interrupted };

// Milliseconds since the epoch, as in OfflineJob. Deadlines use the wall clock, because they must survive a reboot.
std::int64_t wall_ms();

// Runs the job to its end. The store is locked by the caller. Errors leave the job as it stands, to be resumed: the
// input has changed, the server does not know the model or has been away for too long, the output cannot be written.
Result<OfflineEnd> run_offline_job(OfflineStore& store, const OfflineRunConfig& config);

}  // namespace tangram::client
