// `tangram controller`: puts Plan resources of Kubernetes into force.
//
// The decisions are in adapters/kubernetes; here are the options, the clock and the signals.

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "adapters/kubernetes/controller.h"
#include "adapters/kubernetes/kube_client.h"
#include "base/text.h"
#include "cli/program.h"
#include "formats/exports/naming.h"

namespace tangram::cli {
namespace controller_verb {
namespace {

struct Options {
  std::string server;
  std::string ca;
  std::string token_file;
  bool once = false;
  bool no_cuts = false;
  adapters::ControllerOptions controller;
};

volatile std::sig_atomic_t ended = 0;
void on_end(int) { ended = 1; }

// RFC 3339 in UTC with microseconds, as a Lease has it.
std::string time_of_day() {
  const auto now = std::chrono::system_clock::now();
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(now - day).count();
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), us / 3'600'000'000,
                     us / 60'000'000 % 60, us / 1'000'000 % 60, us % 1'000'000);
}

// "https://HOST:PORT", or "http://..." as `kubectl proxy` offers it.
Result<adapters::KubeServer> read_server(const std::string& text) {
  adapters::KubeServer server;
  std::string_view rest = text;
  if (rest.starts_with("http://")) {
    server.tls = false;
    rest.remove_prefix(7);
  } else if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else {
    return invalid_input(fmt::format("--server {}: expected https://HOST:PORT or http://HOST:PORT", text));
  }
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const auto colon = rest.rfind(':');
  const bool has_port = colon != std::string_view::npos && rest.find(']', colon) == std::string_view::npos;
  if (has_port) {
    const auto port = text::parse_integer(rest.substr(colon + 1));
    if (!port || *port < 1 || *port > 65'535) {
      return invalid_input(fmt::format("--server {}: {} is no port", text, rest.substr(colon + 1)));
    }
    server.port = static_cast<std::uint16_t>(*port);
    rest = rest.substr(0, colon);
  } else if (!server.tls) {
    server.port = 80;
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  if (rest.empty() || rest.find('/') != std::string_view::npos) {
    return invalid_input(fmt::format("--server {}: expected https://HOST:PORT without a path", text));
  }
  server.host = rest;
  return server;
}

struct Place {
  adapters::KubeServer server;
  std::string name_space;
};

Result<Place> place_of(const Options& options) {
  Place place;
  place.name_space = options.controller.cluster.name_space;
  if (options.server.empty()) {
    TANGRAM_TRY(auto found, adapters::in_cluster());
    place.server = std::move(found.server);
    if (place.name_space.empty()) place.name_space = found.name_space;
  } else {
    TANGRAM_TRY(place.server, read_server(options.server));
    place.server.authorities_file = options.ca;
    place.server.token_file = options.token_file;
    // A token in clear text is everybody's.
    if (!place.server.tls && !options.token_file.empty()) {
      return invalid_input("--token-file needs https: over http the token could be read on the way");
    }
    if (place.name_space.empty()) place.name_space = "default";
  }
  if (formats::exports::dns_label(place.name_space) != place.name_space) {
    return invalid_input(fmt::format("--namespace {}: expected letters a-z, digits and dashes", place.name_space));
  }
  return place;
}

report::Json counts_json(const adapters::ControllerCounts& counts) {
  return {{"requests", counts.requests},   {"lists", counts.lists},         {"watches", counts.watches},
          {"applies", counts.applies},     {"deletes", counts.deletes},     {"status_writes", counts.status_writes},
          {"renewals", counts.renewals},   {"conflicts", counts.conflicts}, {"expired", counts.expired},
          {"refused", counts.refused},     {"failures", counts.failures}};
}

Result<ExitCode> run(Session& session, const Options& options) {
  TANGRAM_TRY(const auto place, place_of(options));
  TANGRAM_TRY(const auto api, adapters::connect_to_kubernetes(place.server));
  adapters::ControllerOptions chosen = options.controller;
  chosen.cluster.name_space = place.name_space;
  chosen.cluster.cuts = !options.no_cuts;
  if (chosen.identity.empty()) {
    const char* host = std::getenv("HOSTNAME");
    chosen.identity = fmt::format("{}-{}", host == nullptr ? "tangram" : host, std::chrono::steady_clock::now().time_since_epoch().count());
  }
  ended = 0;
  struct sigaction action {};
  action.sa_handler = on_end;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  const auto say = [&](const std::string& line) {
    if (session.structured()) {
      session.print_value({{"event", line}}, true);
    } else {
      session.print(line + "\n");
    }
    session.out.flush();
  };
  adapters::Controller controller(chosen, *api, time_of_day, say);
  const auto begin = std::chrono::steady_clock::now();
  const auto since = [&]() -> Duration { return std::chrono::steady_clock::now() - begin; };
  constexpr Duration kPatience = std::chrono::milliseconds(100);
  while (ended == 0 && !(options.once && controller.settled())) {
    // Watches are looked at ten times a second: an event is seen within that.
    std::this_thread::sleep_for(std::min(controller.step(since()), kPatience));
  }
  controller.resign(since());
  if (session.structured()) {
    session.print_value(counts_json(controller.counts()), true);
  } else {
    session.note(fmt::format("{} requests in {:.1f} s", controller.counts().requests, to_seconds(since())));
  }
  return ExitCode::done;
}

}  // namespace
}  // namespace controller_verb

