// What measurements say of a model that is loaded and does not run: its weights, and the time to load them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "core/measurement.h"

namespace tangram::learn {

// Answers from the columns `weights_mib` and `load_ms`. A model that has them on some slices has the largest of them on
// the others: weights hardly differ between slices.
class LoadingTable {
 public:
  LoadingTable() = default;
  explicit LoadingTable(const Measurements& measurements);

  // Nothing where no row of the model on this device type has the column.
  std::optional<double> weights_mib(std::string_view device, std::string_view mig_profile,
                                    std::string_view model) const;
  std::optional<Duration> load_time(std::string_view device, std::string_view mig_profile,
                                    std::string_view model) const;
  // The smallest peak of one process that was measured: no more than it are weights.
  std::optional<double> memory_least_mib(std::string_view device, std::string_view model) const;

 private:
  struct Row {
    std::optional<double> weights_mib;
    std::optional<double> load_ms;
    std::optional<double> memory_least_mib;
  };
  // The row of the slice, or of the model on any slice.
  const Row* find(std::string_view device, std::string_view mig_profile, std::string_view model) const;

  std::map<std::string, Row, std::less<>> rows_;  // By device, profile and model; an empty profile stands for all.
};

}  // namespace tangram::learn
