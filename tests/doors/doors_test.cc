// The tree obeys the doors; and each rule can fail, or it would guard nothing.
#include "doors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace tangram::doors {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool is_source(const std::filesystem::path& path) {
  const auto ending = path.extension();
  return ending == ".cc" || ending == ".h" || ending == ".def" || ending == ".cpp" || ending == ".hpp";
}

TEST(Doors, HoldInEveryFileOfTheTree) {
  const std::filesystem::path root = TANGRAM_SOURCE_DIR;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "src")) {
    if (!entry.is_regular_file() || !is_source(entry.path())) continue;
    ++files;
    const auto path = std::filesystem::relative(entry.path(), root).generic_string();
    for (const auto& finding : check_source(path, read(entry.path()))) {
      ADD_FAILURE() << finding.place << ": " << finding.message;
    }
  }
  EXPECT_GT(files, 20U) << "the tree was not found";
}

// `tangram_room(recut USES formats plan ...)` links what recut may use: no more than the doors allow.
TEST(Doors, AllowWhatTheBuildLinks) {
  std::istringstream lines(read(std::filesystem::path(TANGRAM_SOURCE_DIR) / "CMakeLists.txt"));
  // Some rooms have a part that is a library of its own: engines_remote lives in `engines`.
  const auto room_of = [](const std::string& library) { return library.substr(0, library.find('_')); };
  std::size_t links = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("tangram_room(")) continue;
    std::istringstream words(line.substr(line.find('(') + 1));
    std::string room;
    std::string word;
    words >> room;
    bool uses = false;
    while (words >> word && word != "LIBRARIES") {
      if (word.ends_with(')')) word.pop_back();
      if (uses && room_of(word) != room_of(room)) {
        ++links;
        EXPECT_TRUE(may_see(room_of(room), room_of(word))) << room << " uses " << word;
      }
      uses |= word == "USES";
    }
  }
  EXPECT_GT(links, 30U) << "the rooms were not found";
}

// The whole table, room by room, written out by hand from the house rules.
TEST(Doors, OpenOnlyLeftwards) {
  const std::set<std::string_view> brain{"base", "core", "formats", "learn", "plan", "train", "sched"};
  const auto expect_sees = [](std::string_view from, std::set<std::string_view> expected) {
    std::set<std::string_view> seen;
    for (const auto to : rooms()) {
      if (to != from && may_see(from, to)) seen.insert(to);
    }
    EXPECT_EQ(seen, expected) << from;
  };
  const auto with = [](std::set<std::string_view> set, std::set<std::string_view> more) {
    set.merge(more);
    return set;
  };
  expect_sees("base", {});
  expect_sees("core", {"base"});
  for (const auto sibling : {"formats", "learn", "plan", "train"}) expect_sees(sibling, {"base", "core"});
  expect_sees("sched", {"base", "core", "formats", "learn", "plan", "train"});
  expect_sees("control", brain);
  expect_sees("sim", with(brain, {"control"}));
  expect_sees("lab", with(brain, {"control", "sim"}));
  expect_sees("report", with(brain, {"control", "sim", "lab"}));
  expect_sees("experiments", with(brain, {"control", "sim", "lab", "report"}));
  expect_sees("host", {"base"});
  expect_sees("client", {"base", "host", "core", "formats"});
  expect_sees("adapters", {"base", "host", "core", "formats", "client"});
  expect_sees("engines", {"base", "host", "core", "formats", "client"});
  expect_sees("recut", {"base", "host", "core", "formats", "client", "plan", "adapters"});
  const std::set<std::string_view> worker{"base", "host", "core", "formats", "client", "engines", "adapters"};
  expect_sees("worker", worker);
  expect_sees("measure", with(worker, {"worker", "learn"}));
  expect_sees("node", with(worker, {"worker", "recut", "plan"}));
  expect_sees("serve", with(brain, {"control", "host", "client", "engines", "adapters", "worker", "node", "recut"}));
  expect_sees("cli", with(brain, {"control", "sim", "lab", "report", "experiments", "host", "client", "engines",
                                  "adapters", "worker", "node", "recut", "measure", "serve"}));
}

TEST(Doors, AreNotCrossedRightwardsOrSideways) {
  struct Case {
    const char* path;
    const char* include;
  };
  for (const auto& [path, include] :
       {Case{"src/base/rng.cc", "core/layout.h"}, Case{"src/core/plan.h", "plan/problem.h"},
        Case{"src/learn/fit.cc", "plan/problem.h"}, Case{"src/plan/planners/elastic.cc", "learn/fit.h"},
        Case{"src/sim/simulation.cc", "serve/live_world.h"}, Case{"src/serve/live_world.cc", "sim/simulation.h"},
        Case{"src/engines/torch/torch_engine.cc", "sched/world.h"},
        Case{"src/adapters/nvml/nvml.cc", "engines/engine.h"}, Case{"src/lab/certify.cc", "cli/program.h"},
        Case{"src/formats/fleet_file_test.cc", "cli/program.h"}}) {
    const auto findings = check_source(path, std::string("#include \"") + include + "\"\n");
    ASSERT_EQ(findings.size(), 1U) << path << " includes " << include;
    EXPECT_EQ(findings[0].place, std::string(path) + ":1");
    EXPECT_THAT(findings[0].message, HasSubstr("may not see"));
  }
}

