// `tangram status`: how a running server stands.

#include <fmt/format.h>

#include "cli/program.h"
#include "cli/table.h"
#include "serve/http_client.h"

namespace tangram::cli {
namespace {

struct Options {
  std::string address = "127.0.0.1";
  int port = 8002;
};

std::string services_table(const Json& services, const Terminal& terminal) {
  Table table({{"service"},
               {"SLO ms", Align::right},
               {"kept", Align::right},
               {"served", Align::right},
               {"late", Align::right},
               {"rejected", Align::right},
               {"failed", Align::right},
               {"waiting", Align::right},
               {"mean ms", Align::right},
               {"batch", Align::right},
               {"slices", Align::right}});
  for (const auto& s : services) {
    const auto count = [&](const char* key) { return fmt::format("{}", s.at(key).get<std::uint64_t>()); };
    table.add({s.at("name").get<std::string>(), fmt::format("{:g}", s.at("slo_ms").get<double>()),
               fmt::format("{:.1f} %", 100 * s.at("slo_attainment_last_minute").get<double>()), count("served"),
               count("late"), count("rejected"), count("failed"), count("waiting"),
               fmt::format("{:.2f}", s.at("latency_mean_ms").get<double>()),
               fmt::format("{:.1f}", s.at("batch_mean").get<double>()), count("slices")});
  }
  return table.render(terminal);
}

std::string slices_table(const Json& slices, const Terminal& terminal) {
  Table table({{"slice"},
               {"status"},
               {"serves"},
               {"busy", Align::right},
               {"batches", Align::right},
               {"restarts", Align::right}});
  for (const auto& s : slices) {
    std::string serves;
    for (const auto& name : s.at("serves")) serves += (serves.empty() ? "" : ", ") + name.get<std::string>();
    table.add({s.at("slice").get<std::string>(), s.at("status").get<std::string>(), serves,
               fmt::format("{:.1f} %", 100 * s.at("busy_share").get<double>()),
               fmt::format("{}", s.at("batches").get<std::uint64_t>()),
               fmt::format("{}", s.at("restarts").get<std::uint64_t>())});
  }
  return table.render(terminal);
}

void print(Session& session, const Json& status) {
  const char* how = status.at("draining").get<bool>() ? "draining"
                    : status.at("ready").get<bool>()  ? "ready"
                                                      : "not ready";
  session.print(fmt::format("{} for {:.0f} s, {} requests in flight, {} connections, {} plan changes{}\n\n", how,
                            status.at("up_s").get<double>(), status.at("in_flight").get<std::uint64_t>(),
                            status.at("connections").get<std::uint64_t>(),
                            status.at("plan_changes").get<std::uint64_t>(),
                            status.at("plan_moving").get<bool>() ? ", one under way" : ""));
  session.print(services_table(status.at("services"), session.terminal) + "\n");
  session.print(slices_table(status.at("slices"), session.terminal));
}

ExitCode run(Session& session, const Options& options) {
  const auto answer = serve::ask_http(
      {.address = options.address, .port = static_cast<std::uint16_t>(options.port), .path = "/status"});
  if (!answer) return session.fail(answer.error());
  const Json status = Json::parse(answer->body, nullptr, false);
  if (answer->status != 200 || !status.is_object() || !status.contains("services")) {
    return session.fail({ErrorCode::unavailable, fmt::format("{}:{}: not the metrics port of a Tangram server",
                                                             options.address, options.port)});
  }
  if (session.structured()) {
    session.print_value(status);
  } else {
    print(session, status);
  }
  return ExitCode::done;
}

}  // namespace

void add_status(Program& program) {
  const auto options = std::make_shared<Options>();
  CLI::App& verb = program.add_verb(
      {.name = "status",
       .group = "Serve",
       .summary = "how a running server stands",
       .description = "Asks a running `tangram serve` at its metrics port, and prints its services with their promises "
                      "of the last minute, and its slices with their load.",
       .examples = {{"tangram status", "The server on this machine."},
                    {"tangram status --output json --port 18002", "As a value, from another port."}}},
      [options](Session& session) { return run(session, *options); });
  verb.add_option("--address", options->address, "Of the server, in numbers.")->type_name("IP");
  program.whole_number(verb.add_option("--port", options->port, "Its metrics port.")->type_name("N"), 1, 65535);
}

}  // namespace tangram::cli
