// `tangram nodes`: shows the nodes of a running gateway and what runs on them.

#include <fmt/format.h>

#include "cli/program.h"
#include "cli/server_options.h"
#include "report/table.h"
#include "report/yaml.h"

namespace tangram::cli {
namespace nodes_verb {
namespace {

Result<ExitCode> run(Session& session, const ServerOptions& options) {
  TANGRAM_TRY(const auto text, ask_server(options, "GET", "/nodes"));
  const auto answer = report::Json::parse(text, nullptr, false);
  if (!answer.is_object() || !answer.contains("nodes")) {
    return session.fail({ErrorCode::unavailable, "the server sent no list of nodes"});
  }
  if (session.structured()) {
    session.print_value(answer);
    return ExitCode::done;
  }
  const auto& nodes = answer.at("nodes");
  if (nodes.empty()) {
    session.print(fmt::format("no node has joined at port {} yet\n", answer.at("port").get<int>()));
    return ExitCode::done;
  }
  report::Table table({{.title = "NODE"}, {.title = "ADDRESS"}, {.title = "STATE"}, {.title = "VERSION"}, {.title = "RTT US"}, {.title = "SLICE"}, {.title = "SERVICE"}, {.title = "SLICE STATE"}});
  for (const auto& node : nodes) {
    const auto text_of = [&](const char* key) { return node.at(key).get<std::string>(); };
    std::vector<report::Cell> row{text_of("name"), text_of("address"), text_of("state"), text_of("version"),
                                 fmt::format("{:.0f}", node.at("rtt_us").get<double>())};
    if (node.at("slices").empty()) {
      row.insert(row.end(), {"-", "-", "-"});
      table.add(row);
    }
    for (const auto& slice : node.at("slices")) {
      row.resize(5, "");
      row.push_back(slice.at("id").get<std::string>());
      row.push_back(slice.at("service").get<std::string>());
      row.push_back(slice.at("state").get<std::string>());
      table.add(row);
      for (std::size_t i = 0; i < 5; ++i) row[i] = "";
    }
  }
  session.print(table.render(session.terminal));
  return ExitCode::done;
}

}  // namespace
}  // namespace nodes_verb

void add_nodes(Program& program) {
  using namespace nodes_verb;
  const auto options = std::make_shared<ServerOptions>();
  Arguments& verb = program.add_verb(
      {.name = "nodes",
       .group = "Serve",
       .summary = "show the nodes of a running gateway",
       .description =
           "Reads the metrics port of a `tangram serve --node-port N` and prints its nodes: where they are, how long a "
           "ping takes, and which slices of the plan are on each.",
       .examples = {{"tangram nodes", "The gateway on this machine."},
                    {"tangram nodes --output json --port 18002", "Read another port, and print JSON."}}},
      [options](Session& session) { return run(session, *options); });
  add_server_options(program, verb, *options);
}

}  // namespace tangram::cli
