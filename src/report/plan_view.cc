// A plan and the reasons for it as text and JSON.
//
// The planner answers with slices and predictions; this file says what they mean for a reader: mosaics of the devices,
// a table of the services with the run times that the plan counts on, the proved bound, and on request why no smaller
// plan exists. Devices that are cut and used alike are shown once, so that a plan for hundreds of GPUs stays readable.

#include "report/plan_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "formats/plan_file.h"
#include "learn/cautious.h"
#include "plan/sharing.h"
#include "report/mosaic.h"
#include "report/number_text.h"
#include "report/table.h"
#include "report/text_width.h"

namespace tangram::report {
namespace {

constexpr std::size_t kDevicesDrawn = 24;  // Of one type; more are only counted.

// Requires that the name is in the workload; a plan has no other services.
const Service& service_of(const plan::Problem& problem, const std::string& name) {
  return *std::ranges::find(problem.workload.services, name, &Service::name);
}

// "p99 120 ms", or "job 6.0 h" for a service with a job, which has a deadline instead of an Slo.
std::string promise_text(const Service& service) {
  if (!service.job)
    return fmt::format("p{} {}", text::shortest(service.slo.percentile), latency_text(service.slo.latency));
  const double seconds = to_seconds(service.job->deadline);
  return seconds < 3600 ? fmt::format("job {:.0f} s", seconds) : fmt::format("job {:.1f} h", seconds / 3600);
}

// The predicted run of a bucket on the slices of a group, from the same LatencyModel that the planner used.
std::optional<Prediction> run_of(const plan::Problem& problem, const plan::ReplicaGroup& group,
                                 const PlannedBucket& bucket) {
  return problem.latency->predict({group.device_type, group.mig_profile,
                                   service_of(problem, group.replica.service).model, bucket.batch_size, bucket.size_max,
                                   group.replica.processes});
}

// The slowest p99 run of all buckets and groups, without any waiting.
Duration slowest_run(const plan::Problem& problem, const plan::ServicePlan& service) {
  Duration slowest{};
  for (const auto& group : service.groups) {
    for (const auto& bucket : group.replica.buckets) {
      if (const auto run = run_of(problem, group, bucket)) slowest = std::max(slowest, run->p99);
    }
  }
  return slowest;
}

// "2 x 3g.40gb x2 + 1 x 1g.10gb": the number of slices, the MigProfile and, if more than one, the processes on each.
std::string slices_text(const std::vector<plan::ReplicaGroup>& groups) {
  std::vector<std::string> parts;
  for (const auto& group : groups) {
    std::string part = fmt::format("{} x {}", group.count, group.mig_profile);
    if (group.replica.processes > 1) part += fmt::format(" x{}", group.replica.processes);
    parts.push_back(std::move(part));
  }
  return text::join(parts, " + ");
}

// The same for slices that services share; slices that hold different services are counted separately.
std::string slices_text(const plan::SharedSet& set) {
  std::vector<std::string> parts;
  for (const auto& group : set.groups) parts.push_back(fmt::format("{} x {}", group.count, group.mig_profile));
  return text::join(parts, " + ");
}

// "64:16 512:2-4": upper edges with their batch sizes, as a range where groups have different ones.
std::string buckets_text(const plan::ServicePlan& service) {
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> batches;
  for (const auto& group : service.groups) {
    for (const auto& bucket : group.replica.buckets) {
      auto& [least, most] = batches.try_emplace(bucket.size_max, bucket.batch_size, bucket.batch_size).first->second;
      least = std::min(least, bucket.batch_size);
      most = std::max(most, bucket.batch_size);
    }
  }
  std::vector<std::string> parts;
  for (const auto& [edge, range] : batches) {
    parts.push_back(range.first == range.second ? fmt::format("{}:{}", edge, range.first)
                                                : fmt::format("{}:{}-{}", edge, range.first, range.second));
  }
  return text::join(parts, " ");
}

// In a plan with more services than this, lists of services are shortened.
constexpr std::size_t kServicesLong = 20;
// How many names of a shortened list are shown.
constexpr std::size_t kServicesNamed = 2;

// "9 services: s1, s4, ...".
std::string shortened(const std::vector<std::string>& names) {
  if (names.size() <= kServicesNamed + 1) return text::join(names, ", ");
  const std::vector<std::string> first(names.begin(), names.begin() + kServicesNamed);
  return fmt::format("{} services: {}, ...", names.size(), text::join(first, ", "));
}

// The services of a device's slices from left to right: "rank | rank+embed | free".
std::string services_on(const PlannedDevice& device, bool shorten) {
  std::vector<std::string> parts;
  for (const auto& slice : device.slices) {
    std::vector<std::string> names;
    for (const auto& replica : slice.replicas) names.push_back(replica.service);
    const bool many = shorten && names.size() > kServicesNamed + 1;
    parts.push_back(slice.reserved  ? "reserved"
                    : names.empty() ? "free"
                    : many          ? shortened(names)
                                    : text::join(names, "+"));
  }
  return text::join(parts, " | ");
}

bool has_many_services(const PlanStory& story) { return story.answer.services.size() > kServicesLong; }

// Consecutive devices with the same slices and replicas form one row.
struct DeviceRow {
  const PlannedDevice* first = nullptr;
  std::string last;
  int count = 0;
};

std::vector<DeviceRow> rows_of(const Plan& plan, const std::string& type) {
  std::vector<DeviceRow> rows;
  for (const auto& device : plan.devices) {
    if (device.type != type) continue;
    // Only neighbours are merged, so that "gpu-3 .. gpu-7" names an unbroken range.
    if (!rows.empty() && rows.back().first->slices == device.slices) {
      rows.back().last = device.name;
      ++rows.back().count;
      continue;
    }
    rows.push_back({&device, device.name, 1});
  }
  return rows;
}

// In the order of their first device, which is the order of the fleet.
std::vector<std::string> types_of(const Plan& plan) {
  std::vector<std::string> types;
  for (const auto& device : plan.devices) {
    if (std::ranges::find(types, device.type) == types.end()) types.push_back(device.type);
  }
  return types;
}

// One mosaic for each device type, because mosaics of different geometries have different rulers.
std::string mosaics(const PlanStory& story, const Terminal& terminal, int indent) {
  std::string text;
  for (const auto& type : types_of(story.answer.plan)) {
    const auto devices = rows_of(story.answer.plan, type);
    std::vector<MosaicRow> rows;
    int drawn = 0;
    int all = 0;
    for (const auto& row : devices) {
      all += row.count;
      // Rows beyond the limit are counted, not drawn.
      if (rows.size() == kDevicesDrawn) continue;
      drawn += row.count;
      const std::string name = row.count == 1 ? row.first->name : fmt::format("{} .. {}", row.first->name, row.last);
      rows.push_back({layout_of(*row.first), name, ""});
    }
    const Geometry& geometry = devices.front().first->geometry;
    text += fmt::format("\n{}{}\n", std::string(static_cast<std::size_t>(indent), ' '),
                        paint(terminal, Style::bold, fmt::format("{} x {}", all, geometry.title)));
    // Lines between rows help up to about a dozen rows; beyond that they double the height of the picture.
    text += draw_mosaic(geometry, rows, terminal, {.indent = indent, .boxed = rows.size() <= 12});
    if (drawn < all) text += fmt::format("... and {} more\n", all - drawn);
  }
  return text;
}

// The same rows as in the mosaics, with the names of the services that a mosaic has no room for.
Table device_table(const PlanStory& story) {
  const Plan& plan = story.answer.plan;
  Table table({{"DEVICE"}, {"LAYOUT"}, {"SERVICES", Align::left, true}});
  for (const auto& type : types_of(plan)) {
    const auto rows = rows_of(plan, type);
    for (std::size_t i = 0; i < std::min(rows.size(), kDevicesDrawn); ++i) {
      const DeviceRow& row = rows[i];
      table.add({{row.count == 1 ? row.first->name : fmt::format("{} .. {}", row.first->name, row.last), Style::accent},
                 to_string(row.first->geometry, layout_of(*row.first)),
                 services_on(*row.first, has_many_services(story))});
    }
  }
  return table;
}

// A service without requests is planned at a rate near zero.
bool has_traffic(const plan::ServicePlan& service) { return service.rate_per_s > 1e-6; }

// Why services have slices of their own in a plan in which others may share: one note for each reason.
class AloneNotes {
 public:
  explicit AloneNotes(const PlanStory& story) {
    if (!story.answer.with_sharing) return;
    for (const auto& planned : story.answer.services) {
      const auto reason = plan::why_not_shared(story.problem, service_of(story.problem, planned.service));
      if (reason.empty()) continue;
      const auto known = std::ranges::find(reasons_, reason);
      marks_[planned.service] = fmt::format(" [{}]", known - reasons_.begin() + 1);
      if (known == reasons_.end()) reasons_.push_back(reason);
    }
  }
  // " [1]", or nothing.
  std::string mark(const std::string& service) const {
    const auto found = marks_.find(service);
    return found == marks_.end() ? "" : found->second;
  }
  const std::vector<std::string>& reasons() const { return reasons_; }

