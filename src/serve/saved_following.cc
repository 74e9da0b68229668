#include "serve/saved_following.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "formats/plan_file.h"

namespace tangram::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 2;

Json to_json(const control::ServiceDemand& demand) {
  Json sizes = Json::array();
  for (const auto& [size, count] : demand.mix) sizes.push_back({size, count});
  return {{"rate_per_s", demand.rate_per_s}, {"sizes", sizes}};
}

control::ServiceDemand demand_of(const Json& json) {
  control::ServiceDemand demand;
  demand.rate_per_s = json.at("rate_per_s").get<double>();
  for (const auto& entry : json.at("sizes")) demand.mix[entry.at(0).get<std::int64_t>()] = entry.at(1).get<double>();
  return demand;
}

Json to_json(const std::vector<control::ServiceDemand>& demands) {
  Json list = Json::array();
  for (const auto& demand : demands) list.push_back(to_json(demand));
  return list;
}

std::vector<control::ServiceDemand> demands_of(const Json& json) {
  std::vector<control::ServiceDemand> demands;
  for (const auto& demand : json) demands.push_back(demand_of(demand));
  return demands;
}

Json to_json(const control::ServiceWatch::Memory& memory) {
  return {{"level", memory.forecast.level},
          {"trend", memory.forecast.trend},
          {"newest", memory.forecast.newest},
          {"shortfalls", memory.forecast.shortfalls},
          {"surge_peaks", memory.surge_peaks},
          {"demand", memory.demand},
          {"boost", memory.boost},
          {"quiet", memory.quiet},
          {"quiet_demand", memory.quiet_demand}};
}

control::ServiceWatch::Memory watch_of(const Json& json) {
  control::ServiceWatch::Memory memory;
  memory.forecast = {json.at("level").get<double>(), json.at("trend").get<double>(), json.at("newest").get<double>(),
                     json.at("shortfalls").get<std::vector<double>>()};
  memory.surge_peaks = json.at("surge_peaks").get<std::vector<double>>();
  memory.demand = json.at("demand").get<double>();
  memory.boost = json.at("boost").get<double>();
  memory.quiet = json.at("quiet").get<int>();
  memory.quiet_demand = json.at("quiet_demand").get<double>();
  return memory;
}

// One correction is one row: kind, service, edge, class, factor, spread.
Json to_json(const std::vector<sched::CorrectionMemory>& corrections) {
  Json rows = Json::array();
  for (const auto& c : corrections) {
    rows.push_back({c.kind, c.service.value(), c.edge, c.samples_class, c.factor_ppb, c.spread_ppb});
  }
  return rows;
}

std::vector<sched::CorrectionMemory> corrections_of(const Json& json) {
  std::vector<sched::CorrectionMemory> corrections;
  for (const auto& row : json) {
    corrections.push_back({row.at(0).get<std::string>(), ServiceId(row.at(1).get<std::uint32_t>()),
                           row.at(2).get<std::int64_t>(), row.at(3).get<std::uint32_t>(), row.at(4).get<std::int64_t>(),
                           row.at(5).get<std::int64_t>()});
  }
  return corrections;
}

// Throws what the JSON library throws where something is missing or of another type.
SavedFollowing read(const Json& json) {
  SavedFollowing saved;
  saved.services = json.at("services").get<std::vector<std::string>>();
  saved.planned = demands_of(json.at("planned"));
  for (const auto& watch : json.at("watches")) saved.watches.push_back(watch_of(watch));
  saved.corrections = corrections_of(json.at("corrections"));
  saved.moving = json.at("moving").get<bool>();
  saved.moves_ago_s = json.at("moves_ago_s").get<std::vector<double>>();
  for (const auto& [group, hours] : json.at("group_hours").items()) saved.group_hours[group] = hours.get<double>();
  saved.device_hours = json.at("device_hours").get<double>();
  saved.slice_hours = json.at("slice_hours").get<double>();
  saved.moves = json.at("moves").get<std::uint64_t>();
  saved.moves_undone = json.at("moves_undone").get<std::uint64_t>();
  saved.paused = json.at("paused").get<bool>();
  saved.held = json.at("held").get<bool>();
  saved.last_reason = json.at("last_reason").get<std::string>();
  return saved;
}

}  // namespace

