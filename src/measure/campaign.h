// A measuring campaign: which configurations of a model on a device are worth measuring, and what ends it.
//
// The candidates are the product of four axes. A user names values of an axis; where they name none, the axis has the
// values of the file that the engine answers from, or, for an engine that really runs, a choice that suits the model.
// The sampler then picks candidates one at a time until the rest is known well enough.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/geometry.h"
#include "core/workload.h"
#include "learn/knowledge.h"
#include "learn/regret.h"
#include "measure/session.h"

namespace tangram::measure {

// The sampler compares all pairs of candidates.
inline constexpr std::size_t kCandidatesMax = 2'500;

// What to vary. An empty axis is left open.
struct Axes {
  std::vector<std::string> profiles = {};  // Names of MigProfiles, or of sets of them: base, double, me, all.
  std::vector<std::int64_t> batches = {};
  std::vector<std::int64_t> sizes = {};
  std::vector<std::int64_t> processes = {};

  // Some configurations were named, instead of all that a file has.
  bool narrowed() const { return !profiles.empty() || !batches.empty() || !sizes.empty() || !processes.empty(); }
};

// Fills the axes that are open for an engine that really runs `service`: batches up to 16, one process, sizes in powers
// of two from 8 to the largest, and every profile; on hosts that are cut in quarter cores only halves and whole cores.
void choose_axes(Axes& axes, const Service& service, const Geometry& geometry);

struct Campaign {
  learn::Target target;
  Axes axes = {};
  // Only configurations that the file has: a user who replays a whole file did not ask for the gaps in it.
  bool only_known = false;
  learn::SamplerOptions sampling = {};
  std::optional<double> minutes_max = {};
  RepeatOptions repeats = {};
};

// The task of the campaign. `rows`: what a file says about the target; empty for engines that really run. Errors: a
// profile that the geometry does not have, or more than kCandidatesMax candidates.
Result<Task> task_of(const Campaign& campaign, const Geometry& geometry, const Measurements& rows);
// Error: the engine can run none of the candidates; `path` names what it answers from or runs.
Result<Nothing> check_candidates(const Task& task, const engines::Engine& engine, const std::string& path);

// What plans lose by not knowing more, for the candidates and what was measured so far. `lab` implements it.
using RegretOf = std::function<learn::Regret(std::span<const learn::Candidate>, std::span<const Measurement>)>;

// What the other models of `all` have shown. The target is left out: it is to be measured.
learn::Knowledge knowledge_without(Measurements all, const learn::Target& target);

// Chooses as learn::next_measurement does. Regret counts once a run has fitted: without one there is no plan to lose
// by. Both references outlive the result.
Choose sampler_of(const Campaign& campaign, const learn::Knowledge& knowledge, const RegretOf& regret);

}  // namespace tangram::measure