 private:
  std::map<std::string, std::string> marks_;  // By service.
  std::vector<std::string> reasons_;
};

bool loads_on_demand(const plan::ServicePlan& service) {
  return std::ranges::any_of(service.groups,
                             [](const auto& group) { return group.replica.load == ReplicaLoad::on_demand; });
}

// What the marks in the table of services mean.
const lab::Guess* guess_of(const PlanStory& story, const std::string& service) {
  const auto found = std::ranges::find(story.guesses, service, &lab::Guess::service);
  return found == story.guesses.end() ? nullptr : &*found;
}

// The run times that guesses were planned with.
std::string caution_text(const PlanStory& story) {
  const double share = story.confidence_asked.value_or(learn::kGuessConfidence);
  if (share <= 0.5) return "the mean that is predicted";
  return fmt::format("times that {:.4g} % of such runs should keep", 100 * share);
}

std::string footnotes(const PlanStory& story, const std::string& pad) {
  std::string text;
  if (std::ranges::any_of(story.answer.services, loads_on_demand))
    text += pad + "* loaded on demand: the model is in host memory until a request needs it\n";
  for (const auto& guess : story.guesses) {
    text += fmt::format("{}~ {}: never measured on {}: planned with {}\n", pad, guess.service,
                        text::join(guess.slices, ", "), caution_text(story));
  }
  const AloneNotes alone(story);
  for (std::size_t i = 0; i < alone.reasons().size(); ++i) {
    text += fmt::format("{}[{}] shares no slice: {}\n", pad, i + 1, alone.reasons()[i]);
  }
  return text;
}

// RUN P99 is predicted for the run alone; CERTIFIED is the simulated latency with waiting, at the percentile of the
// Slo.
Table service_table(const PlanStory& story) {
  Table table({{"SERVICE"},
               {"BUCKET:BATCH", Align::left, true},
               {"SLICES", Align::left, true},
               {"NEEDS /S", Align::right},
               {"CAPACITY", Align::right},
               {"SLO", Align::right},
               {"RUN P99", Align::right},
               {"CERTIFIED", Align::right},
               {"IN TIME", Align::right},
               {"COST", Align::right}});
  const AloneNotes alone(story);
  for (std::size_t s = 0; s < story.answer.services.size(); ++s) {
    const auto& service = story.answer.services[s];
    const auto& verdict = service.verdict;
    table.add({{service.service, Style::accent},
               buckets_text(service),
               slices_text(service.groups) + (loads_on_demand(service) ? " *" : "") + alone.mark(service.service),
               number_text(has_traffic(service) ? service.rate_per_s : 0),
               has_traffic(service) ? fmt::format("{:.0f} %", 100 * service.load_factor) : "no traffic",
               promise_text(service_of(story.problem, service.service)),
               latency_text(slowest_run(story.problem, service)) + (guess_of(story, service.service) ? " ~" : ""),
               verdict ? latency_text(verdict->latency) : "-",
               {verdict ? percent_text(verdict->attainment) : "-", !verdict         ? Style::plain
                                                                   : verdict->holds ? Style::good
                                                                                    : Style::bad},
               fmt::format("{:.2f}", story.costs[s])});
  }
  return table;
}

// How far the plan may be from the best one: 1 - bound / price. A proved plan has no gap, even if rounding left one.
double gap_of(const plan::PlanAnswer& answer) {
  if (answer.proved || answer.price <= 0) return 0;
  return std::max(0.0, 1 - answer.bound / answer.price);
}

std::string counted_devices(int count) { return fmt::format("{} device{}", count, count == 1 ? "" : "s"); }

// One line with the cost, how good it is and how it was found: "5 devices, bound 5, proved optimal among ...; planner
// ..., rule
// ...".
std::string verdict_line(const PlanStory& story) {
  const auto& answer = story.answer;
  std::string text = counted_devices(answer.devices);
  if (story.problem.options.objective == plan::Objective::price) text += fmt::format(", {:.2f} an hour", answer.price);
  if (story.problem.options.objective == plan::Objective::headroom) {
    text += fmt::format(", headroom for {:.2f} times the rates", answer.headroom);
    // A bound of zero means that none was computed, unless the plan is proved.
  } else if (answer.bound > 0 || answer.proved) {
    text += fmt::format(", bound {:.4g}, {}", answer.bound,
                        answer.proved ? proved_text(answer) : fmt::format("gap {:.1f} %", 100 * gap_of(answer)));
  } else {
    text += ", no bound";
  }
  return text + fmt::format("; planner {}, rule {}", story.planner, to_string(story.problem.options.rule));
}

// JSON.

Json group_json(const plan::Problem& problem, const plan::ReplicaGroup& group) {
  Json buckets = Json::array();
  for (const auto& bucket : group.replica.buckets) {
    const auto run = run_of(problem, group, bucket);
    Json json{{"size_max", bucket.size_max}, {"batch_size", bucket.batch_size}};
    json["run_mean_ms"] = run ? Json(to_milliseconds(run->mean)) : Json(nullptr);
    json["run_p99_ms"] = run ? Json(to_milliseconds(run->p99)) : Json(nullptr);
    // All processes of a replica run at the same time, so its throughput is that of one process times their number.
    json["throughput_per_s"] =
        run ? Json(static_cast<double>(bucket.batch_size) * group.replica.processes / to_seconds(run->mean))
            : Json(nullptr);
    buckets.push_back(std::move(json));
  }
  return {{"device_type", group.device_type},
          {"mig_profile", group.mig_profile},
          {"count", group.count},
          {"processes", group.replica.processes},
          {"buckets", std::move(buckets)}};
}

// Null for an infinite latency, that is, if requests at this percentile are never answered.
Json latency_json(Duration latency) {
  return latency == Duration::max() ? Json(nullptr) : Json(to_milliseconds(latency));
}

Json certificate_json(const plan::Verdict& verdict) {
  return {{"holds", verdict.holds},
          {"latency_ms", latency_json(verdict.latency)},
          {"attainment", verdict.attainment},
          {"attainment_low", verdict.attainment_low},
          {"attainment_high", verdict.attainment_high},
          {"over", verdict.view},
          {"horizon_s", verdict.horizon_s},
          {"cycles", verdict.cycles},
          {"windows_kept", verdict.windows_kept ? Json(*verdict.windows_kept) : Json(nullptr)},
          {"noise", verdict.noise},
          {"too_close", verdict.too_close}};
}

Json service_json(const PlanStory& story, std::size_t s) {
  const auto& service = story.answer.services[s];
  const Service& asked = service_of(story.problem, service.service);
  Json groups = Json::array();
  for (const auto& group : service.groups) groups.push_back(group_json(story.problem, group));
  Json json{{"service", service.service},
            {"model", asked.model},
            {"slo_latency_ms", to_milliseconds(asked.slo.latency)},
            {"slo_percentile", asked.slo.percentile},
            {"job", asked.job ? Json{{"rows", asked.job->rows}, {"deadline_s", to_seconds(asked.job->deadline)}}
                              : Json(nullptr)},
            {"samples_per_s", service.rate_per_s},
            {"load_factor", service.load_factor},
            {"bucket_edges", service.edges},
            {"groups", std::move(groups)},
            {"run_p99_ms", to_milliseconds(slowest_run(story.problem, service))},
            {"cost", story.costs[s]},
            {"bound_share", service.price},
            {"shares_with", service.shares_with}};
  const lab::Guess* guess = guess_of(story, service.service);
  json["guessed_slices"] = guess == nullptr ? Json::array() : Json(guess->slices);
  json["certified"] = nullptr;
  if (service.verdict) {
    json["certified"] = certificate_json(*service.verdict);
    // A cheaper cover was too close to call: the plan is on the safe side.
    json["certified"]["too_close"] = service.nearest && service.nearest->verdict.too_close;
  }
  json["nearest"] = nullptr;
  if (service.nearest) {
    json["nearest"] = certificate_json(service.nearest->verdict);
    json["nearest"]["slices"] = slices_text(service.nearest->groups);
  }
  return json;
}

// The price per hour for every objective. `answer.price` and the bound are in the unit of the objective, for example
// devices.
double price_per_hour(const PlanStory& story) {
  plan::Problem priced = story.problem;
  priced.options.objective = plan::Objective::price;
  return plan::plan_price(priced, story.answer.plan);
}

Json sharing_json(const PlanStory& story) {
  const auto& answer = story.answer;
  if (!answer.with_sharing) return nullptr;
  const bool devices = story.problem.options.objective == plan::Objective::devices;
  Json json{{"binds", answer.binds}, {"notes", answer.notes}};
  json["devices_alone"] = answer.price_alone && devices ? Json(*answer.price_alone) : Json(nullptr);
  const bool price = story.problem.options.objective == plan::Objective::price;
  json["price_alone"] = answer.price_alone && price ? Json(*answer.price_alone) : Json(nullptr);
  // On a fixed fleet sharing saves no device; it raises the factor.
  const bool fixed = story.problem.options.objective == plan::Objective::headroom;
  json["saved"] = answer.price_alone && !fixed ? Json(*answer.price_alone - answer.price) : Json(nullptr);
  json["blocks"] = Json::array();
  for (const auto& block : plan::shared_blocks(story.problem, answer)) {
    json["blocks"].push_back({{"services", block.set.services},
                              {"slices", slices_text(block.set)},
                              {"busy", block.busy},
                              {"least_room", block.least_room.empty() ? Json(nullptr) : Json(block.least_room)}});
  }
  return json;
}

Json explanation_json(const PlanStory& story) {
  Json json{{"why_not_fewer", plan::why_not_fewer(story.problem, story.answer)}};
  json["slo_relief"] = Json::array();
  for (const auto& relief : story.relief.value_or(std::vector<plan::Relief>{})) {
    json["slo_relief"].push_back({{"service", relief.service},
                                  {"slo_factor", relief.slo_factor},
                                  {"price_before", relief.price_before},
                                  {"price_after", relief.price_after},
                                  {"saved", relief.saved()},
                                  {"basis", relief.basis == plan::ReliefBasis::planned ? "planned" : "bound"}});
  }
  json["neighbours"] = Json::array();
  for (const auto& n : story.neighbours) {
    json["neighbours"].push_back({{"service", n.service},
                                  {"neighbours", n.count},
                                  {"latency_alone_ms", latency_json(n.latency_alone)},
                                  {"latency_shared_ms", latency_json(n.latency_shared)}});
  }
  json["confidence"] = Json::array();
  for (const auto& c : story.confidence) {
    json["confidence"].push_back({{"service", c.service},
                                  {"widest", c.where},
                                  {"measured", c.measured},
                                  {"mean_ms", c.mean_ms},
                                  {"low_ms", c.low_ms},
                                  {"high_ms", c.high_ms},
                                  {"coverage", c.coverage},
                                  {"runs", c.runs},
                                  {"runs_measured", c.runs_measured}});
  }
  return json;
}

}  // namespace

std::string proved_text(const plan::PlanAnswer& answer) {
  return "proved optimal among the " + plan::among_text(answer);
}

// Digits of a share: enough to tell it from the promise.
int share_digits(const Service& service) { return service.slo.percentile > 99.9 ? 7 : 4; }

// One line for each service whose cheaper cover was too close to call: "rank: 4 x 1g.10gb has 94.8 to 95.6 % in time,
// and 95 % are promised".
std::string too_close_text(const PlanStory& story, const std::string& pad) {
  std::string text;
  for (const auto& service : story.answer.services) {
    if (!service.nearest || !service.nearest->verdict.too_close) continue;
    const auto& verdict = service.nearest->verdict;
    if (verdict.windows_kept && verdict.view == "every window") {
      text += fmt::format(
          "{}{}: too close to call on {}: {:.4g} % of the windows at its busiest keep the promise; the plan is on the "
          "safe side\n",
          pad, service.service, slices_text(service.nearest->groups), 100 * *verdict.windows_kept);
      continue;
    }
    text += fmt::format(
        "{}{}: too close to call on {}: {:.4g} to {:.4g} % in time, {} % promised; the plan is on the safe side\n", pad,
        service.service, slices_text(service.nearest->groups), 100 * verdict.attainment_low,
        100 * verdict.attainment_high, text::shortest(service_of(story.problem, service.service).slo.percentile));
  }
  return text;
}

// What is known of cheaper slices: "3 x 1g.10gb".
std::string smaller_text(const plan::ServicePlan& service) {
  if (service.nearest) return slices_text(service.nearest->groups);
  if (!service.shares_with.empty()) return "none that was tried";
  if (service.smaller == plan::SmallerCovers::no_capacity) return "none with the capacity";
  return service.smaller == plan::SmallerCovers::suffices ? "one that would save nothing" : "not looked for";
}

// What each certificate says, and what the next smaller cover reached.
std::string certificates_text(const PlanStory& story, const Terminal& terminal) {
  Table table({{"SERVICE"}, {"CERTIFIED"}, {"OVER"}, {"NEXT SMALLER", Align::left, true}, {"IN TIME"}});
  std::string notes;
  for (const auto& service : story.answer.services) {
    if (!service.verdict) continue;
    const auto& verdict = *service.verdict;
    const Service& asked = service_of(story.problem, service.service);
    const auto share = [digits = share_digits(asked)](const plan::Verdict& v) {
      return v.attainment_high > v.attainment_low && v.attainment_low > 0
                 ? fmt::format("{:.{}g} % ({:.{}g} to {:.{}g})", 100 * v.attainment, digits, 100 * v.attainment_low,
                               digits, 100 * v.attainment_high, digits)
                 : fmt::format("{:.{}g} %", 100 * v.attainment, digits);
    };
    table.add({{service.service, Style::accent},
               share(verdict),
               verdict.view,
               smaller_text(service),
               service.nearest ? share(service.nearest->verdict) : "-"});
    if (!verdict.busiest.empty() && verdict.busiest_attainment < asked.slo.percentile / 100) {
      notes += fmt::format("  {}: the promise holds on average but not in {}: {:.3g} % are in time there",
                           service.service, verdict.busiest, 100 * verdict.busiest_attainment);
      if (const auto* bursts = std::get_if<BurstTraffic>(&asked.traffic)) {
        notes += fmt::format(", for {:.4g} s every {:.4g} s on average", bursts->burst_mean_s,
                             bursts->burst_mean_s + bursts->calm_mean_s);
      }
      notes += ". slo.window_s asks for every window, too.\n";
    }
    if (verdict.windows_kept) {
      notes += fmt::format("  {}: {:.4g} % of the windows of {} s at its busiest keep the promise", service.service,
                           100 * *verdict.windows_kept, text::shortest(asked.slo.window_s));
      if (service.nearest && service.nearest->verdict.windows_kept) {
        notes += fmt::format("; {:.4g} % on {}", 100 * *service.nearest->verdict.windows_kept,
                             slices_text(service.nearest->groups));
      }
      notes += ".\n";
    }
  }
  return "\n" + paint(terminal, Style::bold, "What was certified") + "\n" + table.render(terminal, 2) + notes;
}

// What sharing saved: "Without sharing, the best plan found takes 5 devices; sharing saves 4."
std::string saved_text(const PlanStory& story) {
  const auto& answer = story.answer;
  const bool price = story.problem.options.objective == plan::Objective::price;
  if (!answer.price_alone) return "No plan was found in which each service has slices of its own.";
  const std::string alone = price ? fmt::format("costs {:.2f} an hour", *answer.price_alone)
                                  : "takes " + counted_devices(static_cast<int>(std::lround(*answer.price_alone)));
  const double saved = *answer.price_alone - answer.price;
  const std::string text = fmt::format("The best plan found in which each service has slices of its own {}", alone);
  if (saved <= 0) return text + ", and sharing would save nothing.";
  return text + fmt::format("; sharing saves {}.",
                            price ? fmt::format("{:.2f}", saved) : fmt::format("{}", std::lround(saved)));
}

// Who shares slices and why, and who would be first to need slices of its own.
std::string sharing_text(const PlanStory& story, const Terminal& terminal) {
  if (!story.answer.with_sharing) return {};
  std::string text = "\n" + paint(terminal, Style::bold, "Who shares slices") + "\n";
  // On a fixed fleet sharing saves no device; it raises the factor.
  if (story.problem.options.objective != plan::Objective::headroom) {
    text += "  " + wrap(saved_text(story), terminal.width - 2, 2) + "\n";
  }
  const auto blocks = plan::shared_blocks(story.problem, story.answer);
  if (!blocks.empty()) {
    Table table(
        {{"SERVICES", Align::left, true}, {"SLICES", Align::left, true}, {"BUSY", Align::right}, {"LEAST ROOM"}});
    for (const auto& block : blocks) {
      table.add({has_many_services(story) ? shortened(block.set.services) : text::join(block.set.services, ", "),
                 slices_text(block.set), percent_text(block.busy), block.least_room.empty() ? "-" : block.least_room});
    }
    text += table.render(terminal, 2) +
            "  LEAST ROOM: the service that is nearest to its promise, the first to need slices of its own.\n";
  }
  for (const auto& note : story.answer.notes) text += "  " + wrap(note, terminal.width - 2, 2) + "\n";
  return text;
}

// What the neighbours cost each service; those that suffer most first.
std::string neighbours_text(const PlanStory& story, const Terminal& terminal) {
  if (story.neighbours.empty()) return {};
  auto list = story.neighbours;
  std::ranges::stable_sort(list, std::greater<>{}, [](const plan::Neighbours& n) {
    return to_seconds(n.latency_shared) - to_seconds(n.latency_alone);
  });
  Table table({{"SERVICE"},
               {"NEIGHBOURS", Align::right},
               {"SLO", Align::right},
               {"ALONE", Align::right},
               {"SHARED", Align::right}});
  for (std::size_t i = 0; i < std::min(list.size(), kServicesLong); ++i) {
    table.add({{list[i].service, Style::accent},
               fmt::format("{}", list[i].count),
               promise_text(service_of(story.problem, list[i].service)),
               latency_text(list[i].latency_alone),
               latency_text(list[i].latency_shared)});
  }
  std::string text = "\n" + paint(terminal, Style::bold, "What neighbours cost") +
                     "  (latency at the percentile of the Slo, on the same slices)\n" + table.render(terminal, 2);
  if (list.size() > kServicesLong) {
    text += fmt::format("  ... and {} more that suffer less; --output json has all.\n", list.size() - kServicesLong);
  }
  return text;
}

// Pictures first, numbers below, and the verdict last, where a terminal leaves the cursor.
std::string plan_text(const PlanStory& story, const Terminal& terminal, int indent) {
  const std::string pad(static_cast<std::size_t>(indent), ' ');
  std::string text = mosaics(story, terminal, indent);
  text += "\n" + device_table(story).render(terminal, indent);
  if (has_many_services(story)) text += pad + "Long lists of services are shortened; --output json has all.\n";
  text += "\n" + service_table(story).render(terminal, indent) + footnotes(story, pad);
  const std::string close = too_close_text(story, pad);
  if (!close.empty()) text += "\n" + close;
  return text + "\n" + pad + paint(terminal, Style::bold, verdict_line(story)) + "\n";
}

std::string explanation_text(const PlanStory& story, const Terminal& terminal) {
  const bool headroom = story.problem.options.objective == plan::Objective::headroom;
  // On a fixed fleet the question is not why fewer devices do not suffice but why the rates cannot grow further.
  std::string text = "\n" + paint(terminal, Style::bold, headroom ? "Why not more" : "Why not fewer") + "\n  " +
                     wrap(plan::why_not_fewer(story.problem, story.answer), terminal.width - 2, 2) + "\n";
  text += sharing_text(story, terminal) + neighbours_text(story, terminal);
  if (story.problem.options.rule == plan::Rule::certified) text += certificates_text(story, terminal);
  if (story.relief && !story.relief->empty()) {
    // Relief is either planned again (exact) or limited by a bound (fast). The heading and the columns say which.
    const bool bound = story.relief->front().basis == plan::ReliefBasis::bound;
    text += "\n" + paint(terminal, Style::bold, "If one promise were 20 % longer") +
            (bound ? "  (bounds: as if nothing waited; no plan was made)\n"
             : story.problem.options.rule == plan::Rule::certified ? "  (planned again and certified)\n"
                                                                   : "  (planned again)\n");
    Table table({{"SERVICE"},
                 {"NOW", Align::right},
                 {bound ? "THEN AT LEAST" : "THEN", Align::right},
                 {bound ? "SAVES AT MOST" : "SAVES", Align::right}});
    // In a long list, only those that save something are named.
    std::size_t left_out = 0;
    for (const auto& relief : *story.relief) {
      if (has_many_services(story) && relief.saved() <= 0) {
        ++left_out;
        continue;
      }
      table.add({{relief.service, Style::accent},
                 number_text(relief.price_before),
                 number_text(relief.price_after),
                 number_text(relief.saved())});
    }
    if (!table.empty()) text += table.render(terminal, 2);
    const std::size_t not_tried = story.answer.services.size() - story.relief->size();
    if (left_out > 0) text += fmt::format("  {} services would save nothing.\n", left_out);
    if (not_tried > 0)
      text += fmt::format("  {} services with the least share of the bound were not tried.\n", not_tried);
  }
  text += "\n" + paint(terminal, Style::bold, "How certain the run times are") + "\n";
  // A LatencyModel that interpolates measurements has no intervals.
  if (story.confidence.empty()) {
    return text +
           "  The run times are measurements with linear interpolation, which have no intervals.\n  `tangram learn` "
           "fits a model that has them.\n";
  }
  Table table({{"SERVICE"}, {"RUNS"}, {"LEAST CERTAIN", Align::left, true}, {"MEAN", Align::right}, {"BETWEEN"}});
  for (const auto& c : story.confidence) {
    table.add({{c.service, Style::accent},
               fmt::format("{} of {} measured", c.runs_measured, c.runs),
               c.where + (c.measured ? " (measured)" : ""),
               latency_text(from_milliseconds(c.mean_ms)),
               fmt::format("{} and {} with {:.0f} %", latency_text(from_milliseconds(c.low_ms)),
                           latency_text(from_milliseconds(c.high_ms)), 100 * c.coverage)});
  }
  return text + table.render(terminal, 2);
}

Json plan_json(const PlanStory& story) {
  const auto& answer = story.answer;
  const bool planned = answer.status == plan::PlanStatus::planned;
  Json json{{"status", planned ? "planned" : "infeasible"},
            {"planner", story.planner},
            {"rule", to_string(story.problem.options.rule)},
            {"objective", to_string(story.problem.options.objective)},
            {"memory_headroom", story.problem.options.memory_headroom},
            {"seed", story.seed}};
  json["reason"] = planned ? Json(nullptr) : Json(answer.reason);
  json["infeasible_service"] = answer.service.empty() ? Json(nullptr) : Json(answer.service);
  // An infeasible problem has a reason and no plan, so the remaining keys are absent.
  if (!planned) return json;
  json["devices"] = answer.devices;
  json["price"] = price_per_hour(story);
  json["bound"] = answer.bound > 0 || answer.proved ? Json(answer.bound) : Json(nullptr);
  json["gap"] = answer.bound > 0 || answer.proved ? Json(gap_of(answer)) : Json(nullptr);
  json["proved"] = answer.proved;
  json["among"] = plan::among_text(answer);
  json["headroom"] = answer.headroom;
  json["certifications"] = answer.certifications;
  json["services"] = Json::array();
  for (std::size_t s = 0; s < answer.services.size(); ++s) json["services"].push_back(service_json(story, s));
  json["sharing"] = sharing_json(story);
  if (story.explained) json["explanation"] = explanation_json(story);
  // As the plan file has it, so that a program can save this value and apply it.
  json["plan"] = Json::parse(formats::write_plan(answer.plan));
  return json;
}

std::string checked_plan_text(const plan::Problem& problem, const plan::CertifiedPlan& checked,
                              const std::vector<std::string>& wrong, const Terminal& terminal) {
  Table table({{"SERVICE"},
               {"SLICES", Align::left, true},
               {"SLO", Align::right},
               {"LATENCY", Align::right},
               {"IN TIME", Align::right},
               {"BETWEEN"},
               {"OVER"},
               {"ANSWER"}});
  for (const auto& service : checked.services) {
    const Service& asked = service_of(problem, service.service);
    const auto& verdict = service.verdict;
    // check_plan() begins its sentences with the service.
    const bool doubted = std::ranges::any_of(
        wrong, [&](const std::string& sentence) { return sentence.starts_with(service.service + ": "); });
    const std::string answer = !verdict             ? service.reason
                               : verdict->holds     ? doubted ? "holds when simulated, but see below" : "holds"
                               : verdict->too_close ? "too close to call"
                                                    : "broken";
    const std::size_t sharers = service.shares_with.size();
    table.add({{service.service, Style::accent},
               slices_text(service.groups) + (sharers == 0 ? "" : fmt::format(" with {} more", sharers)),
               promise_text(asked),
               verdict ? latency_text(verdict->latency) : "-",
               verdict ? percent_text(verdict->attainment) : "-",
               verdict ? fmt::format("{:.{}g} and {:.{}g} %", 100 * verdict->attainment_low, share_digits(asked),
                                     100 * verdict->attainment_high, share_digits(asked))
                       : "-",
               verdict ? verdict->view : "-",
               {answer, verdict && verdict->holds && !doubted ? Style::good : Style::bad}});
  }
  std::string text = "\n" + table.render(terminal, 0) + "\n";
  for (const auto& sentence : wrong) text += sentence + "\n";
  const bool open = wrong.empty() && std::ranges::all_of(checked.services, [](const plan::CertifiedService& s) {
                      return s.verdict && (s.verdict->holds || s.verdict->too_close);
                    });
  if (!wrong.empty() && checked.all_hold()) {
    // A low percentile may hold although requests are lost all the time, with those that do not fit rejected.
    text += "A plan must also have the capacity for every sample that arrives, and respect its other limits.\n";
  }
  const char* answer = wrong.empty() && checked.all_hold() ? "every promise holds"
                       : checked.all_hold() ? "every promise holds when simulated, but the plan does not pass its check"
                       : open               ? "too close to call: not every promise could be certified"
                                            : "not every promise holds";
  return text + paint(terminal, Style::bold, answer) + "\n";
}

Json checked_plan_json(const plan::Problem& problem, const plan::CertifiedPlan& checked,
                       const std::vector<std::string>& wrong, std::uint64_t seed) {
  Json services = Json::array();
  for (const auto& service : checked.services) {
    const Service& asked = service_of(problem, service.service);
    services.push_back({{"service", service.service},
                        {"slo_latency_ms", to_milliseconds(asked.slo.latency)},
                        {"slo_percentile", asked.slo.percentile},
                        {"slices", slices_text(service.groups)},
                        {"shares_with", service.shares_with},
                        {"certified", service.verdict ? certificate_json(*service.verdict) : Json(nullptr)},
                        {"reason", service.reason.empty() ? Json(nullptr) : Json(service.reason)}});
  }
  return {{"holds", wrong.empty() && checked.all_hold()},
          {"wrong", wrong},
          {"seed", seed},
          {"services", std::move(services)}};
}

}  // namespace tangram::report
