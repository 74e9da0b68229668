#include "cli/program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "cli/completion.h"
#include "cli/help.h"

namespace tangram::cli {
namespace {

struct Outcome {
  ExitCode code;
  std::string out;
  std::string err;
};

Outcome run(std::vector<std::string> arguments) {
  std::ostringstream out;
  std::ostringstream err;
  Session session{.out = out, .err = err, .terminal = {}, .err_terminal = {}};
  const ExitCode code = Program().run(std::move(arguments), session);
  return {code, out.str(), err.str()};
}

TEST(Program, PrintsHelpWithoutArguments) {
  const auto outcome = run({});
  EXPECT_EQ(outcome.code, ExitCode::done);
  EXPECT_EQ(outcome.out, run({"--help"}).out);
  EXPECT_EQ(outcome.out, run({"help"}).out);
  for (const auto& verb : Program().tree().verbs) EXPECT_NE(outcome.out.find("  " + verb.info.name), std::string::npos);
}

// The parser would take nan for a number in range, and -1 for the largest seed.
TEST(Program, RefusesNumbersThatTheParserWouldBend) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"simulate", "any.yaml", "--duration", "nan"},
           {"capacity", "any.yaml", "--tolerance=-NaN"},
           {"simulate", "any.yaml", "--seed", "-1"},
           {"simulate", "any.yaml", "--seed", "18446744073709551616"},
       }) {
    const auto outcome = run(arguments);
    EXPECT_EQ(outcome.code, ExitCode::wrong_input);
    EXPECT_NE(outcome.err.find("expected a"), std::string::npos) << outcome.err;
  }
}

// --seed and --output are options of ours, too; behind the dashes they are the script's, and so is -1.
TEST(Program, GivesWhatFollowsTheDashesToTheScript) {
  const auto outcome = run({"train", "run", "no-such-script.py", "--", "--seed", "-1", "--output", "x"});
  EXPECT_EQ(outcome.code, ExitCode::no_access) << outcome.err;
  EXPECT_NE(outcome.err.find("no-such-script.py: expected a Python script"), std::string::npos) << outcome.err;
}

TEST(Program, SuggestsTheVerbThatWasMeant) {
  const auto outcome = run({"geometri", "a30"});
  EXPECT_EQ(outcome.code, ExitCode::wrong_input);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "tangram: unknown verb \"geometri\"; did you mean geometry?\nSee tangram --help.\n");
}

TEST(Program, SuggestsTheOptionThatWasMeant) {
  const auto outcome = run({"geometry", "a30", "--cuont"});
  EXPECT_EQ(outcome.code, ExitCode::wrong_input);
  EXPECT_EQ(outcome.err,
            "tangram geometry: unknown option --cuont; did you mean --count?\nSee tangram geometry --help.\n");
}

TEST(Program, SuggestsTheValueThatWasMeant) {
  const auto outcome = run({"geometry", "a30", "--output", "jsn"});
  EXPECT_EQ(outcome.code, ExitCode::wrong_input);
  EXPECT_EQ(outcome.err,
            "tangram geometry: --output: \"jsn\" is not one of table, json, yaml; did you mean json?\n"
            "See tangram geometry --help.\n");
}

TEST(Program, TakesCommonOptionsOnBothSidesOfTheVerb) {
  const std::string counts = "{\"valid\":26,\"maximal\":5,\"multisets\":10,\"pareto\":4}\n";
  EXPECT_EQ(run({"--output", "json", "geometry", "a30", "--count"}).out, counts);
  EXPECT_EQ(run({"geometry", "a30", "--count", "--output=json"}).out, counts);
}

