// One text for each job and one with the names of all, so that a step of one job writes one small row.

#include "serve/training_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "host/descriptor.h"
#include "host/files.h"

namespace tangram::serve {
namespace {

namespace fs = std::filesystem;
using StoreJson = nlohmann::json;

constexpr const char* kNamesKey = "training_jobs";
constexpr std::size_t kLogPart = 64 * 1024;

std::string key_of(const std::string& job) { return "training_job/" + job; }

std::string text_of(const TrainingRecord& record) {
  const TrainingProgress& progress = record.progress;
  StoreJson losses = StoreJson::array();
  for (const auto& point : progress.losses) losses.push_back({point.step, point.loss});
  return StoreJson{{"job", formats::write_training_job(record.job)},
                   {"order", record.order},
                   {"submitted_s", record.submitted_s},
                   {"attained_s", record.attained_s},
                   {"cancelled", record.cancelled},
                   {"step", progress.step},
                   {"steps_lost", progress.steps_lost},
                   {"steps_repeated", progress.steps_repeated},
                   {"generation", progress.generation},
                   {"step_s", progress.step_s},
                   {"parameters_crc", progress.parameters_crc},
                   {"losses", losses},
                   {"done", progress.done},
                   {"problem", progress.problem}}
      .dump(-1, ' ', false, StoreJson::error_handler_t::replace);
}

Result<TrainingRecord> parse_record(const std::string& name, const std::string& text) {
  TrainingRecord record;
  try {
    const StoreJson said = StoreJson::parse(text);
    TANGRAM_TRY(record.job, formats::parse_training_job({name, said.at("job").get<std::string>()}));
    record.order = said.at("order");
    record.submitted_s = said.at("submitted_s");
    record.attained_s = said.at("attained_s");
    record.cancelled = said.at("cancelled");
    TrainingProgress& progress = record.progress;
    progress.step = said.at("step");
    progress.steps_lost = said.at("steps_lost");
    progress.steps_repeated = said.at("steps_repeated");
    progress.generation = said.at("generation");
    progress.step_s = said.at("step_s");
    progress.parameters_crc = said.at("parameters_crc");
    for (const auto& point : said.at("losses")) {
      // A loss that is no number is null in JSON.
      if (point.at(1).is_number()) progress.losses.push_back({point.at(0), point.at(1)});
    }
    progress.done = said.at("done");
    progress.problem = said.at("problem");
  } catch (const StoreJson::exception& problem) {
    return Error{ErrorCode::invalid, fmt::format("the state of training job {}: {}", name, problem.what())};
  }
  return record;
}

}  // namespace

Result<std::unique_ptr<TrainingStore>> TrainingStore::open(const std::string& folder) {
  // Trainers may change their folder.
  const std::string whole = fs::absolute(folder).lexically_normal().string();
  TANGRAM_TRY(auto store, host::StateStore::open(whole));
  if (!store) {
    return Error{ErrorCode::unavailable, fmt::format("--training {}: another server uses this folder", folder)};
  }
  std::unique_ptr<TrainingStore> made(new TrainingStore(whole, std::move(*store)));
  TANGRAM_RETURN_IF_ERROR(made->make_key());
  return made;
}

// Written under its name only when it is whole and ours alone.
Result<Nothing> TrainingStore::make_key() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Error{ErrorCode::unavailable, "the kernel has no random numbers"};
  }
  for (const unsigned char byte : bytes) key_ += fmt::format("{:02x}", byte);
  const std::string path = folder_ + "/submit.key";
  const std::string part = path + ".part";
  unlink(part.c_str());
  const host::Descriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.open() || host::write_all(file.get(), key_) != 0 || rename(part.c_str(), path.c_str()) != 0) {
    return Error{ErrorCode::unavailable, fmt::format("cannot write {}: {}", path, std::strerror(errno))};
  }
  return Nothing{};
}

Result<std::vector<TrainingRecord>> TrainingStore::load() {
  const host::MutexLock lock(mutex_);
  TANGRAM_TRY(const auto list, store_.read(kNamesKey));
  std::vector<TrainingRecord> records;
  if (!list) return records;
  const StoreJson names = StoreJson::parse(*list, nullptr, false);
  if (!names.is_array()) return Error{ErrorCode::invalid, "the list of training jobs cannot be read"};
  for (const auto& name : names) {
    const auto key = name.is_string() ? name.get<std::string>() : std::string();
    TANGRAM_TRY(const auto text, store_.read(key_of(key)));
    if (!text) return Error{ErrorCode::invalid, fmt::format("the state of training job {} is missing", key)};
    TANGRAM_TRY(auto record, parse_record(key, *text));
    records.push_back(std::move(record));
    names_.push_back(key);
  }
  return records;
}

Result<Nothing> TrainingStore::add(const TrainingRecord& record) {
  const std::string folder = folder_of(record.job.name);
  std::error_code error;
  fs::remove_all(folder, error);
  fs::create_directories(folder, error);
  if (error) return Error{ErrorCode::unavailable, fmt::format("cannot make {}: {}", folder, error.message())};
  fs::permissions(folder, fs::perms::owner_all, error);
  return write(record, true);
}

Result<Nothing> TrainingStore::update(const TrainingRecord& record) { return write(record, false); }

Result<Nothing> TrainingStore::write(const TrainingRecord& record, bool added) {
  const host::MutexLock lock(mutex_);
  std::map<std::string, std::string> texts{{key_of(record.job.name), text_of(record)}};
  if (added) {
    std::erase(names_, record.job.name);
    names_.push_back(record.job.name);
    texts[kNamesKey] = StoreJson(names_).dump();
  }
  return store_.write(texts);
}

TrainingLogPart TrainingStore::log_of(const std::string& job, std::uint64_t offset) const {
  const std::string path = folder_of(job) + "/trainers.log";
  const host::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return {{}, offset};
  struct stat facts {};
  if (fstat(file.get(), &facts) == 0 && static_cast<std::uint64_t>(facts.st_size) < offset) offset = 0;
  std::string text(kLogPart, '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), static_cast<off_t>(offset));
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  const std::uint64_t next = offset + text.size();
  return {std::move(text), next};
}

}  // namespace tangram::serve
