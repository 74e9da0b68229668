// Two keys for each row of the file: one for its slice and one for the model on any slice of the device type.

#include "learn/loading.h"

#include <fmt/format.h>

#include <algorithm>

namespace tangram::learn {
namespace {

std::string loading_key(std::string_view device, std::string_view profile, std::string_view model) {
  return fmt::format("{}/{}/{}", device, profile, model);
}

void keep_largest(std::optional<double>& kept, std::optional<double> seen) {
  if (seen && *seen > 0) kept = std::max(kept.value_or(0), *seen);
}

}  // namespace

LoadingTable::LoadingTable(const Measurements& measurements) {
  for (const auto& m : measurements) {
    for (const std::string_view profile : {std::string_view(m.mig_profile), std::string_view()}) {
      Row& row = rows_[loading_key(m.device, profile, m.model)];
      keep_largest(row.weights_mib, m.weights_mib);
      keep_largest(row.load_ms, m.load_ms);
      if (!m.memory_mib || m.out_of_memory() || *m.memory_mib <= 0) continue;
      const double of_one = *m.memory_mib / static_cast<double>(m.processes);
      row.memory_least_mib = std::min(row.memory_least_mib.value_or(of_one), of_one);
    }
  }
}

const LoadingTable::Row* LoadingTable::find(std::string_view device, std::string_view mig_profile,
                                            std::string_view model) const {
  const auto found = rows_.find(loading_key(device, mig_profile, model));
  return found == rows_.end() ? nullptr : &found->second;
}

std::optional<double> LoadingTable::weights_mib(std::string_view device, std::string_view mig_profile,
                                                std::string_view model) const {
  const Row* own = find(device, mig_profile, model);
  if (own != nullptr && own->weights_mib) return own->weights_mib;
  const Row* any = find(device, "", model);
  return any == nullptr ? std::nullopt : any->weights_mib;
}

std::optional<Duration> LoadingTable::load_time(std::string_view device, std::string_view mig_profile,
                                                std::string_view model) const {
  const Row* row = find(device, mig_profile, model);
  if (row == nullptr || !row->load_ms) row = find(device, "", model);
  if (row == nullptr || !row->load_ms) return std::nullopt;
  return from_milliseconds(*row->load_ms);
}

std::optional<double> LoadingTable::memory_least_mib(std::string_view device, std::string_view model) const {
  const Row* any = find(device, "", model);
  return any == nullptr ? std::nullopt : any->memory_least_mib;
}

}  // namespace tangram::learn
