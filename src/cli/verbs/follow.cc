// `tangram follow`: how a server that follows its traffic stands, and what people may ask of it.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/program.h"
#include "cli/server_options.h"

namespace tangram::cli {
namespace follow_verb {
namespace {

struct Options {
  ServerOptions server;
  std::string command = "status";
  std::string device;
};

// As people read it.
std::string text_of(const report::Json& told) {
  const auto text = [&](const char* key) { return told.at(key).get<std::string>(); };
  std::string out = fmt::format("mode {}, {}{}\n", text("mode"), text("state"),
                                told.at("moving").get<bool>() && text("state") != "moving" ? ", moving" : "");
  out += fmt::format("plan     {} devices", told.at("plan_devices").get<int>());
  // Hours of different types of devices are no sum.
  if (const auto& hours = told.at("device_hours"); !hours.is_null()) {
    out += fmt::format(", {:.3f} device-hours used", hours.get<double>());
  }
  out += "\n";
  if (const auto& cost = told.at("cost"); !cost.is_null()) {
    out += fmt::format("cost     {:.2f}, now {:.2f} an hour\n", cost.get<double>(),
                       told.at("cost_per_hour").get<double>());
  }
  if (const auto& types = told.at("device_hours_by_type"); types.size() > 1) {
    for (const auto& [type, hours] : types.items()) {
      out += fmt::format("         {:.3f} hours of {}\n", hours.get<double>(), type);
    }
  }
  out += fmt::format("moves    {}, {} taken back\n", told.at("moves").get<int>(), told.at("moves_undone").get<int>());
  out += fmt::format("last     {}\n", text("last_reason"));
  if (const auto& proposal = told.at("proposal"); !proposal.is_null()) {
    out += fmt::format("proposal {} devices: {}\n", proposal.at("devices").get<int>(),
                       fmt::join(proposal.at("reasons").get<std::vector<std::string>>(), "; "));
  }
  if (const auto lost = told.at("lost").get<std::vector<std::string>>(); !lost.empty()) {
    out += fmt::format("lost     {}\n", fmt::join(lost, ", "));
  }
  if (const auto problem = text("state_problem"); !problem.empty()) out += fmt::format("state    {}\n", problem);
  if (const int refused = told.at("plans_refused").get<int>(); refused > 0) {
    out += fmt::format("refused  {} plans, the last because {}\n", refused, text("refusal"));
  }
  return out;
}

Result<ExitCode> run(Session& session, const Options& options) {
  const bool asks = options.command == "status";
  const bool names = options.command == "lose" || options.command == "restore";
  if (names == options.device.empty()) {
    return session.fail({ErrorCode::invalid, names ? options.command + " needs the name of a device"
                                                   : "only lose and restore take the name of a device"});
  }
  int status = 0;
  const auto answer = ask_server(options.server, asks ? "GET" : "POST",
                                 asks    ? "/follow"
                                 : names ? "/follow/" + options.command + "/" + options.device
                                         : "/follow/" + options.command,
                                 "", &status);
  // The server has understood, and it cannot be done now: there is no plan to approve, for example.
  if (!answer && status == 400) {
    session.note(answer.error().message);
    return ExitCode::answer_is_no;
  }
  if (!answer) return answer.error();
  const report::Json told = report::Json::parse(*answer, nullptr, false);
  // Another server may answer on the port.
  if (!told.is_object() || !told.contains("last_reason")) {
    return session.fail({ErrorCode::unavailable, "this is not the metrics port of a Tangram server that follows"});
  }
  if (session.structured()) {
    session.print_value(told);
  } else {
    session.print(text_of(told));
  }
  return ExitCode::done;
}

}  // namespace
}  // namespace follow_verb

void add_follow(Program& program) {
  using namespace follow_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "follow",
       .group = "Serve",
       .summary = "show or steer a server that follows its traffic",
       .description =
           "Prints how a `tangram serve --follow` stands, or steers it. `pause` keeps the present plan until `resume`. "
           "`now` plans for the traffic of this moment without waiting for a window to end. `approve` puts the plan in "
           "force that a server with --follow-mode ask proposes. `undo` returns to the plan before the last move, and "
           "stays there until `resume`. On an emulated fleet (--cuts emulated), `lose DEVICE` kills a device, as a "
           "rehearsal, and `restore DEVICE` brings it back.",
       .examples = {{"tangram follow", "Print how it stands."},
                    {"tangram follow pause", "Keep the present plan."},
                    {"tangram follow undo", "Return to the plan before."},
                    {"tangram follow lose rack1-0", "Rehearse the loss of a device."}}},
      [options](Session& session) { return run(session, *options); });
  program.one_of(verb.add_option("COMMAND", options->command, "What to do."),
                 {"status", "pause", "resume", "now", "undo", "approve", "lose", "restore"});
  verb.add_option("DEVICE", options->device, "The device to lose or restore.");
  add_server_options(program, verb, options->server);
}

}  // namespace tangram::cli