TEST(Program, LetsArgumentsOverrideTheEnvironment) {
  setenv("TANGRAM_OUTPUT", "yaml", 1);
  EXPECT_EQ(run({"geometry", "a30", "--count"}).out, "valid: 26\nmaximal: 5\nmultisets: 10\npareto: 4\n");
  EXPECT_EQ(run({"geometry", "a30", "--count", "--output", "table"}).out,
            "valid 26\nmaximal 5\nmultisets 10\npareto 4\n");
  EXPECT_EQ(run({"--output", "json", "geometry", "a30", "--count"}).out.front(), '{');
  setenv("TANGRAM_OUTPUT", "xml", 1);
  const auto outcome = run({"version"});
  unsetenv("TANGRAM_OUTPUT");
  EXPECT_EQ(outcome.code, ExitCode::wrong_input);
  EXPECT_EQ(outcome.err, "TANGRAM_OUTPUT: \"xml\" is not one of table, json, yaml\n");
}

// A file may be called like a verb.
TEST(Program, TakesTheNameOfAVerbAsAnArgument) {
  const auto outcome = run({"validate", "demo"});
  EXPECT_EQ(outcome.code, ExitCode::no_access);
  EXPECT_EQ(outcome.err, "demo: cannot read: no such file or directory\n");
}

TEST(Program, ExplainsEveryVerbWithExamples) {
  for (const auto& verb : Program().tree().verbs) {
    SCOPED_TRACE(verb.info.name);
    ASSERT_FALSE(verb.info.examples.empty());
    const auto outcome = run({verb.info.name, "--help"});
    EXPECT_EQ(outcome.code, ExitCode::done);
    for (const auto& example : verb.info.examples) EXPECT_NE(outcome.out.find(example.command), std::string::npos);
    for (const char* option : {"--quiet", "--no-color", "--help"}) {
      EXPECT_NE(outcome.out.find(option), std::string::npos);
    }
    // A text of its own form has no other; --output is taken there, but not promised.
    const bool no_format = verb.info.text_only || verb.info.output_is_file;
    EXPECT_EQ(outcome.out.find("--output FORMAT") == std::string::npos, no_format);
    for (const auto& option : verb.options) {
      EXPECT_FALSE(option.description.empty());
      EXPECT_EQ(option.placeholder.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ=:*"), std::string::npos);
    }
  }
}

// Examples are instructions, so they must at least be understood: each is parsed with --help behind it, which makes the
// parser check every option it names and run nothing.
TEST(Program, GivesExamplesThatParse) {
  for (const auto& verb : Program().tree().verbs) {
    for (const auto& example : verb.info.examples) {
      std::istringstream words(example.command);
      std::vector<std::string> arguments;
      for (std::string word; words >> word;) {
        if (word == "|" || word == ">" || word == "&&") break;
        arguments.push_back(word);
      }
      if (arguments.front() != "tangram") continue;  // source <(tangram ...)
      arguments.erase(arguments.begin());
      arguments.push_back("--help");
      EXPECT_EQ(run(arguments).code, ExitCode::done) << example.command;
      for (const auto& word : arguments) {
        if (!word.starts_with("--")) continue;
        const bool known = std::ranges::any_of(verb.options, [&](const OptionInfo& option) {
          return std::ranges::find(option.names, word) != option.names.end();
        });
        EXPECT_TRUE(known) << example.command << ": " << word;
      }
    }
  }
}

// The words of all examples, each with the one before it.
std::vector<std::pair<std::string, std::string>> example_words() {
  std::vector<std::pair<std::string, std::string>> words;
  for (const auto& verb : Program().tree().verbs) {
    for (const auto& example : verb.info.examples) {
      std::istringstream stream(example.command);
      std::string before;
      for (std::string word; stream >> word; before = word) words.emplace_back(before, word);
    }
  }
  return words;
}

// Examples are pasted at the top of the repository: what they read stands there, or in a folder of the reader's own, or
// was written by another example.
TEST(Program, GivesExamplesOfFilesThatAreThere) {
  const std::set<std::string> writing{"-o", "--to", "--svg", "--html", "--trace", ">"};
  const std::set<std::string> kinds{".yaml", ".csv", ".json", ".txt"};
  std::set<std::string> written{"examples/*.yaml"};
  for (const auto& [before, word] : example_words()) {
    if (writing.contains(before)) written.insert(word);
  }
  for (const auto& [before, word] : example_words()) {
    const std::filesystem::path path(word);
    if (!kinds.contains(path.extension()) || written.contains(word) || word.starts_with("DIR/")) continue;
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(TANGRAM_SOURCE_DIR) / path)) << before << " " << word;
  }
}