TEST(Doors, AreCrossedLeftwardsOverAnyDistance) {
  EXPECT_THAT(check_source("src/cli/main.cc", "#include \"base/rng.h\"\n#include \"lab/certify.h\"\n"), IsEmpty());
  EXPECT_THAT(check_source("src/sim/simulation.cc", "#include \"core/layout.h\"\n"), IsEmpty());
}

TEST(Doors, HideTheDetailsOfARoomFromOthers) {
  const char* const text = "#include \"formats/detail/yaml.h\"\n";
  EXPECT_THAT(check_source("src/formats/fleet_file.cc", text), IsEmpty());
  const auto findings = check_source("src/cli/validate.cc", text);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].message, HasSubstr("is a detail of formats"));
}

TEST(Doors, KnowEveryRoom) {
  EXPECT_EQ(check_source("src/cellar/wine.cc", "").size(), 1U);
  EXPECT_THAT(check_source("bench/core/layout_bench.cc", "#include <thread>\n"), IsEmpty());
}

TEST(QuietRooms, MayNotIncludeWhatReadsClocksThreadsFilesOrTheEnvironment) {
  for (const char* header : {"thread", "mutex", "atomic", "condition_variable", "future", "fstream", "iostream",
                             "filesystem", "ctime", "random", "unistd.h", "sys/socket.h", "spdlog/spdlog.h"}) {
    const std::string text = std::string("#include <") + header + ">\n";
    EXPECT_EQ(check_source("src/plan/exact.cc", text).size(), 1U) << header;
    EXPECT_THAT(check_source("src/serve/live_world.cc", text), IsEmpty()) << header;
  }
}

TEST(QuietRooms, MayNotUseWordsThatDoTheSame) {
  for (const char* line :
       {"auto t = std::chrono::steady_clock::now();", "auto t = Clock::now();", "const char* p = getenv(\"HOME\");",
        "const char* p = std::getenv(name);", "auto t = time(nullptr);", "auto t = std::time(nullptr);",
        "int r = std::rand();", "std::random_device device;", "FILE* f = fopen(path, mode);", "printf(\"%d\", 1);",
        "std::fprintf(stderr, text);", "std::cout << 1;", "std::normal_distribution<double> d(0, 1);",
        "std::uniform_int_distribution d(0, 1);", "thread_local int x = 0;", "std::mt19937_64 generator(1);",
        "std::size_t h = std::hash<std::string>{}(name);"}) {
    EXPECT_GE(check_source("src/sched/queue.cc", line).size(), 1U) << line;
    EXPECT_THAT(check_source("src/cli/main.cc", line), IsEmpty()) << line;
  }
}

// The words are banned, not letters inside longer words, comments or texts; and the World may be asked for its time.
TEST(QuietRooms, MayUseWordsThatOnlyLookLikeThem) {
  for (const char* line :
       {"const TimePoint t = world.now();", "const auto t = world_->now();", "// steady_clock::now() is banned here.",
        "/* getenv(\"HOME\") */ int x = 1;", "auto s = \"printf(\";", "auto s = R\"(std::cout << getenv(x))\";",
        "int run_time(int);", "double d = size_distribution.mean;", "const long n = 1'000'000; // time(",
        "std::string line = fmt::format(\"{}\", 1);", "auto x = view.time(3);"}) {
    EXPECT_THAT(check_source("src/sched/queue.cc", line), IsEmpty()) << line;
  }
}

TEST(QuietRooms, AreSearchedBehindLiteralsAndComments) {
  EXPECT_EQ(check_source("src/sim/a.cc", "auto s = \"x // y\"; getenv(s);").size(), 1U);
  EXPECT_EQ(check_source("src/sim/a.cc", "char c = '\"'; getenv(s); char d = '\"';").size(), 1U);
  EXPECT_EQ(check_source("src/sim/a.cc", "int n = 1'000; getenv(s); int m = 1'000;").size(), 1U);
  const auto findings = check_source("src/sim/a.cc", "/* one\ntwo */\nauto s = R\"(\n)\";\ngetenv(s);\n");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].place, "src/sim/a.cc:5");
}

// What only tests include may open files; what it lends to others would open them there.
TEST(QuietRooms, LetOnlyTestsUseTheHelpersOfTests) {
  EXPECT_THAT(check_source("src/formats/detail/test_data.h", "#include <fstream>\n"), IsEmpty());
  for (const char* text : {"#include \"formats/detail/test_data.h\"\n", "#include \"formats/detail/files_test.h\"\n"}) {
    EXPECT_THAT(check_source("src/formats/csv_test.cc", text), IsEmpty()) << text;
    EXPECT_EQ(check_source("src/formats/csv.cc", text).size(), 1U) << text;
  }
}

TEST(QuietRooms, SpeakOnlyWhenACheckFails) {
  EXPECT_THAT(check_source("src/base/check.cc", "std::fprintf(stderr, text);"), IsEmpty());
  EXPECT_EQ(check_source("src/base/rng.cc", "std::fprintf(stderr, text);").size(), 1U);
}

}  // namespace
}  // namespace tangram::doors
