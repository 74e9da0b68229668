// `tangram apply`: cuts the GPUs of this machine as a plan says.
//
// The verb chooses the devices, matches them to GPUs and passes the goals to recut::Change, which does the rest under a
// lock and with a checkpoint. RecutView prints what happens.

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/plan_inputs.h"
#include "cli/recut_view.h"

namespace tangram::cli {
namespace apply_verb {
namespace {

struct Options {
  std::string plan;
  std::vector<std::string> devices;
  std::vector<std::string> gpus;
  RecutOptions recut;
};

// The devices of --device, or all of the plan. Errors: a name that the plan does not have, or a layout that the
// geometry does not permit. Such a layout must not reach the driver, which might reject it only after other slices are
// gone.
Result<Plan> chosen_devices(const Options& options, Plan plan) {
  // Check the names before anything is removed, so that the suggestion can name any device of the plan.
  for (const auto& name : options.devices) {
    if (std::ranges::find(plan.devices, name, &PlannedDevice::name) != plan.devices.end()) continue;
    std::vector<std::string> names;
    for (const auto& device : plan.devices) names.push_back(device.name);
    const auto near = text::nearest(name, names);
    return Error{ErrorCode::invalid, fmt::format("--device {}: the plan has no such device{}", name,
                                                 near ? fmt::format("; did you mean {}?", *near) : "")};
  }
  if (!options.devices.empty()) {
    std::erase_if(plan.devices, [&](const PlannedDevice& device) {
      return std::ranges::find(options.devices, device.name) == options.devices.end();
    });
  }
  for (const auto& device : plan.devices) {
    if (const auto reason = why_invalid(device.geometry, layout_of(device)); !reason.empty()) {
      return Error{ErrorCode::invalid, fmt::format("{}: {}: {}", options.plan, device.name, reason)};
    }
  }
  return plan;
}

// A host has no cuts that outlast a process. Prints that for each device of type cpu, and returns the notes.
std::vector<std::string> tell_of_hosts(Session& session, const Plan& plan) {
  std::vector<std::string> notes;
  for (const auto& device : plan.devices) {
    if (device.geometry.units_per_core == 0) continue;
    notes.push_back(fmt::format(
        "{} ({}): nothing to prepare; tangram serve assigns cores to each slice when it starts and releases them "
        "when it ends",
        device.name, device.type));
    if (!session.structured()) session.print(notes.back() + "\n");
  }
  return notes;
}

Result<ExitCode> run(Session& session, const Options& options) {
  TANGRAM_TRY(auto loaded, load_plan(options.plan));
  TANGRAM_TRY(const auto plan, chosen_devices(options, std::move(loaded)));
  TANGRAM_TRY(const auto choices, recut::parse_gpu_choices(options.gpus));
  const auto notes = tell_of_hosts(session, plan);
  if (notes.size() == plan.devices.size()) {
    // No device is a GPU, so no driver is needed. The verb then also works on a machine without one.
    if (session.structured()) {
      session.print_value({{"notes", notes}, {"dry_run", options.recut.dry_run}, {"status", "nothing to do"}});
    }
    return ExitCode::done;
  }
  // open() takes the lock first, so that no other apply can change the GPUs after they are read.
  RecutView view(session, options.recut);
  recut::Change change(change_options(options.recut), view);
  TANGRAM_RETURN_IF_ERROR(change.open(recut::nvml_library()));
  view.warn_of_owners();
  const adapters::DriverReport driver = change.now();  // A copy, to which `matched` refers.
  // Which GPU a device is may depend on the current cuts; the view prints the match before anything is done.
  TANGRAM_TRY(const auto matched, recut::match_devices(plan, driver, choices));
  view.begin({{"plan", options.plan}, {"notes", notes}});
  const recut::ChangeResult result = change.apply(recut::goals_of(matched), options.plan);
  return view.end(result, change.now());
}

VerbInfo info() {
  return {
      .name = "apply",
      .group = "Serve",
      .summary = "cut the GPUs of this machine according to a plan",
      .description = fmt::format(
          "Reads the current cuts of the GPUs and changes them, step by step, to the cuts of the plan. Slices that "
          "are already in place are not touched, and neither are GPUs that the plan does not need. A device of the "
          "plan is mapped to the GPU that --gpu names; without --gpu, to the GPU of its type that needs the fewest "
          "changes. MIG mode is switched on where it is off. A checkpoint is written before the first step; tangram "
          "rollback restores it. Slices that processes use are not destroyed: see --wait and --force. Ctrl-C stops "
          "between two steps. Devices of type cpu need no preparation. $TANGRAM_NVML names another driver library. {}",
          kRecutExitCodes),
      .examples = {{"tangram apply examples/serving/plan.json --dry-run", "Print the steps without taking them."},
                   {"tangram apply examples/serving/plan.json", "Cut the GPUs."},
                   {"tangram apply examples/serving/plan.json --gpu rack1-0=1",
                    "Choose the GPU for a device, by UUID or index."},
                   {"tangram apply examples/serving/plan.json --device rack1-0 --wait 60",
                    "Cut one device; wait up to a minute for processes on its slices."}}};
}

}  // namespace
}  // namespace apply_verb

void add_apply(Program& program) {
  using namespace apply_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(info(), [options](Session& session) { return run(session, *options); });
  program.offers_files(verb.add_option("PLAN", options->plan, "The plan file, JSON.")->required());
  verb.add_option("--gpu", options->gpus, "The GPU for a device of the plan: NAME=UUID or NAME=INDEX.")
      ->type_name("CHOICE");
  verb.add_option("--device", options->devices, "Cut only this device of the plan. May be repeated.")
      ->type_name("NAME");
  add_recut_options(program, verb, options->recut);
}

}  // namespace tangram::cli