TEST(Program, RefusesAnEmptyFileName) {
  const auto outcome = run({"geometry", "a30", "--svg", ""});
  EXPECT_EQ(outcome.code, ExitCode::wrong_input);
  EXPECT_EQ(outcome.err,
            "tangram geometry: --svg: expected a file name, read an empty string\nSee tangram geometry --help.\n");
  EXPECT_EQ(run({"import", "twitter", "x", "-o", ""}).code, ExitCode::wrong_input);
}

TEST(Program, SaysWhichNumbersAnOptionTakes) {
  for (const std::string value : {"1.5", "x", "0", "1025", ""}) {
    const auto outcome = run({"geometry", "cpu", "--cores", value});
    EXPECT_EQ(outcome.code, ExitCode::wrong_input);
    EXPECT_NE(outcome.err.find("--cores: expected a whole number from 1 to 1024, read \"" + value + "\""),
              std::string::npos)
        << outcome.err;
  }
}

TEST(Program, HelpFitsEightyColumns) {
  for (const auto& verb : Program().tree().verbs) {
    std::istringstream lines(run({verb.info.name, "--help"}).out);
    for (std::string line; std::getline(lines, line);) {
      const bool example = line.find("tangram ") != std::string::npos;
      EXPECT_TRUE(example || line.size() <= 80) << verb.info.name << ": " << line;
    }
  }
}

TEST(Program, MentionsEveryExitCodeInHelpAndReference) {
  const std::string help = run({"--help"}).out;
  const std::string page = run({"reference", "cli"}).out;
  std::set<int> codes;
  for (const auto& info : exit_codes()) {
    EXPECT_TRUE(codes.insert(static_cast<int>(info.code)).second);
    EXPECT_NE(help.find(std::string(info.meaning).substr(0, 30)), std::string::npos);
    EXPECT_NE(page.find(std::string(info.meaning)), std::string::npos);
  }
}

TEST(Program, OffersDeviceTypesToEveryShell) {
  const CommandTree tree = Program().tree();
  for (const auto& script : {bash_completion(tree), zsh_completion(tree), fish_completion(tree)}) {
    for (const char* word : {"a100-80gb", "rtx-pro-6000", "maximal", "yaml", "doctor"}) {
      EXPECT_NE(script.find(word), std::string::npos) << word;
    }
  }
}

TEST(Geometry, SaysWhyALayoutIsWrong) {
  const auto outcome = run({"geometry", "a100-40gb", "--layout", "3g@2 + 9g@0"});
  EXPECT_EQ(outcome.code, ExitCode::wrong_input);
  EXPECT_NE(outcome.err.find("--layout:1: 3g.20gb cannot start at 2; allowed: 0, 4\n"), std::string::npos);
  EXPECT_NE(outcome.err.find("--layout:8: a100-40gb has no profile 9g"), std::string::npos);
}

// With 3g@4 the left half is free. Every start of 1g there leaves one place for 2g, so the lowest is taken.
TEST(Geometry, AdvisesWhereToPutASlice) {
  const auto outcome = run({"geometry", "a100-40gb", "--layout", "3g@4", "--place", "1g", "--output", "json"});
  EXPECT_EQ(outcome.code, ExitCode::done);
  const report::Json json = report::Json::parse(outcome.out);
  EXPECT_EQ(json["start"], 0);
  EXPECT_EQ(json["layout_after"], "1g.5gb@0 + 3g.20gb@4");
  EXPECT_EQ(json["candidates"].size(), 4U);
  EXPECT_EQ(json["candidates"][0]["places_left"]["2g.10gb"], 1);
}

TEST(Geometry, AnswersNoWhereASliceFitsNowhere) {
  const auto outcome = run({"geometry", "a100-40gb", "--layout", "7g@0", "--place", "1g"});
  EXPECT_EQ(outcome.code, ExitCode::answer_is_no);
  EXPECT_NE(outcome.out.find("1g.5gb does not fit beside 7g.40gb@0"), std::string::npos);
}

