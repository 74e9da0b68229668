// The loop of a measuring session: choose a candidate, measure it, store the result, until something says stop.
//
// A session may take hours and be interrupted at any time, so it keeps two invariants. Everything that is measured is
// stored before the next point begins. And the choice of points depends on the task and the measurements alone, not on
// the clock, so a resumed session continues as the interrupted one would have.
//
// A candidate ends in exactly one of three places: measured, skipped with a reason, or still open when the session
// stops.

#include "measure/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace tangram::measure {
namespace {

using learn::Candidate;

class Session {
 public:
  Session(const Task& task, const Surroundings& around)
      : task_(task),
        around_(around),
        begin_(around.clock.now()),
        meter_(around.engine, around.clock, task.repeats, [this] { return before_run(); }) {
    // Measurements from before count against the budget, so that resuming does not raise it.
    report_.measurements = task.before;
    for (const auto& m : task.before) note_known(m);
    gather_candidates();
    goal_ = std::min(task.budget.measurements_max, report_.measurements.size() + unmeasured());
  }

  Result<Report> run() {
    while (true) {
      const auto next = choose();
      if (!next) break;
      TANGRAM_TRY(const auto done, measure_one(*next));
      if (!done) break;
    }
    report_.elapsed = around_.clock.now() - begin_;
    return std::move(report_);
  }

 private:
  // Asks the engine about every candidate before the start. The sampler then sees the same candidates in a session that
  // resumes, whichever of them the first session had reached.
  void gather_candidates() {
    for (const auto& candidate : task_.candidates) {
      if (const auto why = around_.engine.why_not(learn::point_of(task_.target, candidate))) {
        skip(candidate, *why);
      } else {
        candidates_.push_back(candidate);
      }
    }
    drop_unrecoverable();
  }

  // Marks the candidate of `m` as measured, and as failed if it was out of memory.
  void note_known(const Measurement& m) {
    known_.insert(learn::candidate_of(m));
    if (m.out_of_memory()) failed_.push_back(learn::candidate_of(m));
  }

  // Groups skipped candidates by reason: a report with one line for each of hundreds would not be read.
  void skip(const Candidate& candidate, const std::string& reason) {
    auto group = std::ranges::find(report_.skipped, reason, &Skipped::reason);
    if (group == report_.skipped.end()) group = report_.skipped.insert(group, {reason, {}});
    group->candidates.push_back(candidate);
  }

