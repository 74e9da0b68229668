#include "formats/training_file.h"

#include <gtest/gtest.h>

#include "formats/recuts_file.h"

namespace tangram::formats {
namespace {

constexpr const char* kHeader =
    "application,kind,nodes,replicas,local_batch,step_s,sync_s,batch,progress,iteration,metric,grad_sqr,grad_var,"
    "placement\n";

TEST(TrainingFile, ReadsBackWhatItWrites) {
  const std::string text =
      std::string(kHeader) + "net,placement,2,3,4,0.5,0.1,,,,,,,12\nnet,validation,,,,,,64,9,3,0.5,1,-2,\n";
  const auto rows = parse_training({"t.csv", text});
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ((*rows)[0].step_s, 0.5);
  EXPECT_EQ((*rows)[1].kind, TrainingRowKind::validation);
  EXPECT_EQ(write_training(*rows), text);
}

TEST(TrainingFile, WantsTheColumnsOfEachKind) {
  EXPECT_EQ(parse_training({"t.csv", std::string(kHeader) + "net,scalability,2,3,4,0.5,,,,,,,,\n"
                                                            "net,validation,2,3,4,0.5,0.1,,,,,,,\n"})
                .error()
                .message,
            "t.csv:2:5: a timed step needs nodes, replicas, local_batch, step_s and sync_s\n"
            "t.csv:3:5: a validation needs batch, progress, iteration, metric, grad_sqr and grad_var");
}

TEST(RecutsFile, ReadsBackWhatItWrites) {
  const std::string text = "slices,action,runs,mean_ms,p50_ms,p99_ms,max_ms\n4g+3g,destroy,3,20,20,30,30\n";
  const auto recuts = parse_recuts({"r.csv", text});
  ASSERT_TRUE(recuts) << recuts.error().message;
  EXPECT_EQ((*recuts)[0].action, RecutAction::destroy);
  EXPECT_EQ(write_recuts(*recuts), text);
  EXPECT_EQ(
      parse_recuts({"r.csv", "slices,action,mean_ms,p50_ms,p99_ms,max_ms\n4g,destroy,20,20,30,29\n"}).error().message,
      "r.csv:2:18: p99_ms must be between p50_ms and max_ms");
}

}  // namespace
}  // namespace tangram::formats
