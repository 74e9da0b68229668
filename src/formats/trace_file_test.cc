#include "formats/trace_file.h"

#include <gtest/gtest.h>

#include "formats/detail/files_test.h"
#include "formats/jobs_file.h"

namespace tangram::formats {
namespace {

TEST(TraceFile, ReadsTimesSizesAndSamples) {
  const auto trace = parse_trace({"t.csv", "size,at_s,samples\n7,0.000000001,2\n9,1.5,\n"});
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ((*trace)[0], (TraceEntry{TimePoint(Duration(1)), 7, 2}));
  EXPECT_EQ((*trace)[1], (TraceEntry{TimePoint(Duration(1'500'000'000)), 9, 1}));
}

TEST(TraceFile, WantsAscendingTimes) {
  const auto trace = parse_trace({"t.csv", "at_s,size\n2,1\n2,1\n1,1\nx,0\n"});
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().message,
            "t.csv:4:1: at_s is earlier than in the row before; a trace must be in order of time\n"
            "t.csv:5:1: at_s must be a number, not \"x\"\n"
            "t.csv:5:3: size must be at least 1, not 0");
}

TEST(TraceFile, WithAColumnThatIsUnknownIsReadOnForWhatElseIsWrong) {
  EXPECT_EQ(parse_trace({"t.csv", "at_s,size,colour\n1,0,red\n"}).error().message,
            "t.csv:1:11: column is unknown: \"colour\"; known: at_s, size, samples\n"
            "t.csv:2:3: size must be at least 1, not 0");
  // Without a size there is nothing to say about rows.
  EXPECT_EQ(parse_trace({"t.csv", "at_s,samples\nx,0\n"}).error().message, "t.csv:1:1: column size is missing");
}

TEST(TraceFile, OfTheExamplesReadsBackTheSame) {
  const auto trace = parse_trace(test::example("trace.csv"));
  ASSERT_TRUE(trace) << trace.error().message;
  const auto again = parse_trace({"again", write_trace(*trace)});
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *trace);
}

TEST(RateCurve, PassesOverCommentsAndEmptyLines) {
  const auto curve = parse_rate_curve({"r.txt", "# head\r\n1\r\n\r\n 2.5 \r\n0"});
  ASSERT_TRUE(curve) << curve.error().message;
  EXPECT_EQ(*curve, (std::vector<double>{1, 2.5, 0}));
  EXPECT_EQ(write_rate_curve(*curve), "1\n2.5\n0\n");
}

TEST(RateCurve, ReportsEveryBadLine) {
  const auto curve = parse_rate_curve({"r.txt", "1\n -2\nmany\n"});
  ASSERT_FALSE(curve);
  EXPECT_EQ(curve.error().message,
            "r.txt:2:2: the rate must be at least 0, not -2\nr.txt:3:1: the rate must be a number, not \"many\"");
  EXPECT_EQ(parse_rate_curve({"r.txt", "# nothing\n"}).error().message, "r.txt: the file has no rate");
}

TEST(Histogram, WantsAscendingSizesAndPositiveWeights) {
  const auto histogram = parse_histogram({"h.csv", "size,weight\n8,1\n8,2\n9,0\n"});
  ASSERT_FALSE(histogram);
  EXPECT_EQ(histogram.error().message,
            "h.csv:3:1: sizes must be in ascending order, each once\nh.csv:4:3: weight must be greater than 0, not 0");
  EXPECT_FALSE(parse_histogram({"h.csv", "size,weight\n"}));
}

TEST(JobsFile, ReadsBackWhatItWrites) {
  const std::vector<ClusterJob> jobs = {{"a", 1.5, "net", 4, 128, JobKind::training, std::nullopt},
                                        {"b, c", 2, "net", 1, 1, JobKind::inference, 7.0}};
  const auto again = parse_jobs({"j.csv", write_jobs(jobs)});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, jobs);
}

}  // namespace
}  // namespace tangram::formats
