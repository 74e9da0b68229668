// What is to be served: a model, a promise, traffic and the sizes of its inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/time.h"
#include "core/tensor.h"

namespace tangram {

// A promise: this share of all requests is answered within `latency`, in the long run, and with a window in the
// busiest window of that length, too.
struct Slo {
  Duration latency{};
  double percentile = 99;  // 0 < percentile < 100.
  double window_s = 0;     // 0: none.
  // Times `latency`, after which an answer is worth nothing: a request that cannot be in time is answered late if it
  // can end by then, and rejected otherwise. At 1 it is rejected as soon as it cannot be in time.
  double late_limit = 1;

  bool operator==(const Slo&) const = default;
};

// A recorded request.
struct TraceEntry {
  TimePoint at;
  std::int64_t size = 1;     // Input size: tokens, pixels of a side, milliseconds of audio.
  std::int64_t samples = 1;  // How many inputs the request holds.

  bool operator==(const TraceEntry&) const = default;
};
using Trace = std::vector<TraceEntry>;  // Ascending in time.

// Arrivals.
struct PoissonTraffic {
  double rate_per_s = 0;
};
// Equal gaps.
struct ConstantTraffic {
  double rate_per_s = 0;
};
// A Poisson process that a two-state Markov chain switches between a calm and a burst rate.
struct BurstTraffic {
  double rate_per_s = 0;     // The mean over both states.
  double burst_factor = 5;   // Burst rate over calm rate.
  double burst_mean_s = 10;  // Mean length of a burst.
  double calm_mean_s = 90;   // Mean length of the calm between two.
};
// A Poisson process whose rate follows a sine over a day (or another period).
struct DiurnalTraffic {
  double rate_per_s = 0;   // The mean over a period.
  double amplitude = 0.5;  // Peak rate = mean * (1 + amplitude).
  double period_s = 86400;
  double peak_at_s = 43200;  // When in the period the peak falls.
};
// A Poisson process whose rate is given for each step of time; the curve repeats.
struct CurveTraffic {
  std::string file;  // Where it was read.
  double step_s = 1;
  double scale = 1;
  std::vector<double> rate_per_s;
};
struct TraceTraffic {
  std::string file;
  double speed = 1;  // 2 replays twice as fast.
  Trace trace;
};
// A fixed number of clients, each of which sends its next request some time after its last answer.
struct ClosedLoopTraffic {
  int clients = 1;
  double think_mean_s = 0;
};
using Traffic = std::variant<PoissonTraffic, ConstantTraffic, BurstTraffic, DiurnalTraffic, CurveTraffic, TraceTraffic,
                             ClosedLoopTraffic>;

// Input sizes.
struct ConstantSize {
  std::int64_t size = 1;
};
struct LogNormalSize {
  double median = 1;
  double sigma = 0;
  std::int64_t min = 1;  // Smaller and larger draws are moved to the bounds.
  std::int64_t max = 1;
};
struct HistogramSize {
  struct Bin {
    std::int64_t size = 1;
    double weight = 1;
  };
  std::string file;
  std::vector<Bin> bins;  // Ascending sizes, positive weights.
};
// The sizes that the service's own trace records.
struct TraceSize {};
using SizeDistribution = std::variant<ConstantSize, LogNormalSize, HistogramSize, TraceSize>;

// Input sizes that change while the service runs: the share of requests whose size comes from `to` grows evenly from
// none at `begin_s` to all at `end_s`.
struct SizeDrift {
  SizeDistribution to = ConstantSize{};
  double begin_s = 0;
  double end_s = 0;

  double share_at(double seconds) const;
};

// Work with one deadline for all of it instead of one for each request: `rows` inputs, all available from the start.
struct Job {
  std::int64_t rows = 0;
  Duration deadline{};  // After the start.

  double rows_per_s() const { return static_cast<double>(rows) / to_seconds(deadline); }
  bool operator==(const Job&) const = default;
};

// To what an input is padded before it joins a batch.
enum class Padding {
  bucket,   // The upper edge of its bucket.
  longest,  // The longest member of its batch.
  none,     // Inputs of different sizes never share a batch.
};

// With which services a service may share slices.
enum class Isolation {
  none,        // With any that allow it.
  own_slices,  // With none.
  tenant,      // With services of the same tenant.
};

// What runs the batches of a service, where its file says so.
enum class ServiceEngine {
  unnamed,   // Whatever the server runs by default.
  emulated,  // Takes the time that a latency model predicts.
  onnx,      // ONNX Runtime.
  torch,     // libtorch.
  command,   // A server of the user's own that is started on each slice.
  remote,    // A server that is there already.
};
// "onnx"; empty for `unnamed`.
std::string_view to_string(ServiceEngine engine);

// A server that runs the batches of the slices with one MigProfile.
struct RemoteServer {
  std::string mig_profile = {};  // Empty: of any.
  std::string address;           // "10.0.0.7:8000", "triton-2:8000".

  bool operator==(const RemoteServer&) const = default;
};

// One service: a model with its promise and its traffic. Also the unit of accounting.
//
// A service that is a job has the deadline as its Slo, and is fed evenly, at the rate that ends it in time.
struct Service {
  std::string name;
  std::string model;
  Slo slo;
  Traffic traffic = PoissonTraffic{};
  SizeDistribution input_size = ConstantSize{};
  SizeDistribution samples = ConstantSize{};  // How many inputs a request holds; they run in one batch.
  Padding padding = Padding::bucket;
  int priority = 0;                                 // Larger goes first.
  std::optional<Signature> tensors = std::nullopt;  // What the model takes and answers, where it is said.
  std::optional<SizeDrift> size_drift = std::nullopt;
  std::optional<Job> job = std::nullopt;
  // Names weights other than the model's own: a fine-tune runs as fast, but needs its own copy and its own batches.
  std::string weights = {};
  Isolation isolation = Isolation::none;
  std::string tenant = {};       // Whose service it is; empty: nobody's in particular.
  std::string share_group = {};  // Shares slices only with services of the same group; empty is a group, too.
  ServiceEngine engine = ServiceEngine::unnamed;
  std::string command = {};                // Of the engine `command`; empty: that of the server's options.
  std::vector<RemoteServer> remotes = {};  // Of the engine `remote`; empty: those of the server's options.

  const Signature& signature() const { return tensors ? *tensors : default_signature(); }
};

struct Workload {
  std::vector<Service> services;
};

// Whether two services may be on one slice. Says nothing of whether they fit there.
bool may_share_slices(const Service& a, const Service& b);
// Whether two services run the same copy of the same network, so that their requests may share a batch.
bool same_weights(const Service& a, const Service& b);

// Requests a second on average; of a trace or a curve, over its own length. A closed loop has none of its own.
double mean_rate_per_s(const Traffic& traffic);
// Requests a second while a burst lasts. With a burst factor f, the mean m over bursts of length b and calms of length
// c is m = (f * b + c) / (b + c) * calm rate.
double burst_rate_per_s(const BurstTraffic& traffic);
// The largest input size that can be drawn, now or after a drift. For TraceSize, the largest in the service's trace.
std::int64_t largest_size(const Service& service);

}  // namespace tangram
