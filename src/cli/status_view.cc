#include "cli/status_view.h"

#include <fmt/format.h>

#include "report/table.h"

namespace tangram::cli {
namespace {

std::string services_table(const report::Json& services, const Terminal& terminal) {
  report::Table table({{"service"},
               {"SLO ms", report::Align::right},
               {"kept", report::Align::right},
               {"served", report::Align::right},
               {"late", report::Align::right},
               {"rejected", report::Align::right},
               {"impossible", report::Align::right},
               {"failed", report::Align::right},
               {"waiting", report::Align::right},
               {"mean ms", report::Align::right},
               {"batch", report::Align::right},
               {"slices", report::Align::right}});
  for (const auto& s : services) {
    const auto count = [&](const char* key) { return fmt::format("{}", s.at(key).get<std::uint64_t>()); };
    // Those that no slice could ever have served are counted apart; a server of before does not.
    const auto impossible = s.value("impossible", std::uint64_t{0});
    const auto rejected = s.at("rejected").get<std::uint64_t>() - impossible;
    table.add({s.at("name").get<std::string>(), fmt::format("{:g}", s.at("slo_ms").get<double>()),
               fmt::format("{:.1f} %", 100 * s.at("slo_attainment_last_minute").get<double>()), count("served"),
               count("late"), fmt::to_string(rejected), fmt::to_string(impossible), count("failed"), count("waiting"),
               fmt::format("{:.2f}", s.at("latency_mean_ms").get<double>()),
               fmt::format("{:.1f}", s.at("batch_mean").get<double>()), count("slices")});
  }
  return table.render(terminal);
}

std::string slices_table(const report::Json& slices, const Terminal& terminal) {
  report::Table table({{"slice"},
               {"status"},
               {"serves"},
               {"busy", report::Align::right},
               {"batches", report::Align::right},
               {"restarts", report::Align::right}});
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

// Only where the server asks who calls.
std::string tenants_table(const report::Json& tenants, const Terminal& terminal) {
  if (tenants.empty()) return "";
  report::Table table({{"tenant"},
               {"served", report::Align::right},
               {"late", report::Align::right},
               {"rejected", report::Align::right},
               {"failed", report::Align::right},
               {"over limits", report::Align::right},
               {"forbidden", report::Align::right},
               {"in flight", report::Align::right}});
  for (const auto& t : tenants) {
    const auto count = [&](const char* key) { return fmt::format("{}", t.value(key, std::int64_t{0})); };
    table.add({t.at("name").get<std::string>(), count("served"), count("late"), count("rejected"), count("failed"),
               count("over_limits"), count("forbidden"), count("in_flight")});
  }
  return "\n" + table.render(terminal);
}

}  // namespace

Result<report::Json> ask_status(const ServerOptions& options) {
  const auto answer = ask_server(options, "GET", "/status");
  if (!answer) return answer.error();
  report::Json status = report::Json::parse(*answer, nullptr, false);
  if (status.is_object() && status.contains("services")) return status;
  return Error{ErrorCode::unavailable,
               fmt::format("{}:{}: not the metrics port of a Tangram server", options.address, options.port)};
}

std::string status_text(const report::Json& status, const Terminal& terminal) {
  const bool draining = status.at("draining").get<bool>();
  const char* how = draining ? "draining" : status.at("ready").get<bool>() ? "ready" : "not ready";
  return fmt::format("{} for {:.0f} s, {} requests in flight, {} connections, {} plan changes{}\n\n", how,
                     status.at("up_s").get<double>(), status.at("in_flight").get<std::uint64_t>(),
                     status.at("connections").get<std::uint64_t>(), status.at("plan_changes").get<std::uint64_t>(),
                     status.at("plan_moving").get<bool>() ? ", one under way" : "") +
         services_table(status.at("services"), terminal) + "\n" + slices_table(status.at("slices"), terminal) +
         tenants_table(status.value("tenants", report::Json::array()), terminal);
}

}  // namespace tangram::cli
