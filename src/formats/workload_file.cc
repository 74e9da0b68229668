// The services file: description, the files that it names, and the checks between fields.
//
// Reading has three steps. The description fills records and reports each wrong value; the loader reads traces, curves
// and histograms; the checks compare values that are right in themselves. All three add to one list of problems, so
// that a user sees every mistake in one run.

#include "formats/workload_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "formats/describe.h"
#include "formats/detail/limits.h"
#include "formats/detail/shapes.h"
#include "formats/trace_file.h"

namespace tangram::formats {
namespace {

// A service as the file has it: the fields of core's Service, with the places that later checks report.
struct ServiceRecord {
  Located<std::string> name;
  std::string model;
  Located<std::optional<Job>> job;
  std::optional<Slo> slo;
  std::optional<Located<Traffic>> traffic;
  Located<SizeDistribution> input_size;
  Located<SizeDistribution> samples;
  Padding padding = Padding::bucket;
  int priority = 0;
  std::optional<Located<Signature>> tensors;
  std::optional<Located<SizeDrift>> size_drift;
  std::string weights;
  Isolation isolation = Isolation::none;
  Located<std::string> tenant;
  std::string share_group;
  ServiceEngine engine = ServiceEngine::unnamed;
  std::string command;
  std::vector<RemoteServer> remotes;
};

struct WorkloadRecord {
  std::vector<ServiceRecord> services;
};

// Each service holds its own copy of what it reads, so many services that name one long trace could fill the memory.
constexpr std::size_t kLoadedRowsMax = 50'000'000;

// Shared by the forms of traffic. Zero is excluded: a service without requests has no rate to plan for.
constexpr Limits kRateLimits{.max = kRateMax, .above = 0, .required = true};
constexpr double kRowsMax = 1e15;
constexpr Limits kSecondsLimits{.max = kSecondsMax, .above = 0};

}  // namespace

// The descriptions of core's types are directly in tangram::formats, where the compiler finds them by the namespace of
// the visitor. In the unnamed namespace it would not find them: core's types are not from there.
template <typename Visitor>
void describe(Visitor& v, Slo& c) {
  v.about("Promise", "The latency promised for a share of all requests.");
  v.field("latency_ms", c.latency, {.max = kLatencyMsMax, .above = 0, .required = true}, "The promised latency.");
  v.field("percentile", c.percentile, {.above = 0, .below = 100},
          "The share of requests that the promise covers, in percent.");
  v.field(
      "window_s", c.window_s, {.min = 0, .max = 31536000},
      "Asks for the share in windows of this many seconds, too, not only in the long run: where the rate is highest, on "
      "average and in 95 of 100 windows. 0: no window.");
  v.field("late_limit", c.late_limit, {.min = 1, .max = 1e6},
          "A request that cannot be in time is still answered within this many times the promised latency after its "
          "arrival, and rejected otherwise. At 1 it is rejected as soon as it cannot be in time.");
  // A positive number of milliseconds can still round to zero nanoseconds.
  v.rule(c.latency > Duration::zero(), {"latency_ms"}, "latency_ms must be at least a nanosecond");
}

template <typename Visitor>
void describe(Visitor& v, tangram::Job& c) {
  v.about("Job", "A fixed amount of work with a deadline. All rows are available from the start.");
  v.field("rows", c.rows, {.min = 1, .max = kRowsMax, .required = true}, "The number of inputs.");
  v.field("deadline_s", c.deadline, {.max = kSecondsMax, .above = 0, .required = true},
          "Seconds from the start until all rows must be done.");
  v.rule(c.deadline > Duration::zero(), {"deadline_s"}, "deadline_s must be at least a nanosecond");
}

template <typename Visitor>
void describe(Visitor& v, PoissonTraffic& c) {
  v.field("rate_per_s", c.rate_per_s, kRateLimits, "Requests a second.");
}

template <typename Visitor>
void describe(Visitor& v, ConstantTraffic& c) {
  v.field("rate_per_s", c.rate_per_s, kRateLimits, "Requests a second.");
}

// A Poisson process whose rate switches between two levels, with exponential times in each (a two-state MMPP).
template <typename Visitor>
void describe(Visitor& v, BurstTraffic& c) {
  v.field("rate_per_s", c.rate_per_s, kRateLimits, "Requests a second, the mean over calm periods and bursts.");
  v.field("burst_factor", c.burst_factor, {.min = 1, .max = 1e6},
          "The rate in a burst divided by the rate in calm periods.");
  v.field("burst_mean_s", c.burst_mean_s, kSecondsLimits, "The mean length of a burst.");
  v.field("calm_mean_s", c.calm_mean_s, kSecondsLimits, "The mean length of a calm period.");
}

template <typename Visitor>
void describe(Visitor& v, DiurnalTraffic& c) {
  v.field("rate_per_s", c.rate_per_s, kRateLimits, "Requests a second, the mean over a period.");
  v.field("amplitude", c.amplitude, {.min = 0, .max = 1}, "Peak rate = mean * (1 + amplitude).");
  v.field("period_s", c.period_s, kSecondsLimits, "The length of a period.");
  v.field("peak_at_s", c.peak_at_s, {.min = 0, .max = kSecondsMax}, "The time of the peak within the period.");
  v.rule(c.peak_at_s <= c.period_s, {"peak_at_s", "period_s"}, "peak_at_s must be less than period_s");
}

template <typename Visitor>
void describe(Visitor& v, CurveTraffic& c) {
  v.field("file", c.file, {.required = true}, "The path of the rate curve, relative to this file.");
  v.field("step_s", c.step_s, kSecondsLimits, "The time that one line of the curve covers.");
  v.field("scale", c.scale, {.max = 1e6, .above = 0}, "The factor for every rate.");
}

template <typename Visitor>
void describe(Visitor& v, TraceTraffic& c) {
  v.field("file", c.file, {.required = true}, "The path of the trace, relative to this file.");
  v.field("speed", c.speed, {.max = 1e6, .above = 0}, "2 replays twice as fast.");
}

template <typename Visitor>
void describe(Visitor& v, ClosedLoopTraffic& c) {
  v.field("clients", c.clients, {.min = 1, .max = 1e6, .required = true}, "The number of clients.");
  v.field("think_mean_s", c.think_mean_s, {.min = 0, .max = kSecondsMax},
          "The mean pause between an answer and the next request.");
}

template <typename Visitor>
void describe(Visitor& v, Traffic& traffic) {
  // The writer uses the first form that fits, so Poisson traffic is written as `rate_per_s: 10`.
  v.shorthand("rate_per_s", traffic, &PoissonTraffic::rate_per_s, kRateLimits, "Short for poisson with this rate.");
  v.option("poisson", traffic, PoissonTraffic{}, "Independent arrivals.");
  v.option("constant", traffic, ConstantTraffic{}, "Equal gaps.");
  v.option("bursts", traffic, BurstTraffic{}, "Independent arrivals at a rate that switches between calm and burst.");
  v.option("diurnal", traffic, DiurnalTraffic{}, "Independent arrivals at a rate that follows a sine over a day.");
  v.option("rate_curve", traffic, CurveTraffic{}, "Independent arrivals at the rates of a file, which repeats.");
  v.option("trace", traffic, TraceTraffic{}, "Recorded requests.");
  v.option("closed_loop", traffic, ClosedLoopTraffic{},
           "Clients that wait for an answer before they send the next request.");
}

template <typename Visitor>
void describe(Visitor& v, ConstantSize& c) {
  v.field("size", c.size, {.min = 1, .max = kSizeMax, .required = true}, "The size of every input.");
}

// The median is asked for instead of mu, because it is a size that people know; mu is its logarithm.
template <typename Visitor>
void describe(Visitor& v, LogNormalSize& c) {
  v.field("median", c.median, {.min = 1, .max = kSizeMax, .required = true}, "The median size.");
  v.field("sigma", c.sigma, {.min = 0, .max = 10, .required = true}, "The standard deviation of the logarithm.");
  v.field("min", c.min, {.min = 1, .max = kSizeMax}, "The smallest size; smaller draws become this.");
  v.field("max", c.max, {.min = 1, .max = kSizeMax, .required = true}, "The largest size; larger draws become this.");
  v.rule(c.min <= c.max, {"max", "min"}, "max must be at least min");
  // Judged only if min and max make sense; otherwise the rule above has reported them.
  const bool within = static_cast<double>(c.min) <= c.median && c.median <= static_cast<double>(c.max);
  v.rule(c.min > c.max || within, {"median", "min", "max"}, "median must be between min and max");
}

template <typename Visitor>
void describe(Visitor& v, HistogramSize& c) {
  v.field("file", c.file, {.required = true}, "The path of the histogram, relative to this file.");
}

// No fields: the key `trace` alone selects this alternative.
template <typename Visitor>
void describe(Visitor&, TraceSize&) {}

template <typename Visitor>
void describe(Visitor& v, SizeDistribution& size) {
  // First, so that a constant size is written as a bare number.
  v.plain(size, &ConstantSize::size, {.min = 1, .max = kSizeMax}, "Every input has this size.");
  v.option("constant", size, ConstantSize{}, "The same, as a map.");
  v.option("log_normal", size, LogNormalSize{}, "A log-normal distribution, clamped at both ends.");
  v.option("histogram", size, HistogramSize{}, "Sizes drawn from a file.");
  v.option("trace", size, TraceSize{}, "The sizes in the trace of the service: `trace: {}`.");
}

template <typename Visitor>
void describe(Visitor& v, SizeDrift& c) {
  v.about("Drift of input sizes", "The share of requests with the new sizes grows linearly from none to all.");
  v.field("begin_s", c.begin_s, {.min = 0, .max = kSecondsMax, .required = true},
          "When the first requests with new sizes arrive.");
  v.field("end_s", c.end_s, {.max = kSecondsMax, .above = 0, .required = true}, "When all requests have new sizes.");
  v.field("to", c.to, {.required = true}, "The new sizes, in the forms of input_size.");
  v.rule(c.begin_s <= c.end_s, {"end_s", "begin_s"}, "end_s must not be before begin_s");
}

template <typename Visitor>
void describe(Visitor& v, Padding& padding) {
  v.name("bucket", padding, Padding::bucket, "The upper edge of its bucket.");
  v.name("longest", padding, Padding::longest, "The longest member of its batch.");
  v.name("none", padding, Padding::none, "Nothing: inputs of different sizes never share a batch.");
}

template <typename Visitor>
void describe(Visitor& v, Isolation& isolation) {
  v.name("none", isolation, Isolation::none, "With any service that allows it.");
  v.name("own_slices", isolation, Isolation::own_slices, "With none.");
  v.name("tenant", isolation, Isolation::tenant, "With services of the same tenant.");
}

// The words come from core, so that a new datatype needs no change here.
template <typename Visitor>
void describe(Visitor& v, Datatype& datatype) {
  for (const Datatype each : all_datatypes()) {
    const std::size_t size = size_of(each);
    v.name(to_string(each), datatype, each,
           size == 1   ? "1 byte."
           : size == 2 ? "2 bytes."
           : size == 4 ? "4 bytes."
           : size == 8 ? "8 bytes."
                       : "Strings of at most 1020 bytes; padded with empty strings.");
  }
}

template <typename Visitor>
void describe(Visitor& v, ServiceEngine& engine) {
  v.name("default", engine, ServiceEngine::unnamed, "The engine that `tangram serve --engine` names.");
  v.name("emulated", engine, ServiceEngine::emulated, "Takes the time that the latency model predicts.");
  v.name("onnx", engine, ServiceEngine::onnx, "ONNX Runtime runs MODEL.onnx.");
  v.name("torch", engine, ServiceEngine::torch, "libtorch runs MODEL.pt.");
  v.name("command", engine, ServiceEngine::command, "A server of your own, which `command` starts on each slice.");
  v.name("remote", engine, ServiceEngine::remote, "The servers in `remote`, which run already.");
}

template <typename Visitor>
void describe(Visitor& v, RemoteServer& c) {
  v.about("Remote server", "A server that speaks the Open Inference Protocol over HTTP.");
  v.field("profile", c.mig_profile, {.text = TextRule::name},
          "The MigProfile of the slices whose batches it runs; default: of all.");
  v.field("address", c.address, {.required = true}, "HOST:PORT; the host is a name or a number.");
}

// Limits of the axes are checked in why_wrong(), since they apply to the elements of a list.
template <typename Visitor>
void describe(Visitor& v, TensorSpec& c) {
  v.about("Tensor", "One tensor of a model, for one sample.");
  v.field("name", c.name, {.required = true}, "The name that clients use.");
  v.field("datatype", c.datatype, "The datatype of the elements, as the Open Inference Protocol names it.");
  v.field(
      "shape", c.shape, {.required = true},
      "The shape of one sample, without the batch: the length of each axis, -1 for an axis that grows with the input.");
  v.field("pad", c.pad, "For an input: the value of the elements that pad it to its bucket.");
  v.field(
      "mask", c.mask,
      "For an input: it is a mask, 1 for a real element and 0 for padding. Tangram generates it for clients that do "
      "not send it.");
}

template <typename Visitor>
void describe(Visitor& v, Signature& c) {
  v.about("Tensors", "The inputs and outputs of the model.");
  v.field("inputs", c.inputs, {.required = true, .items_min = 1}, "The inputs, in the order of the model's arguments.");
  v.field("outputs", c.outputs, {.required = true, .items_min = 1},
          "The outputs, in the order in which the model returns them.");
}

namespace {

// `slo` and `traffic` are optional here although most services need them: whether they are required depends on `job`,
// which is read before them.
template <typename Visitor>
void describe(Visitor& v, ServiceRecord& c) {
  v.about("Service", "A model with its promise and its traffic.");
  v.field("name", c.name, {.required = true, .text = TextRule::name}, "The name of the service, unique in the file.");
  v.field("model", c.model, {.required = true}, "The network, with the name that the measurements use.");
  v.field("job", c.job, "Gives the service a job; such a service has no slo and no traffic.");
  // A job with a wrong value is still meant as a job; to demand slo and traffic as well would mislead.
  const bool is_job = c.job.value || c.job.at.line > 0;
  v.field("slo", c.slo, {.required = !is_job}, "The promise. Required, except with a job.");
  v.field("traffic", c.traffic, {.required = !is_job}, "How requests arrive. Required, except with a job.");
  v.field("input_size", c.input_size, "The distribution of input sizes; default 1.");
  v.field("size_drift", c.size_drift, "How input sizes change over time.");
  v.field("samples", c.samples, "The number of inputs in a request, in the same forms as input_size; default 1.");
  v.field("padding", c.padding, "The size to which an input is padded before it joins a batch.");
  v.field("priority", c.priority, {.min = -1000, .max = 1000}, "Requests of a higher priority go first.");
  v.field("tensors", c.tensors,
          "The inputs and outputs of the model, for serving. Default: one FP32 input INPUT of any length and one FP32 "
          "output OUTPUT of one element.");
  v.field("weights", c.weights, {.text = TextRule::name},
          "Names weights other than the model's own, such as a fine-tune: the same run times, but a copy of its own. "
          "Services with the same model and weights share one copy on a slice, and their requests share batches.");
  v.field("isolation", c.isolation, "With which services it may share slices.");
  v.field("tenant", c.tenant, {.text = TextRule::name}, "Whose service it is, for `isolation: tenant`.");
  v.field("share_group", c.share_group, {.text = TextRule::name},
          "The service shares slices only with services of the same group.");
  v.field("engine", c.engine,
          "What runs the batches. Services share slices only with services of the same engine, command and servers.");
  v.field(
      "command", c.command,
      "For the engine command: the shell command that starts a server of the Open Inference Protocol on a slice. "
      "{port} is the port to listen on at 127.0.0.1, {model} the path of the weights without ending, {slice} the name "
      "of the slice, {cores} the numbers of its cores with commas between. Default: `--command`.");
  v.field("remote", c.remotes, "For the engine remote: the servers. Default: `--remote`.");
  v.rule(c.command.empty() || c.engine == ServiceEngine::command, {"command", "engine"},
         "a command needs `engine: command`");
  v.rule(c.remotes.empty() || c.engine == ServiceEngine::remote, {"remote", "engine"},
         "remote servers need `engine: remote`");
  v.rule(
      !c.job.value || (!c.slo && !c.traffic), {"job", "slo", "traffic"},
      "a service with a job has neither slo nor traffic: its deadline is its promise, and all its rows are available "
      "from the start");
}

template <typename Visitor>
void describe(Visitor& v, WorkloadRecord& c) {
  v.about("Services", "The services to serve.");
  v.field("services", c.services, {.required = true, .items_min = 1}, "The services.");
}

// Loads the files that services name. The text of each is read once, however many services share it; it is parsed for
// each of them, and each counts its rows against kLoadedRowsMax.
class FileLoader {
 public:
  FileLoader(const ReadFile& read_file, Problems& problems) : read_file_(read_file), problems_(problems) {}

