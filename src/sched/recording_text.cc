// The text form of configurations and deployments in a recording, one JSON document per line.
//
// Invariant: read(write(x)) equals x in every field that a decision depends on, or a replay would decide differently. A
// recording may come from anywhere, so reading checks every index and length before the scheduler relies on it.
#include "sched/recording_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "formats/document.h"
#include "sched/policy.h"
#include "sched/scheduler_description.h"

namespace tangram::sched {
namespace {

// Numbers are whole nanoseconds and indices: text keeps them exactly, as decimal fractions would not.
std::string join_numbers(const std::vector<std::int64_t>& numbers) {
  return fmt::format("{}", fmt::join(numbers, " "));
}

// The predictions of one service on one pool: one text for each bucket, for 1, 2, ... samples. A number each would
// make a node of the document each; a plan of 100 pools with batches up to 4096 would exceed kDocumentNodesMax.
std::vector<std::string> rows_of(const LatencyTable& table, std::size_t buckets, bool p99) {
  std::vector<std::string> rows;
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    std::vector<std::int64_t> row;
    for (std::int32_t n = 1; n <= table.samples_max(); ++n) {
      row.push_back(p99 ? table.p99_ns(bucket, n) : table.mean_ns(bucket, n));
    }
    rows.push_back(join_numbers(row));
  }
  return rows;
}

// nullopt unless both have the same number of rows, all of one length between 1 and kBatchMax.
std::optional<LatencyTable> table_of(const std::vector<std::string>& mean, const std::vector<std::string>& p99) {
  if (mean.empty() || mean.size() != p99.size()) return std::nullopt;
  std::optional<LatencyTable> table;
  for (std::size_t bucket = 0; bucket < mean.size(); ++bucket) {
    const auto means = read_numbers(mean[bucket]);
    const auto p99s = read_numbers(p99[bucket]);
    if (!means || !p99s || means->size() != p99s->size()) return std::nullopt;
    if (means->empty() || std::ssize(*means) > kBatchMax) return std::nullopt;
    const auto samples_max = static_cast<std::int32_t>(means->size());
    if (!table) table.emplace(mean.size(), samples_max);
    if (table->samples_max() != samples_max) return std::nullopt;
    for (std::int32_t n = 1; n <= samples_max; ++n) {
      const auto at = static_cast<std::size_t>(n - 1);
      table->set(bucket, n, {Duration((*means)[at]), Duration((*p99s)[at])});
    }
  }
  return table;
}

// No batch limit may exceed its row of the table: the scheduler looks run times up without a check.
bool within(const std::vector<std::int32_t>& batch_max, const LatencyTable& table) {
  return std::ranges::all_of(batch_max, [&](std::int32_t n) { return n >= 0 && n <= table.samples_max(); });
}

// "device pool profile start process".
std::string place_text(const Place& place) {
  return join_numbers(
      {place.device.value(), place.pool.value(), place.slice.profile, place.slice.start, place.process});
}

std::optional<Place> place_of(std::string_view text) {
  const auto n = read_numbers(text);
  if (!n || n->size() != 5) return std::nullopt;
  // Checked before the casts below, which would wrap.
  if (std::ranges::any_of(*n, [](std::int64_t number) { return number < 0 || number > INT32_MAX; }))
    return std::nullopt;
  // Profile and start are 16 bits wide; a larger number would be cut silently.
  if (std::max((*n)[2], (*n)[3]) > UINT16_MAX) return std::nullopt;
  const Slice slice{static_cast<std::uint16_t>((*n)[2]), static_cast<std::uint16_t>((*n)[3])};
  return Place{DeviceId(static_cast<std::uint32_t>((*n)[0])), PoolId(static_cast<std::uint32_t>((*n)[1])), slice,
               static_cast<int>((*n)[4])};
}

// True if every index in the deployment is valid. Deployments of experiments may have places without any device.
bool consistent(const Deployment& d) {
  const auto is_pool = [&](PoolId pool) { return pool.index() < d.pools.size(); };
  for (const auto& service : d.services) {
    if (!std::ranges::all_of(service.pools, is_pool)) return false;
    if (service.joins && service.joins->index() >= d.services.size()) return false;
  }
  for (const auto& pool : d.pools) {
    for (const auto& entry : pool.services) {
      if (entry.service.index() >= d.services.size() || entry.model.copy.index() >= d.services.size()) return false;
      if (entry.batch_max.size() != d.services[entry.service.index()].edges.size()) return false;
    }
  }
  return std::ranges::all_of(d.places, [&](const Place& place) {
    return is_pool(place.pool) && (d.devices.empty() || place.device.index() < d.devices.size());
  });
}

}  // namespace