  // Removes the candidates that cannot fit because a smaller run did not. Each would cost a load, often minutes, to
  // show what is known. A measured candidate stays, because it was not skipped.
  void drop_unrecoverable() {
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      if (known_.contains(candidate)) return false;
      const bool unrecoverable = std::ranges::any_of(
          failed_, [&](const Candidate& failed) { return learn::at_least_as_large(candidate, failed); });
      if (unrecoverable) skip(candidate, "larger than a run that ran out of memory");
      return unrecoverable;
    });
  }

  std::size_t unmeasured() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(candidates_, [&](const Candidate& candidate) { return !known_.contains(candidate); }));
  }

  bool interrupted() const { return around_.interrupted && around_.interrupted(); }
  bool out_of_time() const { return task_.budget.time_max && around_.clock.now() - begin_ >= *task_.budget.time_max; }

  // An interruption comes before the time limit, because it abandons the point while the time limit may keep it.
  Halt halt() {
    show_progress();
    if (interrupted()) return Halt::interrupted;
    return out_of_time() ? Halt::out_of_time : Halt::no;
  }

  // Called by the meter before each run; also counts the runs for the progress.
  Halt before_run() {
    const Halt now = halt();
    ++runs_of_point_;
    return now;
  }

  // The share of the current point that is done, assuming that it takes as many runs as earlier points took on average.
  // Below 1, because the point is complete only when it is stored.
  double share_of_point() const {
    const std::size_t most = task_.repeats.warm_up + task_.repeats.repeats_max;
    const double usual = report_.points.empty()
                             ? static_cast<double>(most)
                             : static_cast<double>(runs_) / static_cast<double>(report_.points.size());
    return std::min(0.95, static_cast<double>(runs_of_point_) / std::max(1.0, usual));
  }

  // Reports the share of the budget that is nearer to its end, measurements or time.
  void show_progress() {
    if (!around_.progress) return;
    const std::size_t todo = goal_ - std::min(goal_, task_.before.size());
    const double done = static_cast<double>(report_.points.size()) + share_of_point();
    double share = todo == 0 ? 1 : done / static_cast<double>(todo);
    if (task_.budget.time_max) {
      share = std::max(share, to_seconds(around_.clock.now() - begin_) / to_seconds(*task_.budget.time_max));
    }
    around_.progress(std::min(1.0, share));
  }

  void stop(Stop why, std::string reason) {
    report_.stop = why;
    report_.stop_reason = std::move(reason);
  }

  void stop_for(Halt halt) {
    if (halt == Halt::interrupted) return stop(Stop::interrupted, "interrupted");
    const double minutes = to_seconds(*task_.budget.time_max) / 60;
    stop(Stop::out_of_time, fmt::format("the budget of {:g} minute{} is used up", minutes, minutes == 1 ? "" : "s"));
  }

  // The next candidate with the sampler's reason, or nothing when it is enough.
  struct Next {
    Candidate candidate;
    std::string reason;
  };
  std::optional<Next> choose() {
    if (const Halt now = halt(); now != Halt::no) return stop_for(now), std::nullopt;
    if (unmeasured() == 0) return stop(Stop::enough, "every candidate has been measured or ruled out"), std::nullopt;
    const std::size_t limit = task_.budget.measurements_max;
    if (report_.measurements.size() >= limit) {
      return stop(Stop::budget, fmt::format("the budget of {} measurements is reached", limit)), std::nullopt;
    }
    learn::SamplerChoice choice = around_.choose(candidates_, report_.measurements);
    // Kept even if the sampler stops now: these are the numbers that the report states.
    report_.expected_error = choice.expected_error;
    report_.expected_regret = choice.expected_regret;
    if (!choice.next) return stop(Stop::enough, std::move(choice.reason)), std::nullopt;
    TANGRAM_CHECK(*choice.next < candidates_.size() && !known_.contains(candidates_[*choice.next]),
                  "a sampler chooses among the candidates that are not measured yet");
    return Next{candidates_[*choice.next], std::move(choice.reason)};
  }

  // Measures one candidate and stores the result. Returns false when the session ends here, and an error if the engine
  // or the store fails.
  Result<bool> measure_one(const Next& next) {
    auto outcome = meter_.measure(task_.target, next.candidate);
    runs_ += std::exchange(runs_of_point_, 0);
    if (!outcome) return outcome.error();
    if (const auto* abandoned = std::get_if<Abandoned>(&*outcome)) {
      stop_for(abandoned->why);
      return false;
    }
    // The engine only now found out that it cannot run this point. The session goes on with the others.
    if (const auto* missing = std::get_if<engines::NotThere>(&*outcome)) {
      skip(next.candidate, missing->reason);
      std::erase(candidates_, next.candidate);
      return true;
    }
    TANGRAM_RETURN_IF_ERROR(keep(std::get<Measured>(std::move(*outcome)), next.reason));
    return true;
  }

  Result<Nothing> keep(Measured measured, const std::string& reason) {
    note_known(measured.measurement);
    // Before the next choice, so that the sampler never asks for a candidate that cannot fit.
    if (measured.measurement.out_of_memory()) drop_unrecoverable();
    report_.measurements.push_back(measured.measurement);
    report_.points.push_back({std::move(measured.measurement), measured.timing, reason});
    return around_.store(report_.measurements);
  }

  const Task& task_;
  const Surroundings& around_;
  TimePoint begin_;
  PointMeter meter_;
  Report report_;
  std::vector<Candidate> candidates_;
  std::vector<Candidate> failed_;  // Out of memory.
  std::set<Candidate> known_;
  std::size_t runs_ = 0;           // Of the points that ended.
  std::size_t runs_of_point_ = 0;  // Of the point at hand.
  std::size_t goal_ = 0;           // Measurements when the budget or the candidates end.
};

}  // namespace

std::string_view to_string(Stop stop) {
  switch (stop) {
    case Stop::enough: return "enough";
    case Stop::budget: return "budget";
    case Stop::out_of_time: return "out_of_time";
    case Stop::interrupted: return "interrupted";
  }
  return "";
}

Result<Report> measure(const Task& task, const Surroundings& surroundings) { return Session(task, surroundings).run(); }

}  // namespace tangram::measure
