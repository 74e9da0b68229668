// `tangram demo`: the examples that come with Tangram, shown at work.
//
// A demo is a list of scenes. Each takes the same inputs, prints, and knows nothing of the others; a new
// ability of Tangram is shown by one more scene.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "cli/geometry_view.h"
#include "cli/inputs.h"
#include "cli/mosaic.h"
#include "cli/program.h"
#include "cli/table.h"
#include "cli/text_width.h"
#include "cli/tile.h"
#include "formats/fleet_file.h"

namespace tangram::cli {
namespace {

struct Options {
  std::string fleet;
  std::string services;
};

struct Inputs {
  std::string fleet_path;
  std::string services_path;
  Fleet fleet;
  Workload workload;
};

// A group with what follows from it, for every scene alike. Its layout's profiles are indices into `geometry`.
struct Group {
  const DeviceGroup& group;
  Geometry geometry;
  Layout layout;  // Empty where it is not cut yet.
};

std::vector<Group> groups_of(const Inputs& inputs) {
  std::vector<Group> groups;
  for (const auto& group : inputs.fleet.groups) {
    groups.push_back({group, formats::group_geometry(group, this_host()), group.layout.value_or(Layout{})});
  }
  return groups;
}

std::string count_text(const DeviceGroup& group) {
  return group.count ? fmt::format("{} x {}", *group.count, group.name) : "any number of " + group.name;
}

void scene_title(Session& session, int number, const std::string& text, const std::string& more) {
  session.print(fmt::format("\n{}  {}\n", paint(session.terminal, Style::bold, fmt::format("{}. {}", number, text)),
                            paint(session.terminal, Style::dim, more)));
}

// The path as one would type it here, where that is shorter.
std::string near_path(const std::string& path) {
  std::error_code error;
  const std::string relative = std::filesystem::proximate(path, error).string();
  return error || relative.starts_with("..") ? path : relative;
}

// The fleet as it is cut today.
void show_fleet(Session& session, int number, const Inputs& inputs) {
  scene_title(session, number, "The fleet", near_path(inputs.fleet_path));
  for (const auto& [group, geometry, layout] : groups_of(inputs)) {
    const std::string price =
        group.price_per_hour > 0 ? fmt::format(", {:.2f} an hour each", group.price_per_hour) : "";
    session.print(fmt::format("\n  {}: {}{}\n", paint(session.terminal, Style::accent, count_text(group)),
                              geometry.title, price));
    const MosaicRow row{layout, "", ""};
    session.print(draw_mosaic(geometry, {&row, 1}, session.terminal, {.indent = 2}));
  }
}

std::string size_text(const SizeDistribution& distribution) {
  if (const auto* constant = std::get_if<ConstantSize>(&distribution)) return fmt::format("{}", constant->size);
  if (const auto* log_normal = std::get_if<LogNormalSize>(&distribution)) {
    return fmt::format("about {:.0f}, up to {}", log_normal->median, log_normal->max);
  }
  return std::holds_alternative<HistogramSize>(distribution) ? "from a histogram" : "from its trace";
}

std::string bar(double share, int width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = std::max(1, static_cast<int>(share * width * 8));
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  return text + kEighths[eighths % 8];
}

// What is to be served, and how much of it.
void show_services(Session& session, int number, const Inputs& inputs) {
  constexpr int kBarWidth = 16;
  scene_title(session, number, "The services", near_path(inputs.services_path));
  double largest = 0;
  for (const auto& service : inputs.workload.services) largest = std::max(largest, mean_rate_per_s(service.traffic));
  Table table(
      {{"SERVICE"}, {"MODEL", Align::left, true}, {"PROMISE"}, {"INPUT SIZE"}, {"PER S", Align::right}, {"LOAD"}});
  for (const auto& service : inputs.workload.services) {
    const double rate = mean_rate_per_s(service.traffic);
    table.add({{service.name, Style::accent},
               service.model,
               fmt::format("p{} {} ms", text::shortest(service.slo.percentile),
                           text::shortest(to_milliseconds(service.slo.latency))),
               size_text(service.input_size),
               rate < 10 ? fmt::format("{:.1f}", rate) : fmt::format("{:.0f}", rate),
               {largest > 0 ? bar(rate / largest, kBarWidth) : "", Style::good}});
  }
  session.print("\n" + table.render(session.terminal, 2));
}

bool contains(const Layout& whole, const Layout& part) {
  return std::ranges::all_of(
      part.slices, [&](const Slice& slice) { return std::ranges::find(whole.slices, slice) != whole.slices.end(); });
}

// The ways to fill what is left of the device. None where a host has too many to count.
std::vector<Layout> ways_to_fill(const Geometry& geometry, const Layout& layout) {
  auto maximal = maximal_layouts(geometry);
  if (!maximal) return {};
  std::erase_if(*maximal, [&](const Layout& candidate) { return !contains(candidate, layout); });
  sort_for_display(geometry, *maximal);
  return std::move(*maximal);
}

// The group with only its plain profiles, where the layout allows: fewer rows, the same point.
Group simplest(const Group& whole) {
  const std::string text = to_string(whole.geometry, whole.layout);
  Geometry base = restrict_to(whole.geometry, ProfileSet::base);
  ParsedLayout parsed = parse_layout(base, text);
  if (!parsed.problems.empty()) return whole;
  return {whole.group, std::move(base), std::move(parsed.layout)};
}

// What each device could still become.
void show_free_layouts(Session& session, int number, const Inputs& inputs) {
  constexpr std::size_t kRowsMax = 6;
  scene_title(session, number, "What is still free", "every way to fill the rest of a device");
  for (const auto& whole : groups_of(inputs)) {
    const Group group = simplest(whole);
    const auto ways = ways_to_fill(group.geometry, group.layout);
    const std::string name = paint(session.terminal, Style::accent, group.group.name);
    if (ways.size() == 1 && ways.front() == group.layout) {
      session.print(fmt::format("\n  {}: full\n", name));
      continue;
    }
    session.print(fmt::format("\n  {}: {}\n", name,
                              ways.empty() ? "more ways than can be listed" : fmt::format("{} ways", ways.size())));
    std::vector<MosaicRow> rows;
    for (std::size_t i = 0; i < std::min(ways.size(), kRowsMax); ++i) rows.push_back({ways[i], "", ""});
    session.print(draw_mosaic(group.geometry, rows, session.terminal, {.indent = 2, .ruler = false}));
    if (ways.size() > kRowsMax) session.print(fmt::format("    ... and {} more\n", ways.size() - kRowsMax));
  }
}

// Where the next small slice goes so that large ones stay possible.
void show_next_slice(Session& session, int number, const Inputs& inputs) {
  scene_title(session, number, "Where the next slice goes", "so that the largest ones stay possible");
  Table table({{"DEVICE"}, {"NEXT"}, {"GOES TO"}, {"THEN STILL FITS", Align::left, true}});
  for (const auto& whole : groups_of(inputs)) {
    const Group group = simplest(whole);
    const auto& [device, geometry, layout] = group;
    const std::string& smallest = geometry.profiles.front().name;
    const auto advice = advise_placement(geometry, layout, 0);
    if (!advice) {
      table.add({{device.name, Style::accent}, smallest, "nowhere: full", ""});
      continue;
    }
    const Layout after = with_slice(geometry, layout, *advice);
    std::string room = "nothing";
    for (std::size_t i = geometry.profiles.size(); i-- > 0 && room == "nothing";) {
      const auto places = places_left(geometry, after, i);
      if (!places.empty()) room = fmt::format("{} at {}", geometry.profiles[i].name, starts_text(places));
    }
    table.add({{device.name, Style::accent}, smallest, fmt::format("unit {}", advice->start), room});
  }
  session.print("\n" + table.render(session.terminal, 2));
}

using Scene = void (*)(Session&, int, const Inputs&);
// In the order of the show.
constexpr Scene kScenes[] = {show_fleet, show_services, show_free_layouts, show_next_slice};

Json demo_json(const Inputs& inputs) {
  Json devices = Json::array();
  for (const auto& whole : groups_of(inputs)) {
    const Group group = simplest(whole);
    const auto advice = advise_placement(group.geometry, group.layout, 0);
    const auto ways = ways_to_fill(group.geometry, group.layout);
    devices.push_back({{"name", group.group.name},
                       {"type", group.group.type},
                       {"count", group.group.count ? Json(*group.group.count) : Json(nullptr)},
                       {"layout", to_string(group.geometry, group.layout)},
                       {"ways_to_fill", ways.empty() ? Json(nullptr) : Json(ways.size())},
                       {"next_slice", group.geometry.profiles.front().name},
                       {"next_slice_start", advice ? Json(advice->start) : Json(nullptr)}});
  }
  Json services = Json::array();
  for (const auto& service : inputs.workload.services) {
    services.push_back({{"name", service.name},
                        {"model", service.model},
                        {"slo_latency_ms", to_milliseconds(service.slo.latency)},
                        {"slo_percentile", service.slo.percentile},
                        {"rate_per_s", mean_rate_per_s(service.traffic)}});
  }
  return {{"fleet", std::move(devices)}, {"services", std::move(services)}};
}

Result<Inputs> load(const Options& options) {
  Inputs inputs{options.fleet, options.services, {}, {}};
  if (inputs.fleet_path.empty() || inputs.services_path.empty()) {
    const auto examples = examples_directory();
    if (!examples) return examples.error();
    if (inputs.fleet_path.empty()) inputs.fleet_path = *examples + "/fleet.yaml";
    if (inputs.services_path.empty()) inputs.services_path = *examples + "/services.yaml";
  }
  auto fleet = load_fleet(inputs.fleet_path);
  if (!fleet) return fleet.error();
  auto workload = load_workload(inputs.services_path);
  if (!workload) return workload.error();
  inputs.fleet = std::move(*fleet);
  inputs.workload = std::move(*workload);
  return inputs;
}

ExitCode run(Session& session, const Options& options) {
  const auto inputs = load(options);
  if (!inputs) return session.fail(inputs.error());
  if (session.structured()) {
    session.print_value(demo_json(*inputs));
    return ExitCode::done;
  }
  session.print(paint(session.terminal, Style::bold, "Tangram") + ": GPUs are cut, and every piece has its place.\n");
  int number = 1;
  for (const Scene scene : kScenes) scene(session, number++, *inputs);
  session.remark("\nNext: tangram geometry a100-80gb, tangram doctor, tangram --help\n");
  return ExitCode::done;
}

}  // namespace

void add_demo(Program& program) {
  const auto options = std::make_shared<Options>();
  CLI::App& verb = program.add_verb(
      {.name = "demo",
       .group = "Look",
       .summary = "a short show of a small fleet and its services",
       .description =
           "Takes the example fleet and services that come with Tangram, or yours, and shows the devices as they are "
           "cut, "
           "the load of the services, how the rest of each device could be cut, and where the next slice should go.",
       .examples = {{"tangram demo", "The examples."},
                    {"tangram demo --fleet fleet.yaml --services services.yaml", "The same with your own files."}}},
      [options](Session& session) { return run(session, *options); });
  program.offers_files(
      verb.add_option("--fleet", options->fleet, "The fleet; the example without it.")->type_name("FILE"));
  program.offers_files(
      verb.add_option("--services", options->services, "The services; the example without it.")->type_name("FILE"));
}

}  // namespace tangram::cli