std::string to_text(const SavedFollowing& saved) {
  Json watches = Json::array();
  for (const auto& watch : saved.watches) watches.push_back(to_json(watch));
  Json previous = nullptr;
  if (saved.previous) {
    previous = {{"plan", formats::write_plan(saved.previous->plan)},
                {"planned", to_json(saved.previous->planned)},
                {"reason", saved.previous->reason}};
  }
  Json group_hours = Json::object();
  for (const auto& [group, hours] : saved.group_hours) group_hours[group] = hours;
  return Json{{"version", kVersion},
              {"services", saved.services},
              {"planned", to_json(saved.planned)},
              {"previous", previous},
              {"moving", saved.moving},
              {"watches", watches},
              {"corrections", to_json(saved.corrections)},
              {"moves_ago_s", saved.moves_ago_s},
              {"group_hours", group_hours},
              {"device_hours", saved.device_hours},
              {"slice_hours", saved.slice_hours},
              {"moves", saved.moves},
              {"moves_undone", saved.moves_undone},
              {"paused", saved.paused},
              {"held", saved.held},
              {"last_reason", saved.last_reason},
              {"plan", formats::write_plan(saved.plan)}}
      .dump();
}

Result<SavedFollowing> parse_saved_following(const std::string& text) {
  const auto wrong = [](const std::string& why) { return Error{ErrorCode::invalid, "the saved state: " + why}; };
  try {
    const Json json = Json::parse(text);
    if (json.at("version").get<int>() != kVersion) return wrong(fmt::format("expected version {}", kVersion));
    SavedFollowing saved = read(json);
    const std::size_t count = saved.services.size();
    if (saved.planned.size() != count || saved.watches.size() != count) {
      return wrong("as many demands and forecasts as services are expected");
    }
    const auto known = [&](const sched::CorrectionMemory& c) { return c.service.index() < count; };
    if (!std::ranges::all_of(saved.corrections, known)) return wrong("a correction is of no service");
    TANGRAM_TRY(saved.plan, formats::parse_plan({"the saved plan", json.at("plan").get<std::string>()}));
    if (const Json& previous = json.at("previous"); !previous.is_null()) {
      SavedPlan before;
      TANGRAM_TRY(before.plan, formats::parse_plan({"the saved plan before", previous.at("plan").get<std::string>()}));
      before.planned = demands_of(previous.at("planned"));
      before.reason = previous.at("reason").get<std::string>();
      if (before.planned.size() != count) return wrong("as many demands as services are expected");
      saved.previous = std::move(before);
    }
    return saved;
  } catch (const nlohmann::json::exception& exception) {
    return wrong(exception.what());
  }
}

SavedWriter::SavedWriter(Write write) : write_(std::move(write)), thread_([this] { run(); }) {}

SavedWriter::~SavedWriter() {
  {
    const host::MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SavedWriter::put(SavedFollowing saved) {
  {
    const host::MutexLock lock(mutex_);
    waiting_ = std::move(saved);
  }
  changed_.notify_all();
}

std::string SavedWriter::problem() const {
  const host::MutexLock lock(mutex_);
  return problem_;
}

void SavedWriter::run() {
  while (true) {
    std::optional<SavedFollowing> next;
    {
      const host::MutexLock lock(mutex_);
      while (!waiting_ && !stopping_) changed_.wait(mutex_);
      next = std::exchange(waiting_, std::nullopt);
    }
    if (!next) return;
    const auto written = write_(*next);
    const host::MutexLock lock(mutex_);
    problem_ = written ? "" : written.error().message;
  }
}

}  // namespace tangram::serve
