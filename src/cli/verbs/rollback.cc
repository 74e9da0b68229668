// `tangram rollback`: cuts the GPUs of this machine as they were before the last `tangram apply`.
//
// The checkpoint of that apply says how the GPUs were. recut::Change compares it with how they are now and does what is
// missing, so the verb works after an apply that was done, failed or killed.

#include <fmt/format.h>

#include <filesystem>

#include "cli/recut_view.h"
#include "host/files.h"

namespace tangram::cli {
namespace rollback_verb {
namespace {

struct Options {
  std::string checkpoint;
  RecutOptions recut;
};

Result<ExitCode> run(Session& session, const Options& options) {
  RecutView view(session, options.recut);
  recut::Change change(change_options(options.recut), view);
  TANGRAM_RETURN_IF_ERROR(change.open(recut::nvml_library()));
  view.warn_of_owners();
  const std::string path = options.checkpoint.empty() ? change.checkpoint_file() : options.checkpoint;
  std::error_code error;
  // The user may name the current checkpoint explicitly, through another path to the same file.
  const bool own = std::filesystem::equivalent(path, change.checkpoint_file(), error);
  // A missing default file means that nothing was applied. A missing file that the user named is an ordinary read error
  // below.
  if (options.checkpoint.empty() && !std::filesystem::exists(path, error)) {
    return session.fail(
        {ErrorCode::not_found,
         fmt::format("{}: has no checkpoint, so there is nothing to undo; --state DIR names another folder", path)});
  }
  TANGRAM_TRY(const auto text, host::read_file(path));
  TANGRAM_TRY(const auto checkpoint, recut::read_checkpoint(path, text, change.now()));
  view.begin({{"checkpoint", path}, {"checkpoint_made", checkpoint.made}});
  if (!checkpoint.made.empty()) {
    session.remark(fmt::format("going back to {}, before {} was applied\n", checkpoint.made, checkpoint.plan));
  }
  // Another file than the current checkpoint is a goal like a plan: it is applied with a checkpoint of its own, so that
  // it can be undone. So is the current one once it is undone: going to it again is a new change.
  const bool named = !options.checkpoint.empty() && (!own || checkpoint.state == recut::ChangeState::undone);
  const recut::ChangeResult result = named ? change.apply(checkpoint.gpus, path) : change.roll_back(checkpoint);
  return view.end(result, change.now());
}

}  // namespace
}  // namespace rollback_verb

void add_rollback(Program& program) {
  using namespace rollback_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "rollback",
       .group = "Serve",
       .summary = "restore the cuts of the GPUs before the last apply",
       .description = fmt::format(
           "Restores the checkpoint that tangram apply wrote before its first step: the same slices at the same "
           "positions, with the same compute instances, and the same MIG mode. It undoes the last apply that changed "
           "something; an apply that stopped before its first change does not count. It reads the current cuts and "
           "takes only the steps that are missing, so it works after an apply that completed, failed, was "
           "interrupted or was killed, and can be repeated: a change that is undone is not undone again. New slices "
           "have new UUIDs. With --checkpoint it restores that file, which can also be a checkpoint of "
           "nvidia-mig-parted, and a later tangram rollback without --checkpoint undoes this. {}",
           kRecutExitCodes),
       .examples = {{"tangram rollback --dry-run", "Print the steps without taking them."},
                    {"tangram rollback", "Undo the last apply."},
                    {"tangram rollback --checkpoint DIR/before.json", "Restore a saved checkpoint."}}},
      [options](Session& session) { return run(session, *options); });
  program.offers_files(
      verb.add_option("--checkpoint", options->checkpoint, "A checkpoint file, instead of that of the last apply.")
          ->type_name("FILE"));
  add_recut_options(program, verb, options->recut);
}

}  // namespace tangram::cli
