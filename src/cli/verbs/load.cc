// `tangram load`: sends requests to a server and reports which of them were answered within the Slo.
//
// An open loop is the default. Each request is due at an instant drawn in advance, and its latency counts from that
// instant, so a slow server cannot slow the load down and thereby look better (coordinated omission). With --clients
// the load is a closed loop, which measures throughput and hides queueing. Arrivals come from the simulator's own
// source, so `tangram load` and `tangram simulate` with one seed see the same requests. The file has three parts: which
// requests are sent, how the run is driven, and how the answers are summarised.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/text.h"
#include "cli/build_info.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/program.h"
#include "cli/server_options.h"
#include "client/http_client.h"
#include "client/load.h"
#include "client/load_schedule.h"
#include "client/offline_rows.h"
#include "core/day.h"
#include "host/files.h"
#include "host/prompt_thread.h"
#include "report/load_report.h"
#include "report/number_text.h"
#include "report/table.h"
#include "sim/arrivals.h"

namespace tangram::cli {
namespace load_verb {
namespace {

// All requests of a run are in memory before the first is sent. One hour at 2,000 requests/s is 7.2 million.
constexpr std::size_t kRequestsMax = 8'000'000;

// Options in the units of the command line; config_of() converts them.
struct Options {
  std::string services;
  std::vector<std::string> only;
  std::string model;
  double rate_per_s = 10;
  std::string size = "1";
  double slo_ms = 100;
  // Over which protocol requests go: "http", "grpc" or "both".
  std::string protocol = "http";
  double seconds = 20;
  double rate_scale = 1;
  double speed = 1;         // How many times as fast the day passes.
  double begin_s = 0;       // The time of the day, before the speed, at which the load begins.
  std::size_t clients = 0;  // Of a closed loop; 0 means an open loop.
  std::uint64_t requests = 1000;
  std::uint64_t seed = 1;
  std::string html;
  int http_port = 8000;
  int grpc_port = 8001;
  std::size_t connections_max = 512;
  double answer_timeout_s = 30;
  CallerOptions caller;
  client::LoadConfig config;
};

// ---- Which requests are sent ----

// Parses --size: "64" for a constant, "log-normal:48,0.7,512" for a median, a sigma and a maximum. Sizes are at most
// 1e9, which also keeps the conversion to an integer exact.
Result<SizeDistribution> parse_size(const std::string& text) {
  const Error wrong = invalid_input(fmt::format("--size {}: expected a number, or log-normal:MEDIAN,SIGMA,MAX", text));
  if (!text.starts_with("log-normal:")) {
    const auto size = text::parse_number(text);
    if (!size || *size < 1 || *size > 1e9) return wrong;
    return SizeDistribution(ConstantSize{static_cast<std::int64_t>(*size)});
  }
  const auto parts = text::split(std::string_view(text).substr(text.find(':') + 1), ',');
  if (parts.size() != 3) return wrong;
  const auto median = text::parse_number(parts[0]);
  const auto sigma = text::parse_number(parts[1]);
  const auto max = text::parse_number(parts[2]);
  // A sigma of 0 is allowed and makes every size equal to the median.
  if (!median || !sigma || !max || *median < 1 || *sigma < 0 || *max < 1 || *max > 1e9) return wrong;
  return SizeDistribution(
      LogNormalSize{.median = *median, .sigma = *sigma, .min = 1, .max = static_cast<std::int64_t>(*max)});
}

// Adds the credentials: the bearer token to the headers, and the TLS material if any TLS option is given.
Result<Nothing> introduce(const CallerOptions& caller, client::LoadConfig& config) {
  TANGRAM_TRY(const auto key, caller.key());
  if (!key.empty()) config.headers.push_back("Authorization: Bearer " + key);
  if (!caller.wants_tls()) return Nothing{};
  TANGRAM_TRY(auto material, caller.tls_material());
  config.tls = std::move(material);
  config.server_name = caller.server_name;
  return Nothing{};
}

// Asks for the metadata of the model. The question goes to the inference port: a server of another vendor has no
// metrics port that we know.
Result<std::vector<TensorSpec>> ask_inputs_by_http(const Options& options) {
  ServerOptions server;
  server.address = options.config.address;
  server.port = options.http_port;
  server.caller = options.caller;
  TANGRAM_TRY(const auto question, server.question("GET", "/v2/models/" + options.model));
  TANGRAM_TRY(const auto answer, client::ask_http(question));
  if (answer.status != 200) {
    return Error{ErrorCode::not_found, fmt::format("{}: the server does not have this model: {} {}", options.model,
                                                   answer.status, answer.body.substr(0, 200))};
  }
  return client::read_model_inputs(answer.body);
}

// The configuration of the run without its callbacks. In a closed loop the number of connections is the number of
// clients: all requests are due at once, and each waits for a free connection, which is what a client does.
Result<client::LoadConfig> config_of(const Options& options) {
  client::LoadConfig config = options.config;
  config.http_port = static_cast<std::uint16_t>(options.http_port);
  config.grpc_port = static_cast<std::uint16_t>(options.grpc_port);
  config.connections_max = options.clients > 0 ? options.clients : options.connections_max;
  config.answer_timeout = from_seconds(options.answer_timeout_s);
  config.seed = options.seed;
  TANGRAM_RETURN_IF_ERROR(introduce(options.caller, config));
  return config;
}

// Asks the server which inputs the model takes, over the protocol of the load: the server may not listen on the other
// port. Inputs of BYTES are an error, because their type does not say which bytes the model accepts.
Result<Signature> ask_signature(const Options& options) {
  TANGRAM_TRY(const auto config, config_of(options));
  TANGRAM_TRY(auto inputs, options.protocol == "grpc" ? client::ask_inputs_by_grpc(config, options.model)
                                                      : ask_inputs_by_http(options));
  for (const auto& input : inputs) {
    if (input.datatype != Datatype::bytes) continue;
    return invalid_input(fmt::format("{}: cannot generate the input {}: its type is BYTES", options.model, input.name));
  }
  return Signature{std::move(inputs), {}};
}

// A workload of one service, from --model, --rate, --size and --slo-ms. Its traffic is Poisson and its Slo is a p99.
Result<Workload> single_model(const Options& options) {
  TANGRAM_TRY(auto size, parse_size(options.size));
  TANGRAM_TRY(auto signature, ask_signature(options));
  // Model and service have the same name: the server knows only models, and tables show services.
  Service service;
  service.name = options.model;
  service.model = options.model;
  service.slo = {.latency = from_milliseconds(options.slo_ms), .percentile = 99};
  service.traffic = PoissonTraffic{options.rate_per_s};
  service.input_size = size;
  service.tensors = std::move(signature);
  Workload workload;
  workload.services.push_back(std::move(service));
  return workload;
}

// The services to send to: those of the file, reduced to --only, or the single model. An unknown name in --only is an
// error; otherwise a misspelt service would simply not be tested.
Result<Workload> workload_of(const Options& options) {
  if (options.services.empty() == options.model.empty()) {
    return invalid_input("expected --services FILE or --model NAME, to know what to send");
  }
  if (!options.model.empty()) return single_model(options);
  auto workload = load_workload(options.services);
  if (!workload || options.only.empty()) return workload;
  std::vector<std::string> names;
  for (const auto& service : workload->services) names.push_back(service.name);
  for (const auto& name : options.only) {
    if (std::ranges::find(names, name) == names.end()) {
      return invalid_input(fmt::format("--only {}: not a service of {}; its services are {}", name, options.services,
                                       fmt::join(names, ", ")));
    }
  }
  // Erasing keeps the order of the file, and with it the order of the rows in the table.
  std::erase_if(workload->services, [&](const Service& service) {
    return std::ranges::find(options.only, service.name) == options.only.end();
  });
  return workload;
}

// The arrivals of the service at this index, the same as the simulator draws for the same seed and index. The source is
// shared because std::function must be copyable. `begin_s` is the time of the day at which they begin.
client::LoadArrivals arrivals_of(const Service& service, const Rng& rng, std::size_t index, double rate_scale,
                                 double begin_s) {
  const auto source = std::make_shared<sim::ArrivalSource>(service, rng, index, rate_scale, begin_s);
  return [source]() -> std::optional<client::LoadArrival> {
    const auto arrival = source->next();
    if (!arrival) return std::nullopt;
    return client::LoadArrival{.at = arrival->at - TimePoint{}, .size = arrival->size, .samples = arrival->samples};
  };
}

// A closed-loop service has no arrival times: its next request depends on the last answer. An open loop cannot send it.
Result<Nothing> check_open(const Workload& workload) {
  for (const auto& service : workload.services) {
    if (!std::holds_alternative<ClosedLoopTraffic>(service.traffic)) continue;
    return invalid_input(fmt::format("{}: its traffic is a closed loop, but this load is an open loop", service.name));
  }
  return Nothing{};
}

Result<std::vector<client::LoadRequest>> requests_of(const Options& options, const Workload& workload) {
  const Rng rng(options.seed);
  // A closed loop ignores arrival times and uses only the sizes, so scaling the rate would have no effect.
  const bool closed = options.clients > 0;
  if (!closed) {
    TANGRAM_RETURN_IF_ERROR(check_open(workload));
  }
  // The index of a service is part of its random stream, so removing a service with --only changes the draws of those
  // behind it.
  std::vector<client::LoadArrivals> arrivals;
  for (std::size_t i = 0; i < workload.services.size(); ++i) {
    arrivals.push_back(
        arrivals_of(workload.services[i], rng, i, closed ? 1.0 : options.rate_scale, options.begin_s / options.speed));
  }
  auto requests =
      closed ? client::requests_at_once(arrivals, options.requests)
             : client::requests_as_due(arrivals, client::parse_load_mix(options.protocol),
                                       {.length = from_seconds(options.seconds), .requests_max = kRequestsMax});
  // Zero requests would make an empty table in which every Slo is kept.
  if (requests && requests->empty()) return invalid_input("no request is due in that time");
  return requests;
}

// A service that receives no request has broken no promise, so its Slo counts as kept. Warn, because the user would
// read that as a result.
void warn_of_silence(Session& session, const Workload& workload, const std::vector<client::LoadRequest>& requests) {
  for (std::size_t i = 0; i < workload.services.size(); ++i) {
    const auto its = [&](const client::LoadRequest& request) { return request.target == i; };
    if (std::ranges::any_of(requests, its)) continue;
    const Service& service = workload.services[i];
    const auto* trace = std::get_if<TraceTraffic>(&service.traffic);
    session.warn(fmt::format(
        "{}: {}; no requests are sent to it", service.name,
        trace != nullptr && trace->trace.empty() ? "its trace has no requests" : "no request is due in that time"));
  }
}

// ---- Results ----

// The room `report` does not depend on `client`, so outcomes are translated here.
report::LoadEnd end_of(client::LoadOutcome outcome) {
  switch (outcome) {
    case client::LoadOutcome::answered: return report::LoadEnd::answered;
    case client::LoadOutcome::refused: return report::LoadEnd::refused;
    case client::LoadOutcome::failed: return report::LoadEnd::failed;
    case client::LoadOutcome::unanswered: return report::LoadEnd::unanswered;
  }
  return report::LoadEnd::unanswered;
}

// Requests that an interrupt left unsent are dropped: the server never saw them, so they are neither late nor failed.
std::vector<report::LoadSample> samples_of(const std::vector<client::LoadRequest>& requests,
                                           const client::LoadResult& result) {
  std::vector<report::LoadSample> samples;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const client::LoadAnswer& answer = result.answers[i];
    if (!answer.sent) continue;
    samples.push_back({.service = requests[i].target,
                       .at_s = to_seconds(requests[i].at),
                       .latency = answer.latency,
                       .sent_after = answer.sent_after,
                       .end = end_of(answer.outcome)});
  }
  return samples;
}

// Sketches hold nanoseconds.
double quantile_ms(const QuantileSketch& sketch, double q) { return 1e-6 * static_cast<double>(sketch.quantile(q)); }

// Colour marks whether the share in time reaches the percentile of the Slo.
std::string load_table(const Workload& workload, const report::LoadReport& report, const Terminal& terminal) {
  report::Table table({{"SERVICE"},
                       {"PROMISE", report::Align::right},
                       {"SENT", report::Align::right},
                       {"/S", report::Align::right},
                       {"IN TIME", report::Align::right},
                       {"IN TIME /S", report::Align::right},
                       {"P50 MS", report::Align::right},
                       {"P95 MS", report::Align::right},
                       {"P99 MS", report::Align::right},
                       {"LATE", report::Align::right},
                       {"REFUSED", report::Align::right},
                       {"FAILED", report::Align::right}});
  for (std::size_t i = 0; i < workload.services.size(); ++i) {
    const Service& service = workload.services[i];
    const report::LoadTally& tally = report.services[i];
    table.add({{service.name, Style::accent},
               fmt::format("{:g} ms, {:g} %", to_milliseconds(service.slo.latency), service.slo.percentile),
               fmt::to_string(tally.sent),
               fmt::format("{:.1f}", report.per_second(tally.sent)),
               {tally.in_time_text(), tally.sent == 0                            ? Style::plain
                                      : report::LoadReport::kept(service, tally) ? Style::good
                                                                                 : Style::bad},
               fmt::format("{:.1f}", report.per_second(tally.in_time)),
               report::quantile_ms_text(tally.latency, 0.5),
               report::quantile_ms_text(tally.latency, 0.95),
               report::quantile_ms_text(tally.latency, 0.99),
               fmt::to_string(tally.late),
               fmt::to_string(tally.refused),
               fmt::to_string(tally.failed + tally.unanswered)});
  }
  return table.render(terminal);
}

// The table adds unanswered requests to the failed ones; the document keeps them apart.
report::Json tally_json(const report::LoadTally& tally, const report::LoadReport& report) {
  return {{"sent", tally.sent},
          {"in_time", tally.in_time},
          {"late", tally.late},
          {"refused", tally.refused},
          {"failed", tally.failed},
          {"unanswered", tally.unanswered},
          {"in_time_share", tally.sent == 0 ? report::Json(nullptr) : report::Json(tally.in_time_share())},
          {"sent_per_s", report.per_second(tally.sent)},
          {"in_time_per_s", report.per_second(tally.in_time)},
          {"latency_mean_ms", 1e-6 * tally.latency.mean()},
          {"latency_p50_ms", quantile_ms(tally.latency, 0.5)},
          {"latency_p90_ms", quantile_ms(tally.latency, 0.9)},
          {"latency_p95_ms", quantile_ms(tally.latency, 0.95)},
          {"latency_p99_ms", quantile_ms(tally.latency, 0.99)},
          {"latency_max_ms", 1e-6 * static_cast<double>(tally.latency.max())},
          {"client_late_p99_ms", quantile_ms(tally.sent_after, 0.99)}};
}

// Names program, commit and seed, so that a result can be reproduced.
report::Json load_json(const Options& options, const Workload& workload, const report::LoadReport& report) {
  const BuildInfo build = build_info();
  report::Json json{{"program", "tangram " + build.version},
                    {"commit", build.commit},
                    {"seed", options.seed},
                    {"protocol", options.protocol},
                    {"rate_scale", options.rate_scale},
                    {"speed", options.speed},
                    {"begin_s", options.begin_s},
                    {"seconds", report.seconds},
                    {"total", tally_json(report.total, report)},
                    {"services", report::Json::array()}};
  for (std::size_t i = 0; i < workload.services.size(); ++i) {
    const Service& service = workload.services[i];
    report::Json one{{"name", service.name},
                     {"slo_latency_ms", to_milliseconds(service.slo.latency)},
                     {"slo_percentile", service.slo.percentile},
                     {"kept", report::LoadReport::kept(service, report.services[i])}};
    one.update(tally_json(report.services[i], report));
    json["services"].push_back(std::move(one));
  }
  return json;
}

// Warns if this client was a bottleneck. Latency counts from the due instant, so the client's own delay is part of it.
// The warning needs a p99 delay above 5 ms and above a fifth of the median latency: less does not change a conclusion.
void warn_of_client(Session& session, const report::LoadReport& report) {
  const double late_ms = quantile_ms(report.total.sent_after, 0.99);
  const double median_ms = quantile_ms(report.total.latency, 0.5);
  if (late_ms > 5 && late_ms > 0.2 * median_ms) {
    session.warn(fmt::format(
        "this client itself sent late, by {:.3g} ms at the 99th percentile; the latencies include this delay",
        late_ms));
  }
}

// The page shows the load over time, so it needs the samples and not only their summary.
Result<Nothing> write_page(const Options& options, const Workload& workload,
                           const std::vector<report::LoadSample>& samples, const report::LoadReport& report) {
  const BuildInfo build = build_info();
  const report::ReportHead head{"tangram " + build.version, build.commit, "", options.seed};
  return host::write_file_atomically(options.html, report::load_html(head, "Load", workload, samples, report));
}

// Runs the load with Ctrl-C turned into a stop: the requests sent so far are still reported.
Result<client::LoadResult> drive(Session& session, const Options& options, const Workload& workload,
                                 const std::vector<client::LoadRequest>& requests, bool& interrupted) {
  std::vector<client::LoadTarget> targets;
  for (const auto& service : workload.services) targets.push_back({service.name, service.signature()});
  // The guard comes first, so that Ctrl-C during the preparation is a stop as well.
  const InterruptGuard guard;
  Progress progress = session.progress("sending", requests.size());
  TANGRAM_TRY(auto made, config_of(options));
  client::LoadConfig& config = made;
  // With both protocols every other request goes over HTTP, and only the HTTP sender reports how many it has sent.
  config.progress = [&](std::size_t sent) { progress.set(sent * (options.protocol == "both" ? 2 : 1)); };
  config.interrupted = [&] { return guard.interrupted(); };
  // Beside programs that compute, requests would be sent late and answers be read late: it is the server that is
  // measured.
  host::wake_promptly();
  auto result = client::run_load(targets, requests, config);
  interrupted = guard.interrupted();
  return result;
}

// Rewrites samples for a closed loop. There all requests are due at zero, so the time until a request was sent is the
// wait for a free client and not latency. Ensures that samples are in order of sending. Returns the length of the run
// in seconds.
double close_loop(std::vector<report::LoadSample>& samples) {
  double end_s = 0;
  for (auto& sample : samples) {
    end_s = std::max(end_s, to_seconds(sample.latency));
    sample.at_s = to_seconds(sample.sent_after);
    sample.latency -= sample.sent_after;
    sample.sent_after = {};
  }
  std::ranges::stable_sort(samples, {}, &report::LoadSample::at_s);
  return end_s;
}

// For scripts that use the verb as a test. A broken Slo is an answer; a request that failed or was
// never answered says that the server could not be asked, not that it was too slow.
ExitCode verdict(const Workload& workload, const report::LoadReport& report) {
  bool kept = true;
  for (std::size_t i = 0; i < workload.services.size(); ++i) {
    kept = kept && report::LoadReport::kept(workload.services[i], report.services[i]);
  }
  if (kept) return ExitCode::done;
  return report.total.failed + report.total.unanswered > 0 ? ExitCode::no_access : ExitCode::answer_is_no;
}

Result<ExitCode> run(Session& session, const Options& options) {
  // gRPC multiplexes requests over one connection, so connections cannot stand for clients there.
  if (options.clients > 0 && options.protocol != "http")
    return session.fail(invalid_input("--clients needs --protocol http"));
  // Check before the run that the page can be written: a load of an hour must not end in a wrong path.
  TANGRAM_RETURN_IF_ERROR(host::check_outputs({{"--html", options.html}}, {options.services}));
  TANGRAM_TRY(auto day, workload_of(options));
  const Workload workload = at_speed(std::move(day), options.speed);
  TANGRAM_TRY(const auto requests, requests_of(options, workload));
  warn_of_silence(session, workload, requests);
  bool interrupted = false;
  TANGRAM_TRY(const auto result, drive(session, options, workload, requests, interrupted));
  auto samples = samples_of(requests, result);
  // Rates are per second of load. After an interrupt the load ended at the last request that was sent.
  double seconds = interrupted && !samples.empty() ? samples.back().at_s : options.seconds;
  if (options.clients > 0) seconds = close_loop(samples);
  const auto report = report::summarise_load(workload, samples, seconds);
  if (session.structured()) {
    session.print_value(load_json(options, workload, report));
  } else {
    session.print(load_table(workload, report, session.terminal));
  }
  if (!result.first_failure.empty()) session.note("the first failure: " + result.first_failure);
  warn_of_client(session, report);
  if (!options.html.empty()) {
    // The table is printed before the page is written, so a failure here does not lose the result.
    if (const auto written = write_page(options, workload, samples, report); !written)
      return session.fail(written.error());
    session.remark(fmt::format("{}: the same results with pictures\n", options.html));
  }
  // An interrupted run has no verdict on the Slos, even though its table was printed.
  if (interrupted) return ExitCode::interrupted;
  return verdict(workload, report);
}

// The options that say which requests are sent.
void add_what(Program& program, Arguments& verb, Options& options) {
  program.offers_files(
      verb.add_option("--services", options.services,
                      "The services file: the names, tensors, promises, traffic and input sizes to send.")
          ->type_name("FILE"));
  verb.add_option("--only", options.only, "Send requests only to these services.")->type_name("LIST")->delimiter(',');
  verb.add_option("--model", options.model, "Instead of a file: one model. Its inputs are read from the server.")
      ->type_name("NAME");
  verb.add_option("--rate", options.rate_per_s, "With --model: the rate in requests a second, Poisson.")
      ->type_name("R")
      ->capture_default_str()
      ->range(1e-6, 1e6);
  verb.add_option("--size", options.size, "With --model: the input size, a number or log-normal:MEDIAN,SIGMA,MAX.")
      ->type_name("SIZE")
      ->capture_default_str();
  verb.add_option("--slo-ms", options.slo_ms, "With --model: the latency promised for 99 % of the requests.")
      ->type_name("MS")
      ->capture_default_str()
      ->range(1e-3, 1e9);
}

// The options that say how requests are sent, and to which server.
void add_how(Program& program, Arguments& verb, Options& options) {
  program.one_of(verb.add_option("--protocol", options.protocol, "http, grpc, or both in turn.")
                     ->type_name("P")
                     ->capture_default_str(),
                 {"http", "grpc", "both"});
  verb.add_option("--seconds", options.seconds, "How long to send requests.")
      ->type_name("S")
      ->capture_default_str()
      ->range(0.01, 1e6);
  verb.add_option("--clients", options.clients,
                  "Use a closed loop: this many clients, each of which sends its next request when it has an answer.")
      ->type_name("N")
      ->range(1, 60'000);
  verb.add_option("--requests", options.requests, "With --clients: the total number of requests.")
      ->type_name("N")
      ->capture_default_str()
      ->range(1, 8'000'000);
  verb.add_option("--rate-scale", options.rate_scale, "Multiply every rate, and play traces faster.")
      ->type_name("X")
      ->capture_default_str()
      ->range(1e-6, 1e6);
  verb.add_option("--speed", options.speed,
                  "Let the day pass so many times as fast: divides the steps of rate curves, diurnal periods and size "
                  "drift. Rates, promises, bursts, traces and --seconds stay as they are.")
      ->type_name("X")
      ->capture_default_str()
      ->range(1e-3, 1e4);
  verb.add_option(
          "--begin", options.begin_s,
          "The time of the day at which the load begins, in seconds of the day before --speed. For rate curves, "
          "diurnal rates and size drift; a trace begins with its first request.")
      ->type_name("S")
      ->capture_default_str()
      ->range(0.0, 1e9);
  verb.add_option("--seed", options.seed, "The seed of arrivals, sizes and tensors.")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--address", options.config.address, "The server: a name or an IP address.")
      ->type_name("HOST")
      ->capture_default_str();
  program.whole_number(
      verb.add_option("--http-port", options.http_port, "The HTTP port of the server.")->type_name("N"), 1, 65535);
  program.whole_number(
      verb.add_option("--grpc-port", options.grpc_port, "The gRPC port of the server.")->type_name("N"), 1, 65535);
  verb.add_option("--connections-max", options.connections_max,
                  "The largest number of HTTP connections; a request that finds none free waits.")
      ->type_name("N")
      ->capture_default_str()
      ->range(1, 60'000);
  verb.add_option("--answer-timeout", options.answer_timeout_s, "How long to wait for the last answers.")
      ->type_name("S")
      ->capture_default_str()
      ->range(0.0, 1e5);
  verb.add_option("--header", options.config.headers,
                  "A header to send with every request, \"Name: value\". May be repeated.")
      ->type_name("TEXT");
  add_caller_options(program, verb, options.caller);
  program.offers_files(verb.add_option("--html", options.html, "Also write a page with pictures.")->type_name("FILE"));
}

}  // namespace
}  // namespace load_verb

void add_load(Program& program) {
  using namespace load_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "load",
       .group = "Serve",
       .summary = "send requests to a server and report which were answered in time",
       .description =
           "Sends requests to any server of the Open Inference Protocol v2, over HTTP or gRPC, and prints for each "
           "service how many were answered within its promise. The load is an open loop: each request is sent when "
           "it is due, even if earlier ones have no answer yet, and its latency counts from that time, so a slow "
           "server cannot slow the load down and look better. Arrivals (Poisson, bursts, curves, recorded traces) "
           "and input sizes come from the services file, and are those that `tangram simulate` draws for the same "
           "seed; tensors hold random numbers. With --clients the load is a closed loop, which finds the throughput "
           "of a server but hides its queues. Exit code 1: a promise was broken, although every request was "
           "answered or rejected; 3: a promise was broken, and requests failed or were not answered.",
       .examples =
           {{"tangram load --services examples/serving/services.yaml --seconds 10",
             "Send the load of the file to a server on the default ports."},
            {"tangram load --services examples/serving/services.yaml --protocol both --rate-scale 2 --html load.html",
             "Twice the rate, half of it over gRPC, with a page of results."},
            {"tangram load --model rank-answers --rate 50 --size log-normal:48,0.7,512 --slo-ms 120",
             "Test one model of a server without a services file."},
            {"tangram load --model rank-answers --size 64 --clients 8 --requests 5000",
             "Test as fast as eight clients can send one request after another."}}},
      [options](Session& session) { return run(session, *options); });
  add_what(program, verb, *options);
  add_how(program, verb, *options);
}

}  // namespace tangram::cli