void add_controller(Program& program) {
  using namespace controller_verb;
  const auto options = std::make_shared<Options>();
  options->controller.identity.clear();
  auto& cluster = options->controller.cluster;
  cluster.name_space.clear();
  cluster.join = "tangram-gateway:8003";
  Arguments& verb = program.add_verb(
      {.name = "controller",
       .group = "Serve",
       .summary = "put Plan resources of Kubernetes into force",
       .description =
           "Runs in a pod of the cluster (`tangram export kubernetes --gateway` writes the manifests). For each `Plan` "
           "resource of its namespace it orders the cuts of the nodes, and runs one pod on each slice, which claims "
           "the slice by its UUID through dynamic resource allocation and joins the gateway at --join. Disruption "
           "budgets follow from the annotation tangram.dev/spare: one_device. The conditions of the Plan say what it "
           "waits for. It does not cut where the GPU operator's MIG manager is in charge. Of several replicas one "
           "leads. Outside of a cluster, --server names the API server.",
       .examples = {{"tangram controller", "In a pod."},
                    {"tangram controller --server http://127.0.0.1:8001 --namespace serving",
                     "Through `kubectl proxy`."}}},
      [options](Session& session) { return run(session, *options); });
  verb.add_option("--server", options->server, "The API server; default: that of the cluster in which this is a pod.")->type_name("URL");
  program.offers_files(verb.add_option("--ca", options->ca, "With --server: the authorities to trust.")->type_name("FILE"));
  program.offers_files(verb.add_option("--token-file", options->token_file, "With --server: the token, read again for each request.")->type_name("FILE"));
  verb.add_option("--namespace", cluster.name_space, "The namespace; default: that of the pod.")->type_name("NAME");
  verb.add_option("--identity", options->controller.identity, "Who holds the lease; default: the name of the host.")->type_name("NAME");
  verb.add_option("--join", cluster.join, "The gateway's node port.")->type_name("HOST:PORT")->capture_default_str();
  verb.add_option("--image", cluster.image, "The image of the pods.")->type_name("IMAGE")->capture_default_str();
  verb.add_option("--models-claim", cluster.models_claim, "The PersistentVolumeClaim with the models; empty: none.")->type_name("NAME")->capture_default_str();
  verb.add_option("--node-account", cluster.service_account, "The service account of the pods.")->type_name("NAME")->capture_default_str();
  program.whole_number(verb.add_option("--cpus", cluster.cpus, "Cores that a pod asks for.")->type_name("N")->capture_default_str(), 1, 1024);
  program.whole_number(verb.add_option("--memory-mb", cluster.memory_mb, "Memory that a pod asks for and may use.")->type_name("N")->capture_default_str(), 64, 16'000'000);
  verb.add_flag("--no-cuts", options->no_cuts, "Order no cuts: somebody else makes them.");
  verb.add_flag("--once", options->once, "End when everything is written that can be.");
}

}  // namespace tangram::cli