// The descriptions bind all fields of their struct, so a new field does not compile until it is written here. Types
// that `formats` does not know pass through a local variable: filled before the field is visited, read back after it.

template <typename Visitor>
void describe(Visitor& v, DeployedDevice& c) {
  auto& [name, geometry, layout] = c;
  std::vector<std::string> profiles;
  for (const auto& profile : geometry.profiles) profiles.push_back(profile.name);
  std::string cuts = write_layout(layout);
  v.field("name", name, {.required = true}, "The name of the device.");
  v.field("profiles", profiles, {.required = true}, "Names of the profiles that it offers.");
  v.field("layout", cuts, {.required = true}, "The cuts, PROFILE@START with profiles by index.");
  // Only the names of profiles are recorded; the rest of a geometry stays empty.
  geometry.profiles.resize(profiles.size());
  for (std::size_t i = 0; i < profiles.size(); ++i) geometry.profiles[i].name = profiles[i];
  const auto read = read_layout(cuts);
  v.rule(read.has_value(), {"layout"}, "must be PROFILE@START, several with spaces between them");
  if (read) layout = *read;
}

template <typename Visitor>
void describe(Visitor& v, DeployedService& c) {
  auto& [name, slo, priority, padding, edges, pools, samples_max, joins, rate_max] = c;
  std::optional<std::uint32_t> joins_index = joins ? std::optional(joins->value()) : std::nullopt;
  auto& [latency, percentile, window_s, late_limit] = slo;
  int padding_index = static_cast<int>(padding);
  std::vector<std::uint32_t> pool_indices;
  for (const auto pool : pools) pool_indices.push_back(pool.value());
  v.field("name", name, {.required = true}, "The name that clients use.");
  v.field("slo_ns", latency, {.required = true}, "The promised latency.");
  v.field("percentile", percentile, {.required = true}, "The share of requests that the promise covers.");
  v.field("window_s", window_s, "The window in which the promise holds, too; 0: none.");
  v.field("late_limit", late_limit, {.min = 1}, "Times the promised latency within which late requests are answered.");
  v.field("priority", priority, {.required = true}, "Requests of a higher priority go first.");
  v.field("padding", padding_index, {.min = 0, .max = static_cast<int>(Padding::none), .required = true},
          "The padding, as the value of its enumerator.");
  v.field("edges", edges, {.required = true}, "The upper edges of its buckets, ascending.");
  v.field("pools", pool_indices, {.required = true}, "The pools that serve any of its buckets.");
  v.field("samples_max", samples_max, {.required = true}, "The largest request that some pool takes.");
  v.field("joins", joins_index, "The service whose queues and batches its requests share.");
  v.field("rate_max_per_s", rate_max, {.min = 0}, "Requests a second beyond which it is rejected; 0: no limit.");
  joins = joins_index ? std::optional(ServiceId(*joins_index)) : std::nullopt;
  padding = static_cast<Padding>(padding_index);
  pools.clear();
  for (const auto index : pool_indices) pools.emplace_back(index);
}

template <typename Visitor>
void describe(Visitor& v, ModelCopy& c) {
  // Whether it stays is not recorded: in all that is recorded it does.
  auto& [copy, on_demand, load, weights_mib, working_mib, stays] = c;
  std::uint32_t copy_index = copy.value();
  v.field("copy", copy_index, "The first service that runs the same copy.");
  v.field("on_demand", on_demand, "Loaded by its first batch.");
  v.field("load_ns", load, "How long it takes to load; 0: not known.");
  v.field("weights_mib", weights_mib, {.min = 0}, "The memory of its weights; 0: not known.");
  v.field("working_mib", working_mib, {.min = 0}, "The memory of its largest batch, beyond the weights.");
  copy = ServiceId(copy_index);
}

template <typename Visitor>
void describe(Visitor& v, PoolService& c) {
  auto& [service, batch_max, latency, model] = c;
  std::uint32_t service_index = service.value();
  std::vector<std::string> mean = rows_of(latency, batch_max.size(), false);
  std::vector<std::string> p99 = rows_of(latency, batch_max.size(), true);
  v.field("service", service_index, {.required = true}, "The index of the service.");
  v.field("batch_max", batch_max, {.required = true}, "The largest batch of each bucket.");
  v.field("mean_ns", mean, {.required = true}, "Mean run times of each bucket, for 1, 2, ... samples.");
  v.field("p99_ns", p99, {.required = true}, "The p99 of the run times.");
  v.field("model", model, "The copy of the network that it runs.");
  service = ServiceId(service_index);
  const auto table = table_of(mean, p99);
  v.rule(table && mean.size() == batch_max.size() && within(batch_max, *table), {"mean_ns", "p99_ns", "batch_max"},
         "must have a row for each bucket, all of one length that no batch exceeds");
  if (table) latency = *table;
}