  // Sizes, drift and samples can each name a histogram, and traffic a curve or a trace.
  void load(ServiceRecord& service) {
    if (service.traffic) load(*service.traffic);
    if (auto* histogram = std::get_if<HistogramSize>(&service.input_size.value)) {
      read(histogram->file, service.input_size.at, parse_histogram, histogram->bins);
    }
    if (service.size_drift) {
      if (auto* histogram = std::get_if<HistogramSize>(&service.size_drift->value.to)) {
        read(histogram->file, service.size_drift->at, parse_histogram, histogram->bins);
      }
    }
    if (auto* histogram = std::get_if<HistogramSize>(&service.samples.value)) {
      read(histogram->file, service.samples.at, parse_histogram, histogram->bins);
    }
  }

 private:
  void load(Located<Traffic>& traffic) {
    if (auto* curve = std::get_if<CurveTraffic>(&traffic.value)) {
      read(curve->file, traffic.at, parse_rate_curve, curve->rate_per_s);
    } else if (auto* replay = std::get_if<TraceTraffic>(&traffic.value)) {
      read(replay->file, traffic.at, parse_trace, replay->trace);
    }
  }

  template <typename T>
  void read(const std::string& path, Position at, Result<T> (*parse)(const Source&), T& value) {
    if (path.empty()) return;  // It is missing or wrong, which has been said.
    // A failure is cached too: the file is not tried again, but every service that names it gets a message.
    auto [cached, fresh] = files_.try_emplace(path, Error{});
    if (fresh) cached->second = read_file_(path);
    if (!cached->second)
      return problems_.add(at, fmt::format("cannot read {}: {}", path, cached->second.error().message));
    auto parsed = parse({path, *cached->second});
    if (parsed) rows_ += parsed->size();
    if (parsed && rows_ > kLoadedRowsMax) {
      problems_.add(at, fmt::format("the files of all services together have more than {} rows", kLoadedRowsMax));
    } else if (parsed) {
      value = std::move(*parsed);
    } else {
      // The message already names the other file and the place in it.
      problems_.add_complete(at, parsed.error().message);
    }
  }

