#include "cli/program.h"

#include <gtest/gtest.h>

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
    for (const char* option : {"--output", "--quiet", "--no-color", "--help"}) {
      EXPECT_NE(outcome.out.find(option), std::string::npos);
    }
    for (const auto& option : verb.options) {
      EXPECT_FALSE(option.description.empty());
      EXPECT_EQ(option.placeholder.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), std::string::npos);
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
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["start"], 0);
  EXPECT_EQ(json["layout_after"], "1g.5gb@0 + 3g.20gb@4");
  EXPECT_EQ(json["candidates"].size(), 4U);
  EXPECT_EQ(json["candidates"][0]["places_left"]["2g.10gb"], 1);
}

TEST(Geometry, AnswersNoWhereASliceFitsNowhere) {
  const auto outcome = run({"geometry", "a100-40gb", "--layout", "7g@0", "--place", "1g"});
  EXPECT_EQ(outcome.code, ExitCode::answer_is_no);
  EXPECT_NE(outcome.out.find("1g.5gb fits nowhere beside 7g.40gb@0"), std::string::npos);
}

// 1g.10gb is the double-memory cut of an A100-40GB, which the base set does not hold.
TEST(Geometry, TakesTheSmallestSetThatKnowsEveryName) {
  EXPECT_EQ(run({"geometry", "a100-40gb", "--layout", "1g.10gb@6"}).code, ExitCode::done);
  EXPECT_EQ(run({"geometry", "a100-40gb", "--layout", "1g.10gb@6", "--set", "base"}).code, ExitCode::wrong_input);
}

TEST(Geometry, ListsTheSameNumberAsItCounts) {
  for (const char* kind : {"valid", "maximal", "multisets", "pareto"}) {
    const Json json = Json::parse(run({"geometry", "a100-80gb", "--layouts", kind, "--output", "json"}).out);
    EXPECT_EQ(json["layouts"].size(), json["counts"][kind].get<std::size_t>()) << kind;
  }
}

TEST(Geometry, MarksWhatIsNotCertain) {
  const std::string table = run({"geometry", "b200-180gb"}).out;
  EXPECT_NE(table.find("0,4?"), std::string::npos);  // Placements from mock tables only.
  const Json json = Json::parse(run({"geometry", "b200-180gb", "--output", "json"}).out);
  EXPECT_EQ(json["placements_evidence"], "unverified");
  EXPECT_TRUE(json["profiles"].back()["sm_count"].is_null());
  EXPECT_EQ(json["profiles"].back()["sm_count_evidence"], "unknown");
}

// 64 cores are 256 units: their layouts cannot be listed, their slices can.
TEST(Geometry, ShowsALargeHostWithoutItsLayouts) {
  const auto outcome = run({"geometry", "cpu", "--cores", "64"});
  EXPECT_EQ(outcome.code, ExitCode::done);
  EXPECT_NE(outcome.out.find("Its layouts are not listed"), std::string::npos);
  EXPECT_EQ(run({"geometry", "cpu", "--cores", "64", "--count"}).code, ExitCode::wrong_input);
  EXPECT_EQ(run({"geometry", "a30", "--cores", "2"}).code, ExitCode::wrong_input);
}

}  // namespace
}  // namespace tangram::cli