template <typename Visitor>
void describe(Visitor& v, Pool& c) {
  auto& [kind, compute_slices, weight, services, memory_mib] = c;
  v.field("kind", kind, {.required = true}, "Device type and profile.");
  v.field("compute_slices", compute_slices, {.required = true}, "The compute slices of each slice.");
  v.field("weight", weight, {.required = true}, "The share of the device.");
  v.field("services", services, {.required = true}, "The services on its slices.");
  v.field("memory_mib", memory_mib, {.min = 0}, "The memory of one process; 0: not known.");
}

template <typename Visitor>
void describe(Visitor& v, Deployment& c) {
  auto& [devices, services, pools, places] = c;
  std::vector<std::string> texts;
  for (const auto& place : places) texts.push_back(place_text(place));
  v.field("devices", devices, {.required = true}, "The devices.");
  v.field("services", services, {.required = true}, "The services.");
  v.field("pools", pools, {.required = true}, "Pools of equal slices.");
  v.field("places", texts, {.required = true}, "DEVICE POOL PROFILE START PROCESS of each slice.");
  places.clear();
  for (const auto& text : texts) {
    const auto place = place_of(text);
    v.rule(place.has_value(), {"places"}, "must be five whole numbers");
    if (place) places.push_back(*place);
  }
  // Last, because it follows the indices that the fields above have read.
  v.rule(consistent(c), {"devices", "services", "pools", "places"}, "the parts of the deployment do not agree");
}

namespace {

// to_json breaks lines between small parts. Text escapes its line ends, so each one here is such a break.
std::string one_line(const std::string& json) {
  std::string line;
  bool indent = false;
  for (const char c : json) {
    indent = c == '\n' || (indent && c == ' ');
    if (!indent) line += c;
  }
  return line;
}

template <typename T>
std::string write_line(const T& value) {
  return one_line(formats::to_json(formats::write_document(value, formats::Defaults::keep)));
}

template <typename T>
Result<T> read_line(const char* name, std::string_view text) {
  formats::Problems problems(name);
  const auto root = formats::parse_json({name, std::string(text)}, problems);
  T value{};
  if (root) formats::read_document(*root, problems, value);
  if (!problems.empty()) return problems.error();
  return value;
}

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const auto& policy : policies()) names.emplace_back(policy.name);
  return names;
}

std::string write_config(const SchedulerConfig& config) { return write_line(config); }
std::string write_deployment(const Deployment& deployment) { return write_line(deployment); }

Result<SchedulerConfig> read_config(std::string_view text) { return read_line<SchedulerConfig>("config", text); }
Result<Deployment> read_deployment(std::string_view text) { return read_line<Deployment>("deployment", text); }

// "0@0 2@4": profile 0 at unit 0, profile 2 at unit 4. A layout without slices is the word `empty`.
std::string write_layout(const Layout& layout) {
  std::string text;
  for (const auto& slice : layout.slices) {
    text += fmt::format("{}{}@{}", text.empty() ? "" : " ", slice.profile, slice.start);
  }
  return text.empty() ? "empty" : text;
}

std::optional<Layout> read_layout(std::string_view text) {
  Layout layout;
  if (text == "empty") return layout;
  for (const auto cut : text::split(text, ' ')) {
    // Without an '@' both parts are bounded by the end of the text, and the second does not parse.
    const auto at = std::min(cut.find('@'), cut.size());
    const auto profile = text::parse_integer(cut.substr(0, at));
    const auto start = text::parse_integer(cut.substr(std::min(at + 1, cut.size())));
    if (!profile || !start || std::min(*profile, *start) < 0) return std::nullopt;
    if (std::max(*profile, *start) > UINT16_MAX) return std::nullopt;
    layout.slices.push_back({static_cast<std::uint16_t>(*profile), static_cast<std::uint16_t>(*start)});
  }
  return layout;
}

std::optional<std::vector<std::int64_t>> read_numbers(std::string_view text) {
  std::vector<std::int64_t> numbers;
  while (!text.empty()) {
    if (text.front() == ' ') {
      text.remove_prefix(1);
      continue;
    }
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{}) return std::nullopt;
    numbers.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return numbers;
}

// Removes the first word and the blank behind it from `text`, and returns the word.
std::string_view take_word(std::string_view& text) {
  const auto end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

}  // namespace tangram::sched