  const ReadFile& read_file_;
  Problems& problems_;
  std::map<std::string, Result<std::string>> files_;
  std::size_t rows_ = 0;
};

// Sizes of a trace belong to its requests, so they exist only where the traffic is that trace.
void check_trace(const Located<SizeDistribution>& sizes, const ServiceRecord& service, const char* what,
                 Problems& problems) {
  if (!std::holds_alternative<TraceSize>(sizes.value)) return;
  if (service.traffic && std::holds_alternative<TraceTraffic>(service.traffic->value)) return;
  // Missing or wrong traffic has been reported already, and it may have been meant to be a trace.
  if (!service.job.value && (!service.traffic || service.traffic->wrong || service.traffic->at.line == 0)) return;
  problems.add(sizes.at, fmt::format("{} from a trace need traffic from a trace", what));
}

// The largest size that can be drawn. Bins ascend, as parse_histogram requires. The sizes of a trace are checked where
// it is parsed, so 1 stands for them.
std::int64_t largest_of(const SizeDistribution& sizes) {
  if (const auto* constant = std::get_if<ConstantSize>(&sizes)) return constant->size;
  if (const auto* log_normal = std::get_if<LogNormalSize>(&sizes)) return log_normal->max;
  const auto* histogram = std::get_if<HistogramSize>(&sizes);
  return histogram == nullptr || histogram->bins.empty() ? 1 : histogram->bins.back().size;
}

// Names identify services in plans and reports, so each may occur once. The message names the line of the first.
void check_names(const std::vector<ServiceRecord>& services, Problems& problems) {
  std::map<std::string, int> seen;
  for (const auto& service : services) {
    // A missing or wrong name has been reported.
    if (service.name.value.empty()) continue;
    const auto [first, fresh] = seen.emplace(service.name.value, service.name.at.line);
    if (fresh) continue;
    problems.add(service.name.at, fmt::format("the name {} is already used by the service in line {}",
                                              service.name.value, first->second));
  }
}

// Both are far beyond real models.
constexpr std::size_t kAxesMax = 8;
constexpr std::int64_t kAxisMax = 1'000'000'000;

// The first reason why the tensor cannot be served, or an empty text. One variable axis at most: a request says only
// one size, so a second unknown length could not be resolved.
std::string why_wrong(const TensorSpec& spec, bool input) {
  if (spec.shape.size() > kAxesMax) return fmt::format("{} has more than {} axes", spec.name, kAxesMax);
  for (const std::int64_t axis : spec.shape) {
    if (axis == kVariableAxis || (axis >= 1 && axis <= kAxisMax)) continue;
    return fmt::format("an axis of {} must be -1 or a length from 1 to {}, not {}", spec.name, kAxisMax, axis);
  }
  if (!input && (spec.mask || spec.pad != 0))
    return fmt::format("{} is an output: only inputs can have pad and mask", spec.name);
  if (std::ranges::count(spec.shape, kVariableAxis) > 1)
    return fmt::format("{} has more than one axis of -1", spec.name);
  if (spec.mask && !has_variable_axis(spec)) return fmt::format("the mask {} needs an axis of -1", spec.name);
  if (spec.datatype == Datatype::bytes && (spec.mask || spec.pad != 0))
    return fmt::format("{} is BYTES: it cannot be a mask, and it is padded with empty strings", spec.name);
  if (spec.mask && spec.pad != 0)
    return fmt::format("the mask {} cannot have pad: it is 0 where there is padding", spec.name);
  return "";
}

// Names are unique within inputs and within outputs, axes make sense, and at least one input is the client's own.
void check_tensors(const Located<Signature>& tensors, Problems& problems) {
  const auto check = [&](const std::vector<TensorSpec>& specs, bool input) {
    std::map<std::string, int> seen;
    for (const auto& spec : specs) {
      if (const std::string wrong = why_wrong(spec, input); !wrong.empty()) problems.add(tensors.at, wrong);
      // Once for each name, however often it is repeated.
      if (++seen[spec.name] == 2) problems.add(tensors.at, fmt::format("the tensor {} is given twice", spec.name));
    }
  };
  check(tensors.value.inputs, true);
  check(tensors.value.outputs, false);
  // A mask is made from the lengths of the other inputs, so at least one must come from the client.
  const bool all_masks = std::ranges::all_of(tensors.value.inputs, &TensorSpec::mask);
  if (all_masks && !tensors.value.inputs.empty())
    problems.add(tensors.at, "every input is a mask; expected at least one that is not");
}

void check_services(const std::vector<ServiceRecord>& services, Problems& problems) {
  check_names(services, problems);
  for (const auto& service : services) {
    check_trace(service.input_size, service, "sizes", problems);
    check_trace(service.samples, service, "samples", problems);
    // A job counts rows, not requests, so samples for each request and a drift over time have no meaning for it.
    if (service.job.value && service.samples.at.line > 0) {
      problems.add(service.samples.at, "a service with a job cannot have samples: each row is one input");
    }
    if (service.job.value && service.size_drift)
      problems.add(service.size_drift->at, "a service with a job cannot have a drift of sizes");
    if (service.size_drift && std::holds_alternative<TraceSize>(service.size_drift->value.to)) {
      problems.add(service.size_drift->at, "sizes cannot drift to those of a trace; give a distribution");
    }
    // Axes of a tensor with a wrong value hold defaults, which would be reported as a second problem.
    if (service.tensors && !service.tensors->wrong) check_tensors(*service.tensors, problems);
    if (service.isolation == Isolation::tenant && service.tenant.value.empty() && !service.tenant.wrong) {
      problems.add(service.name.at, fmt::format("{} has isolation tenant and needs the name of its tenant",
                                                service.name.value.empty() ? "a service" : service.name.value));
    }
    if (largest_of(service.samples.value) > static_cast<std::int64_t>(kSamplesMax)) {
      problems.add(service.samples.at, fmt::format("samples must be at most {:.0f}", kSamplesMax));
    }
  }
}

// The traffic of a job is the constant rate that finishes its rows by the deadline.
Traffic traffic_of(ServiceRecord& record) {
  if (const auto& job = record.job.value)
    return ConstantTraffic{job->deadline > Duration::zero() ? job->rows_per_s() : 0};
  return record.traffic ? std::move(record.traffic->value) : Traffic{};
}

// A job has no Slo in the file. Its deadline serves as the latency, at the default percentile.
Slo slo_of(const ServiceRecord& record) {
  const auto& job = record.job.value;
  return job ? Slo{.latency = job->deadline} : record.slo.value_or(Slo{});
}

// Missing fields become defaults. If any was required, the problem has been reported and the result is discarded.
Service service_of(ServiceRecord record) {
  return {.name = std::move(record.name.value),
          .model = std::move(record.model),
          .slo = slo_of(record),
          .traffic = traffic_of(record),
          .input_size = std::move(record.input_size.value),
          .samples = std::move(record.samples.value),
          .padding = record.padding,
          .priority = record.priority,
          .tensors = record.tensors ? std::optional(std::move(record.tensors->value)) : std::nullopt,
          .size_drift = record.size_drift ? std::optional(std::move(record.size_drift->value)) : std::nullopt,
          .job = record.job.value,
          .weights = std::move(record.weights),
          .isolation = record.isolation,
          .tenant = std::move(record.tenant.value),
          .share_group = std::move(record.share_group),
          .engine = record.engine,
          .command = std::move(record.command),
          .remotes = std::move(record.remotes)};
}

// The inverse of service_of(): only what the file may hold for a job or for a service is set.
ServiceRecord record_of(const Service& service) {
  ServiceRecord record;
  record.name.value = service.name;
  record.model = service.model;
  record.job.value = service.job;
  if (!service.job) record.slo = service.slo;
  if (!service.job) record.traffic.emplace().value = service.traffic;
  record.input_size.value = service.input_size;
  record.samples.value = service.samples;
  record.padding = service.padding;
  record.priority = service.priority;
  if (service.tensors) record.tensors.emplace().value = *service.tensors;
  if (service.size_drift) record.size_drift.emplace().value = *service.size_drift;
  record.weights = service.weights;
  record.isolation = service.isolation;
  record.tenant.value = service.tenant;
  record.share_group = service.share_group;
  record.engine = service.engine;
  record.command = service.command;
  record.remotes = service.remotes;
  return record;
}

}  // namespace

namespace {

// Requires a record whose own values have been checked. The result is meaningful only if `problems` stays empty.
Workload finish(WorkloadRecord record, const ReadFile& read_file, Problems& problems) {
  FileLoader loader(read_file, problems);
  for (auto& service : record.services) loader.load(service);
  check_services(record.services, problems);
  Workload workload;
  for (auto& service : record.services) workload.services.push_back(service_of(std::move(service)));
  return workload;
}

}  // namespace

Result<Workload> parse_workload(const Source& source, const ReadFile& read_file) {
  Problems problems(source.name);
  const auto root = parse_yaml(source, problems);
  if (!root) return problems.error();
  WorkloadRecord record;
  read_document(*root, problems, record);
  Workload workload = finish(std::move(record), read_file, problems);
  if (!problems.empty()) return problems.error();
  return workload;
}

Workload read_services(const Node& list, const ReadFile& read_file, Problems& problems) {
  WorkloadRecord record;
  Reader(list, problems).read(list, "services", {.items_min = 1}, record.services);
  return finish(std::move(record), read_file, problems);
}

// `services` is the only field of the document.
Shape service_list_shape() { return shape_of<WorkloadRecord>().fields[0].shape; }

std::string write_workload(const Workload& workload) {
  WorkloadRecord record;
  for (const auto& service : workload.services) record.services.push_back(record_of(service));
  return to_yaml(write_document(record, Defaults::skip));
}

Shape services_shape() { return shape_of<WorkloadRecord>(); }

}  // namespace tangram::formats
