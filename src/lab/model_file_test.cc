#include "lab/model_file.h"

#include <gtest/gtest.h>

#include "learn/assume.h"
#include "learn/fit.h"
#include "learn/test_network.h"

namespace tangram::lab {
namespace {

learn::FittedModel fitted(const std::string& kind) {
  return *learn::fit(learn::TestNetwork{}.table(2), {}, {.kind = kind});
}

// Same text after reading, and the same bytes predicted at points that were and were not measured.
TEST(ModelFile, ReadsBackExactly) {
  for (const auto& kind : learn::model_kinds()) {
    const auto model = fitted(std::string(kind.name));
    const auto text = write_model(model);
    const auto read = parse_model({"model.json", text});
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(write_model(*read), text);
    for (const learn::Candidate& c : {learn::Candidate{"3g.40gb", 24, 1, 1}, {"1g.10gb", 8, 1, 2}}) {
      const auto before = model.runs()[0].estimate(c);
      const auto after = read->runs()[0].estimate(c);
      EXPECT_EQ(before->mean_ms, after->mean_ms) << kind.name;
      EXPECT_EQ(before->high_ms, after->high_ms);
      EXPECT_EQ(before->fits_probability, after->fits_probability);
    }
  }
}

// A model file without white space, with the first `from` replaced.
std::string spoilt(const std::string& from, const std::string& to) {
  std::string text = write_model(fitted("boosted"));
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  text.replace(text.find(from), from.size(), to);
  return text;
}

void expect_refused(const std::string& text, const std::string& words) {
  const auto read = parse_model({"model.json", text});
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find(words), std::string::npos) << read.error().message;
}

TEST(ModelFile, ReadsBackAnAssumedDevice) {
  auto model = fitted("blend");
  ASSERT_TRUE(learn::assume(*learn::parse_assumption("h100-80gb=a100-80gb*1.7"), model));
  const auto text = write_model(model);
  const auto read = parse_model({"model.json", text});
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(write_model(*read), text);
  const RunPoint point{"h100-80gb", "3g.40gb", "net", 24, 1, 1};
  ASSERT_TRUE(read->estimate(point));
  EXPECT_TRUE(read->estimate(point)->guessed);
  EXPECT_EQ(read->estimate(point)->mean_ms, model.estimate(point)->mean_ms);
  EXPECT_EQ(read->estimate(point)->high_ms, model.estimate(point)->high_ms);
}

TEST(ModelFile, WhatDoesNotBelongTogetherIsRefused) {
  expect_refused("{}", "version");
  expect_refused(spoilt("\"version\":2", "\"version\":1"), "version");
  expect_refused(spoilt("\"prior_mean\":[", "\"prior_mean\":[1,"), "prior_mean has 13 numbers; expected 12");
  expect_refused(spoilt("\"roots\":[0", "\"roots\":[99999999"),
                 "the columns of the trees have different lengths, or a root is out of range");
  expect_refused(spoilt("7g.80gb", "9g.80gb"), "a100-80gb has no profile 9g.80gb");
  expect_refused(spoilt("\"weights\":[", "\"weights\":[0,"), "different lengths");
}

// A node that names itself as its child would be walked for ever.
TEST(ModelFile, TreesThatDoNotEndAreRefused) {
  expect_refused(spoilt("\"left\":[1", "\"left\":[0"), "children that do not come after it");
}

}  // namespace
}  // namespace tangram::lab