// 1g.10gb is the double-memory cut of an A100-40GB, which the base set does not hold.
TEST(Geometry, TakesTheSmallestSetThatKnowsEveryName) {
  EXPECT_EQ(run({"geometry", "a100-40gb", "--layout", "1g.10gb@6"}).code, ExitCode::done);
  EXPECT_EQ(run({"geometry", "a100-40gb", "--layout", "1g.10gb@6", "--set", "base"}).code, ExitCode::wrong_input);
}

TEST(Geometry, ListsTheSameNumberAsItCounts) {
  for (const char* kind : {"valid", "maximal", "multisets", "pareto"}) {
    const report::Json json =
        report::Json::parse(run({"geometry", "a100-80gb", "--layouts", kind, "--output", "json"}).out);
    EXPECT_EQ(json["layouts"].size(), json["counts"][kind].get<std::size_t>()) << kind;
  }
}

TEST(Geometry, MarksWhatIsNotCertain) {
  const std::string table = run({"geometry", "b200-180gb"}).out;
  EXPECT_NE(table.find("0,4?"), std::string::npos);  // Placements from mock tables only.
  const report::Json json = report::Json::parse(run({"geometry", "b200-180gb", "--output", "json"}).out);
  EXPECT_EQ(json["placements_evidence"], "unverified");
  EXPECT_TRUE(json["profiles"].back()["sm_count"].is_null());
  EXPECT_EQ(json["profiles"].back()["sm_count_evidence"], "unknown");
}

// 64 cores are 256 units: their layouts cannot be listed, their slices can.
TEST(Geometry, ShowsALargeHostWithoutItsLayouts) {
  const auto outcome = run({"geometry", "cpu", "--cores", "64"});
  EXPECT_EQ(outcome.code, ExitCode::done);
  EXPECT_NE(outcome.out.find("Its layouts are not listed"), std::string::npos);
  // The question is understood; the answer is that they are too many.
  EXPECT_EQ(run({"geometry", "cpu", "--cores", "64", "--count"}).code, ExitCode::answer_is_no);
  EXPECT_EQ(run({"geometry", "a30", "--cores", "2"}).code, ExitCode::wrong_input);
}

// Media engines are published for this board and not for that one; the usable memory of the latter is an estimate.
TEST(Geometry, PrintsNoFigureFinerThanItIsKnown) {
  const auto json = [](const char* type) {
    return report::Json::parse(run({"geometry", type, "--output", "json"}).out);
  };
  EXPECT_EQ(json("rtx-pro-6000")["media"]["decoders"], 4);
  EXPECT_TRUE(json("b200-180gb")["media"].is_null());
  EXPECT_TRUE(json("b200-180gb")["profiles"][0]["media"].is_null());
  for (const auto& geometry : report::Json::parse(run({"geometry", "--output", "json"}).out)) {
    for (const auto& profile : geometry["profiles"]) {
      if (profile["memory_gib"].is_null()) continue;
      const double hundredths = profile["memory_gib"].get<double>() * 100;
      EXPECT_NEAR(hundredths, std::round(hundredths), 1e-6) << geometry["type"] << profile["name"];
    }
  }
}

TEST(Geometry, SaysInJsonWhatItDrew) {
  const std::string path = testing::TempDir() + "program_test.svg";
  const auto outcome = run({"geometry", "a30", "--svg", path, "--output", "json", "--quiet"});
  EXPECT_EQ(outcome.code, ExitCode::done);
  const report::Json json = report::Json::parse(outcome.out);
  EXPECT_EQ(json["file"], path);
  EXPECT_EQ(json["layouts"], 5);
}

