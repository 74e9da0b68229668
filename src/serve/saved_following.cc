#include "serve/saved_following.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "formats/plan_file.h"

namespace tangram::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

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

// Throws what the JSON library throws where something is missing or of another type.
SavedFollowing read(const Json& json) {
  SavedFollowing saved;
  saved.services = json.at("services").get<std::vector<std::string>>();
  for (const auto& demand : json.at("planned")) saved.planned.push_back(demand_of(demand));
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
  Json planned = Json::array();
  for (const auto& demand : saved.planned) planned.push_back(to_json(demand));
  return Json{{"version", kVersion},
              {"services", saved.services},
              {"planned", planned},
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
    if (saved.planned.size() != saved.services.size()) return wrong("as many demands as services are expected");
    TANGRAM_TRY(saved.plan, formats::parse_plan({"the saved plan", json.at("plan").get<std::string>()}));
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

void SavedWriter::run() {
  while (true) {
    std::optional<SavedFollowing> next;
    {
      const host::MutexLock lock(mutex_);
      while (!waiting_ && !stopping_) changed_.wait(mutex_);
      next = std::exchange(waiting_, std::nullopt);
    }
    if (!next) return;
    write_(*next);
  }
}

}  // namespace tangram::serve
