#include "report/yaml.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

namespace tangram::report {
namespace {

TEST(Yaml, WritesBlocksWithKeysInTheirOrder) {
  const Json value = Json::parse(R"({"b": 1, "a": {"list": [1, 2], "names": ["x", "z"]}, "none": null, "empty": []})");
  EXPECT_EQ(to_yaml(value),
            "b: 1\n"
            "a:\n"
            "  list: [1,2]\n"
            "  names:\n"
            "    - x\n"
            "    - z\n"
            "none: null\n"
            "empty: []\n");
}

TEST(Yaml, PutsTheFirstKeyOfAnItemBesideItsDash) {
  EXPECT_EQ(to_yaml(Json::parse(R"([{"a": 1, "b": [{"c": 2}]}, 3])")), "- a: 1\n  b:\n    - c: 2\n- 3\n");
}

// Each of these would be read as something else if it stood bare.
TEST(Yaml, QuotesWhatYamlWouldMisread) {
  for (const std::string text :
       {"yes", "No", "null",        "~",          "1e3",     "0x10", "12:30", "a: b", "# x", "",     " x",
        "- x", "on", "line\nbreak", "\"quoted\"", "1g.10gb", "é",    "{a}",   "*x",   "&x",  "tab\t"}) {
    const std::string yaml = to_yaml(Json{{"key", text}});
    EXPECT_EQ(YAML::Load(yaml)["key"].Scalar(), text) << yaml;
    const std::string bare = "key: " + text + "\n";
    EXPECT_NE(yaml, bare) << text;
  }
}

TEST(Yaml, ReadsBackAsTheSameNumbers) {
  const YAML::Node node = YAML::Load(to_yaml(Json{{"x", 0.1}, {"n", -3}, {"big", 1e300}, {"yes", true}}));
  EXPECT_EQ(node["x"].as<double>(), 0.1);
  EXPECT_EQ(node["n"].as<int>(), -3);
  EXPECT_EQ(node["big"].as<double>(), 1e300);
  EXPECT_TRUE(node["yes"].as<bool>());
}

}  // namespace
}  // namespace tangram::report