// A folder of its own for a test, with files in it.
class Folder {
 public:
  explicit Folder(const std::map<std::string, std::string>& files) {
    std::string pattern = testing::TempDir() + "program_test.XXXXXX";
    path_ = mkdtemp(pattern.data());
    for (const auto& [name, text] : files) {
      std::filesystem::create_directories((path_ / name).parent_path());
      std::ofstream(path_ / name) << text;
    }
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

const std::map<std::string, std::string> kPollux{
    {"README.md", "Not a file of Pollux.\n"},
    {"workloads/a.csv", "name,time,application,num_replicas,batch_size\nnet-0,107,net,6,2048\n"},
    {"traces/net/placements.csv", "placement,local_bsz,step_time,sync_time\n12,4,0.5,0.1\n"},
    {"traces/net/validation-64.csv", "progress,iteration,metric,grad_sqr,grad_var\n9,3,0.5,1,2\n"}};

TEST(Import, AsksWhichKindOfAFolderIsMeant) {
  const Folder folder(kPollux);
  const auto outcome = run({"import", "pollux", folder.path()});
  EXPECT_EQ(outcome.code, ExitCode::wrong_input);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("training: "), std::string::npos);
  EXPECT_NE(outcome.err.find("Choose a kind with --kind"), std::string::npos);
}

TEST(Import, SkipsTheFilesOfAFolderThatAreOfOtherKinds) {
  const Folder folder(kPollux);
  const auto jobs = run({"import", "pollux", folder.path(), "--kind", "jobs"});
  EXPECT_EQ(jobs.code, ExitCode::done);
  EXPECT_EQ(jobs.out, "name,submit_s,application,replicas,batch,kind,duration_s\nnet-0,107,net,6,2048,training,\n");
  EXPECT_TRUE(jobs.err.starts_with("3 files of other kinds skipped: ")) << jobs.err;
  const auto traces = run({"import", "pollux", folder / "traces"});
  EXPECT_EQ(traces.code, ExitCode::done);
  EXPECT_EQ(traces.err, "");
  EXPECT_EQ(run({"import", "pollux", folder / "README.md"}).code, ExitCode::wrong_input);
  EXPECT_EQ(run({"import", "parvagpu", folder.path()}).err, folder.path() + ": contains no file of parvagpu\n");
}

TEST(Import, SaysInJsonWhatItWrote) {
  const Folder folder(kPollux);
  const std::string to = folder / "training.csv";
  const auto written = run({"import", "pollux", folder / "traces", "-o", to, "--output", "json", "--quiet"});
  const report::Json json = report::Json::parse(written.out);
  EXPECT_EQ(json["file"], to);
  EXPECT_EQ(json["kind"], "training");
  EXPECT_EQ(json["rows"], 2);
  EXPECT_EQ(json["files_read"], 2);
  const auto printed = run({"import", "pollux", folder / "workloads", "--output", "json"});
  EXPECT_EQ(report::Json::parse(printed.out)["text"], run({"import", "pollux", folder / "workloads"}).out);
  // And what it wrote is one of our files.
  const auto judged = run({"validate", to});
  EXPECT_EQ(judged.out, to + ": 2 rows of 1 training application\n") << judged.err;
}

TEST(Import, ShowsWhatMayFollowAColon) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{{"import"}, {"import", "--help"}}) {
    EXPECT_NE(run(arguments).out.find("text-lengths[:CORPUS]"), std::string::npos);
  }
}

TEST(Validate, GivesProblemsAsObjects) {
  const Folder folder({{"fleet.yaml", "devices:\n  - type: a30\n    layout: 2g@1\n"}, {"empty.yaml", ""}});
  const auto outcome = run({"validate", folder / "fleet.yaml", folder / "empty.yaml", "--output", "json"});
  EXPECT_EQ(outcome.code, ExitCode::wrong_input);
  const report::Json json = report::Json::parse(outcome.out);
  const report::Json& problem = json[0]["problems"][0];
  EXPECT_EQ(problem["file"], folder / "fleet.yaml");
  EXPECT_EQ(problem["line"], 3);
  EXPECT_EQ(problem["column"], 13);
  EXPECT_EQ(problem["message"], "2g.12gb cannot start at 1; allowed: 0, 2");
  EXPECT_EQ(json[1]["problems"][0]["message"], "the file is empty");
}

}  // namespace
}  // namespace tangram::cli
