// `tangram geometry`: what a device can be cut into.
//
// The verb answers four questions: which device types exist (no TYPE), which layouts one type permits (TYPE), what
// still fits beside a given layout (--layout), and where one more slice should start (--place). All answers are
// computed from tables and need no GPU. A host's cores are a device as well; it has so many layouts that listing them
// fails from a few cores on, and the verb then still shows its profiles.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "adapters/cpu_host/cpu_host.h"
#include "base/text.h"
#include "cli/program.h"
#include "host/files.h"
#include "report/geometry_view.h"
#include "report/mosaic.h"
#include "report/mosaic_svg.h"
#include "report/tile.h"

namespace tangram::cli {
namespace geometry_verb {
namespace {

constexpr std::size_t kBoxedRowsMax = 24;  // With more rows, lines between them would double the height.
// Enough for every maximal layout of the base profiles of a GPU, and still a few screens at most.
constexpr std::size_t kLimitDefault = 64;

struct Options {
  std::string type;
  std::string set;  // Empty: base, or the smallest set that knows the names of --layout and --place.
  std::string layouts = "maximal";
  std::string layout;
  bool layout_given = false;
  std::string place;
  std::string svg;
  bool count = false;
  int cores = 0;
  std::size_t limit = kLimitDefault;
};

// --cores replaces only the number of cores. Whether quotas can be set, and so whether cores are cut in quarters, stays
// that of this machine.
Geometry host_geometry(const Options& options) {
  CpuHost host = adapters::to_cpu_host(adapters::probe_cpu_host());
  if (options.cores > 0) host.cores = options.cores;
  return cpu_geometry(host);
}

// The whole geometry of the type, with the profiles of all sets.
Result<Geometry> geometry_for(const Options& options) {
  if (options.type == "cpu") return host_geometry(options);
  if (options.cores > 0) return Error{ErrorCode::invalid, "--cores applies only to the type cpu"};
  if (const Geometry* found = find_geometry(options.type)) return *found;
  const auto names = device_type_names();
  // Types have similar names, such as a100-40gb and a100-80gb, so near misses are common.
  const auto near = text::nearest(options.type, names);
  return Error{ErrorCode::invalid,
               fmt::format("unknown device type \"{}\"{}; known: {}", options.type,
                           near ? fmt::format(", did you mean {}?", *near) : "", fmt::join(names, ", "))};
}

// The table marks which numbers were verified, because some of them come from documents only.
ExitCode list_types(Session& session) {
  // The host comes last: it is the only type that depends on the machine.
  std::vector<Geometry> all(known_geometries().begin(), known_geometries().end());
  all.push_back(host_geometry({}));
  if (session.structured()) {
    report::Json list = report::Json::array();
    for (const auto& geometry : all) list.push_back(report::geometry_json(geometry));
    session.print_value(list);
    return ExitCode::done;
  }
  session.print(report::catalog_table(all).render(session.terminal));
  session.remark(
      "\nP placements, S multiprocessors, M usable memory: ✓ read from real boards, ? unverified, - unknown.\nTo "
      "draw the layouts of one type: tangram geometry a100-80gb\n");
  return ExitCode::done;
}

// What is listed: layouts, or multisets of profiles, each with one layout that realises it. If `multisets` is not empty
// it has the same length as `layouts`.
struct Listing {
  std::vector<Layout> layouts;
  std::vector<Multiset> multisets;  // Empty where layouts themselves are listed.
};

// `kind` is one of --layouts. Errors: the geometry has too many layouts to enumerate, as a host with many cores does.
Result<Listing> list_layouts(const Geometry& geometry, const std::string& kind) {
  Listing listing;
  if (kind == "valid" || kind == "maximal") {
    TANGRAM_TRY(auto layouts, kind == "valid" ? all_layouts(geometry) : maximal_layouts(geometry));
    listing.layouts = std::move(layouts);
    report::sort_for_display(geometry, listing.layouts);
    return listing;
  }
  TANGRAM_TRY(auto multisets, kind == "pareto" ? pareto_multisets(geometry) : distinct_multisets(geometry));
  // Show the largest profiles first: profiles are in ascending order, so compare the counts from the back.
  std::ranges::sort(multisets, [](const Multiset& a, const Multiset& b) {
    return std::lexicographical_compare(b.rbegin(), b.rend(), a.rbegin(), a.rend());
  });
  for (const auto& multiset : multisets) {
    // Every multiset comes from a valid layout, so this search always succeeds.
    const auto layout = realise(geometry, multiset);
    TANGRAM_CHECK(layout.has_value(), "a multiset of a valid layout has a layout");
    listing.layouts.push_back(*layout);
  }
  listing.multisets = std::move(multisets);
  return listing;
}

// The empty layout counts as valid, and so does the empty multiset; the titles say so, because the counts look off by
// one.
std::string listing_title(const std::string& kind, std::size_t count) {
  if (kind == "valid") return fmt::format("{} valid layouts, the empty one included", count);
  if (kind == "maximal") return fmt::format("{} maximal layouts: no slice can be added", count);
  if (kind == "pareto") return fmt::format("{} multisets of slices that no other contains", count);
  return fmt::format("{} distinct multisets of slices, the empty one included", count);
}

// Draws at most --limit rows. The title counts all layouts, so a cut list is recognisable as such.
std::string draw_listing(const Geometry& geometry, const Listing& listing, const Options& options,
                         const Terminal& terminal) {
  const std::size_t shown =
      options.limit == 0 ? listing.layouts.size() : std::min(options.limit, listing.layouts.size());
  // A host has no compute slices apart from its units, so the column of used slices would repeat the picture.
  const bool host = geometry.units_per_core > 0;
  std::vector<report::MosaicRow> rows;
  for (std::size_t i = 0; i < shown; ++i) {
    const Layout& layout = listing.layouts[i];
    const std::string used =
        host ? "" : fmt::format("{}/{}", compute_slices_used(geometry, layout), geometry.compute_slices);
    rows.push_back({layout, fmt::format("{}", i + 1), used});
  }
  std::string text = "\n" + paint(terminal, Style::bold, listing_title(options.layouts, listing.layouts.size())) + "\n";
  text +=
      report::draw_mosaic(geometry, rows, terminal,
                          {.left_title = "unit", .right_title = host ? "" : "slices", .boxed = shown <= kBoxedRowsMax});
  if (shown < listing.layouts.size()) {
    text += fmt::format("... and {} more; --limit 0 shows all\n", listing.layouts.size() - shown);
  }
  return text;
}

// Prints only the counts, on one line each. Errors: as for list_layouts().
Result<ExitCode> count(Session& session, const Geometry& geometry) {
  TANGRAM_TRY(const auto counts, count_layouts(geometry));
  if (session.structured()) {
    session.print_value(report::counts_json(counts), true);
  } else {
    session.print(fmt::format("valid {}\nmaximal {}\nmultisets {}\npareto {}\n", counts.valid, counts.maximal,
                              counts.multisets, counts.pareto));
  }
  return ExitCode::done;
}

// A multiset and its layout are one object: what is in it, and where it could be placed.
report::Json listing_json(const Geometry& geometry, const Listing& listing) {
  report::Json list = report::Json::array();
  for (std::size_t i = 0; i < listing.layouts.size(); ++i) {
    report::Json item =
        listing.multisets.empty() ? report::Json::object() : report::multiset_json(geometry, listing.multisets[i]);
    item.update(report::layout_json(geometry, listing.layouts[i]));
    list.push_back(std::move(item));
  }
  return list;
}

// The picture always has all layouts; --limit is for the terminal.
Result<ExitCode> write_svg(Session& session, const Geometry& geometry, const Listing& listing, const Options& options) {
  std::string subtitle = listing_title(options.layouts, listing.layouts.size());
  if (options.layouts == "maximal") {
    subtitle = fmt::format("The {} ways to cut it so that no slice can be added", listing.layouts.size());
  }
  const std::string svg =
      report::mosaic_svg(geometry, listing.layouts, {.title = geometry.title, .subtitle = subtitle});
  TANGRAM_RETURN_IF_ERROR(host::write_file_atomically(options.svg, svg));
  session.note(fmt::format("{}: {} layouts drawn", options.svg, listing.layouts.size()));
  if (session.structured()) {
    session.print_value({{"file", options.svg},
                         {"kind", "picture"},
                         {"type", geometry.type},
                         {"set", options.set},
                         {"layouts_kind", options.layouts},
                         {"layouts", listing.layouts.size()}});
  }
  return ExitCode::done;
}

// Shows one type. A listing that is too long is an error only for --svg, which would have nothing to draw.
Result<ExitCode> show(Session& session, const Geometry& geometry, const Options& options) {
  const auto listing = list_layouts(geometry, options.layouts);
  if (!options.svg.empty()) {
    if (!listing) return listing.error();
    return write_svg(session, geometry, *listing, options);
  }
  if (session.structured()) {
    report::Json json = report::geometry_json(geometry);
    const auto counts = count_layouts(geometry);
    json["set"] = options.set;
    // Null, rather than a missing key, tells programs that the number is unknown.
    json["counts"] = counts ? report::counts_json(*counts) : report::Json(nullptr);
    json["layouts_kind"] = options.layouts;
    json["layouts"] = listing ? listing_json(geometry, *listing) : report::Json(nullptr);
    session.print_value(json);
    if (!listing) session.note("layouts are not listed: " + listing.error().message);
    return ExitCode::done;
  }
  session.print(fmt::format("{} ({}): {} units, {} compute slices\n\n",
                            paint(session.terminal, Style::bold, geometry.title), geometry.type, geometry.units,
                            geometry.compute_slices));
  session.print(report::profile_table(geometry).render(session.terminal));
  if (listing) session.print(draw_listing(geometry, *listing, options, session.terminal));
  // From about five cores on a host has too many layouts to list; its profiles are still worth showing.
  if (!listing) session.remark(fmt::format("\nIts layouts are not listed: {}.\n", listing.error().message));
  return ExitCode::done;
}

// ---- --layout and --place ----

// All problems of the text are reported at once, each with its column, as for files.
Result<Layout> parse_given(const Geometry& geometry, const Options& options) {
  if (!options.layout_given) return Layout{};
  const ParsedLayout parsed = parse_layout(geometry, options.layout);
  if (parsed.problems.empty()) return parsed.layout;
  std::string message;
  for (const auto& problem : parsed.problems) {
    message += fmt::format("{}--layout:{}: {}", message.empty() ? "" : "\n", problem.offset + 1, problem.message);
  }
  return Error{ErrorCode::invalid, message};
}

// A layout, and the profile to place beside it, both as indices into `geometry`. Without a profile the question is what
// still fits.
struct Question {
  Geometry geometry;
  Layout layout;
  std::optional<std::size_t> profile;
};

// Reads --layout and --place with the profiles of one set. Errors: a name that the set does not have, or a layout that
// the device does not permit.
Result<Question> understand(const Geometry& whole, ProfileSet set, const Options& options) {
  Question question{restrict_to(whole, set), {}, std::nullopt};
  TANGRAM_TRY(const auto layout, parse_given(question.geometry, options));
  question.layout = layout;
  if (options.place.empty()) return question;
  const auto profile = find_profile(question.geometry, options.place);
  if (!profile) return Error{ErrorCode::invalid, "--place: " + profile.error().message};
  question.profile = *profile;
  return question;
}

// Without --set, tries the sets from the smallest up until one knows every name, so that advice does not count places
// for profiles that the user does not use. If none does, the errors of the largest set are the most helpful ones.
Result<Question> understand(const Geometry& whole, const Options& options) {
  if (const auto set = parse_profile_set(options.set)) return understand(whole, *set, options);
  for (const ProfileSet set : {ProfileSet::base, ProfileSet::double_memory, ProfileSet::media}) {
    auto question = understand(whole, set, options);
    if (question) return question;
  }
  return understand(whole, ProfileSet::all, options);
}

// One start at which the slice fits, and the number of places that it leaves for every profile.
struct Candidate {
  int start = 0;
  std::vector<std::size_t> places;  // By profile.
};

// Every start that is free, in ascending order, with its consequences. Requires question.profile.
std::vector<Candidate> candidates_for(const Question& question) {
  std::vector<Candidate> candidates;
  const auto profile = static_cast<std::uint16_t>(*question.profile);
  for (const int start : report::places_left(question.geometry, question.layout, profile)) {
    // What the start is worth shows only after the slice is placed.
    const Layout after = with_slice(question.geometry, question.layout, {profile, static_cast<std::uint16_t>(start)});
    Candidate candidate{start, {}};
    for (std::size_t i = 0; i < question.geometry.profiles.size(); ++i) {
      candidate.places.push_back(report::places_left(question.geometry, after, i).size());
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

// At most this many columns of places. A host has hundreds of profiles, and the largest ones decide.
constexpr std::size_t kCandidateColumnsMax = 8;

std::string candidate_table(const Question& question, const std::vector<Candidate>& candidates, int advised,
                            const Terminal& terminal) {
  // Columns go from the largest profile down, in the order in which they decide.
  const auto& profiles = question.geometry.profiles;
  std::vector<report::Column> columns{{"START", report::Align::right}};
  const std::size_t shown = std::min(profiles.size(), kCandidateColumnsMax);
  for (std::size_t i = 0; i < shown; ++i)
    columns.push_back({profiles[profiles.size() - 1 - i].name, report::Align::right});
  columns.push_back({""});
  report::Table table(columns);
  for (const auto& candidate : candidates) {
    const bool chosen = candidate.start == advised;
    const Style style = chosen ? Style::good : Style::plain;
    std::vector<report::Cell> row{{fmt::format("{}", candidate.start), style}};
    for (std::size_t i = 0; i < shown; ++i) {
      row.emplace_back(fmt::format("{}", candidate.places[profiles.size() - 1 - i]), style);
    }
    row.emplace_back(chosen ? "<- best" : "", style);
    table.add(std::move(row));
  }
  return table.render(terminal, 2);
}

// The document has all profiles, the largest first; only the table is limited.
report::Json candidates_json(const Question& question, const std::vector<Candidate>& candidates) {
  report::Json list = report::Json::array();
  for (const auto& candidate : candidates) {
    report::Json places = report::Json::object();
    for (std::size_t i = candidate.places.size(); i-- > 0;) {
      places[question.geometry.profiles[i].name] = candidate.places[i];
    }
    list.push_back({{"start", candidate.start}, {"places_left", std::move(places)}});
  }
  return list;
}

// Answers --layout alone: the layout drawn, and what still fits beside it.
ExitCode describe_layout(Session& session, const Question& question) {
  const std::string room = report::room_left(question.geometry, question.layout);
  if (session.structured()) {
    report::Json json = report::layout_json(question.geometry, question.layout);
    report::Json places = report::Json::object();
    for (std::size_t i = question.geometry.profiles.size(); i-- > 0;) {
      places[question.geometry.profiles[i].name] = report::places_left(question.geometry, question.layout, i);
    }
    json["places_left"] = std::move(places);
    session.print_value(json);
    return ExitCode::done;
  }
  const report::MosaicRow row{question.layout, "", ""};
  session.print(fmt::format("{} on {}\n", to_string(question.geometry, question.layout), question.geometry.type));
  session.print(report::draw_mosaic(question.geometry, {&row, 1}, session.terminal));
  session.print(fmt::format("Still fits: {}\n", room));
  return ExitCode::done;
}

// Answers --place: the best start and the reason, as a table of what each start leaves. `answer_is_no` if the slice
// fits nowhere.
ExitCode advise(Session& session, const Question& question) {
  const Geometry& geometry = question.geometry;
  const std::string& name = geometry.profiles[*question.profile].name;
  const auto advice = advise_placement(geometry, question.layout, *question.profile);
  const auto candidates = candidates_for(question);
  const std::string before = to_string(geometry, question.layout);
  // Without advice the layout stays as it is, and only the message differs.
  const Layout after = advice ? with_slice(geometry, question.layout, *advice) : question.layout;
  if (session.structured()) {
    report::Json json{{"layout", before}, {"mig_profile", name}, {"start", nullptr}, {"layout_after", nullptr}};
    if (advice) json["start"] = advice->start;
    if (advice) json["layout_after"] = to_string(geometry, after);
    json["candidates"] = candidates_json(question, candidates);
    session.print_value(json);
    return advice ? ExitCode::done : ExitCode::answer_is_no;
  }
  if (!advice) {
    session.print(fmt::format("{} does not fit beside {}\n", name, before));
    const report::MosaicRow row{question.layout, "", ""};
    session.print(report::draw_mosaic(geometry, {&row, 1}, session.terminal));
    return ExitCode::answer_is_no;
  }
  const report::MosaicRow rows[] = {{question.layout, "now", ""}, {after, "then", ""}};
  session.print(fmt::format("Put {} at {}: {}\n", name, advice->start, to_string(geometry, after)));
  session.print(report::draw_mosaic(geometry, rows, session.terminal));
  session.print("\nPlacements that remain for each profile; the largest profile decides first:\n");
  session.print(candidate_table(question, candidates, advice->start, session.terminal));
  return ExitCode::done;
}

// Four questions, told apart by which options are given.
Result<ExitCode> run(Session& session, Options options) {
  if (options.type.empty()) {
    // The options --count, --svg, --layout and --place need a type; the list of types would silently ignore them.
    const bool alone = !options.count && options.svg.empty() && !options.layout_given && options.place.empty();
    if (alone) return list_types(session);
    return session.fail({ErrorCode::invalid, "expected a device type; tangram geometry lists them"});
  }
  TANGRAM_TRY(const auto whole, geometry_for(options));
  if (options.layout_given || !options.place.empty()) {
    TANGRAM_TRY(const auto question, understand(whole, options));
    return question.profile ? advise(session, question) : describe_layout(session, question);
  }
  // Set before the JSON is written, which names the set that was used.
  if (options.set.empty()) options.set = "base";
  const Geometry geometry = restrict_to(whole, *parse_profile_set(options.set));
  return options.count ? count(session, geometry) : show(session, geometry, options);
}

VerbInfo info() {
  return {.name = "geometry",
          .group = "Look",
          .summary = "show how a device can be cut, as tables and pictures",
          .description =
              "Without TYPE, lists the device types. With TYPE, shows its MIG profiles and draws its layouts as a "
              "mosaic, one row for each layout, aligned to the memory units of the device. A question mark marks a "
              "number that is not verified; a dash, a number that is not published.",
          .examples = {{"tangram geometry", "List the device types."},
                       {"tangram geometry a100-80gb", "Draw every layout to which no slice can be added."},
                       {"tangram geometry a100-80gb --svg a100.svg", "Draw the same to a file."},
                       {"tangram geometry a100-40gb --set me --count --output json",
                        "Count layouts with double-memory and media profiles."},
                       {"tangram geometry h100-80gb --layout \"3g@4\" --place 1g",
                        "Show where one more slice should go, and why."},
                       {"tangram geometry cpu --cores 2", "Show a host of two cores as a device."}}};
}

}  // namespace
}  // namespace geometry_verb

void add_geometry(Program& program) {
  using namespace geometry_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(info(), [options](Session& session) { return run(session, *options); });
  program.offers(
      verb.add_option("TYPE", options->type, "A device type such as a100-80gb, or cpu for the host's cores."),
      device_type_names());
  program.one_of(
      verb.add_option(
              "--set", options->set,
              "The set of MIG profiles to use; each set includes the one before. Default: base, unless --layout "
              "names others.")
          ->type_name("SET"),
      {"base", "double", "me", "all"});
  program.one_of(verb.add_option("--layouts", options->layouts, "The layouts to list and draw.")
                     ->type_name("KIND")
                     ->capture_default_str(),
                 {"valid", "maximal", "multisets", "pareto"});
  verb.add_flag("--count", options->count, "Print only the number of layouts of each kind.");
  // --layout needs a flag beside its text, because an empty layout ("") is a valid one: the device before any cut.
  verb.add_option_function(
          "--layout",
          [options](const std::string& text) {
            options->layout = text;
            options->layout_given = true;
          },
          "A layout to examine, such as \"4g@0 + 3g@4\".")
      ->type_name("LAYOUT");
  verb.add_option("--place", options->place, "A MIG profile to place beside --layout; prints where it should start.")
      ->type_name("PROFILE");
  program.offers_files(
      verb.add_option("--svg", options->svg, "Write the layouts as a picture to FILE.")->type_name("FILE"));
  program.whole_number(verb.add_option("--cores", options->cores,
                                       "The number of cores of the type cpu; default: the cores of this machine.")
                           ->type_name("N"),
                       1, kCpuCoresMax);
  program.whole_number(
      verb.add_option(
              "--limit", options->limit,
              "Draw at most this many layouts in the terminal; 0 draws all. Pictures, JSON and YAML always contain "
              "all.")
          ->type_name("N")
          ->capture_default_str(),
      0, 1'000'000'000);
}

}  // namespace tangram::cli
