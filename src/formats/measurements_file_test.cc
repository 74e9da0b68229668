#include "formats/measurements_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "formats/detail/files_test.h"

namespace tangram::formats {
namespace {

Result<Measurements> parsed_measurements(const std::string& text) { return parse_measurements({"m.csv", text}); }
std::string measurements_problems(const std::string& text) {
  const auto measurements = parsed_measurements(text);
  return measurements ? "" : measurements.error().message;
}

TEST(MeasurementsFile, ReadsColumnsInAnyOrder) {
  const auto measurements = parsed_measurements(
      "latency_ms,model,mig_profile,device,batch,throughput_per_s,memory_mib,latency_spread_ms,processes,size\n"
      "4,net,3g.40gb,a100-80gb,8,4000,1200,0.5,2,64\n");
  ASSERT_TRUE(measurements) << measurements.error().message;
  // Two processes run batches of 8 in 4 ms each: 4000 samples a second.
  const Measurement expected{"a100-80gb", "3g.40gb", "net", 8, 64, 2, 4.0, 0.5, 1200.0, 4000.0};
  EXPECT_EQ((*measurements)[0], expected);
}

TEST(MeasurementsFile, TakesABlankLatencyForOutOfMemory) {
  const auto measurements = parsed_measurements("device,mig_profile,model,batch,latency_ms\r\na30,1g.6gb,net,64,\r\n");
  ASSERT_TRUE(measurements) << measurements.error().message;
  EXPECT_TRUE((*measurements)[0].out_of_memory());
  EXPECT_EQ((*measurements)[0].size, 1);
}

TEST(MeasurementsFile, GivesProfilesTheNamesOfTheTables) {
  const auto measurements =
      parsed_measurements("device,mig_profile,model,batch,latency_ms\na100-80gb,7g.79gb,net,1,2\ncpu,1.50c,net,1,2\n");
  ASSERT_TRUE(measurements) << measurements.error().message;
  EXPECT_EQ((*measurements)[0].mig_profile, "7g.80gb");
  EXPECT_EQ((*measurements)[1].mig_profile, "1.5c");
}

TEST(MeasurementsFile, ReportsEveryBadRow) {
  const std::string header = "device,mig_profile,model,batch,latency_ms\n";
  EXPECT_EQ(
      measurements_problems(
          header + "a31,1g.6gb,net,1,2\na30,3g.6gb,net,1,2\na30,1g.6gb,net,0,-1\na30,1g.6gb,net\ncpu,0.3c,net,1,1\n"),
      "m.csv:2:1: device is unknown: \"a31\", did you mean a30?; known: a30, a100-40gb, a100-80gb, h100-80gb, "
      "h100-94gb, "
      "h100-96gb, h200-141gb, gh200-144gb, b200-180gb, gb200-186gb, b300, gb300, rtx-pro-6000, cpu\n"
      "m.csv:3:5: a30 has no profile 3g.6gb; known: 1g.6gb, 1g.6gb+me, 2g.12gb, "
      "2g.12gb+me, 4g.24gb\n"
      "m.csv:4:16: batch must be at least 1, not 0\n"
      "m.csv:4:18: latency_ms must be greater than 0, not -1\n"
      "m.csv:5:1: the row has 3 fields, but the header has 5\n"
      "m.csv:6:5: cpu has no profile \"0.3c\"; expected cores in quarters such as 0.25c, 1c, 1.5c");
}

// Row 2 is wrong in its device and its batch, row 3 in profile and latency; row 4 has a throughput of 10 where
// 1 / 5 ms = 200, and row 5 is row 4 again but for a memory that is wrong.
TEST(MeasurementsFile, ReportsEverythingThatIsWrongInARow) {
  const std::string text = measurements_problems(
      "device,mig_profile,model,batch,latency_ms,memory_mib,throughput_per_s\n"
      "a100-8gb,9g.1gb,m,0,5,,\na100-80gb,9g.1gb,m,1,-5,,\na30,1g,m,1,5,-1,10\na30,1g,m,1,5,-1,\n");
  for (const char* part :
       {"m.csv:2:1: device is unknown", "m.csv:2:19: batch must be at least 1", "m.csv:3:11: a100-80gb has no profile",
        "m.csv:3:22: latency_ms must be greater", "m.csv:4:14: memory_mib must be", "m.csv:4:17: throughput_per_s 10 ",
        "m.csv:5:1: m with batch 1, size 1 and 1 process on a30 1g.6gb is given in line 4 and again in line 5",
        "m.csv:5:14: memory_mib must be"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(std::ranges::count(text, '\n'), 7) << text;
}

TEST(MeasurementsFile, ReportsTheSameConfigurationTwiceWithBothLines) {
  EXPECT_EQ(
      measurements_problems(
          "device,mig_profile,model,batch,latency_ms\na30,1g.6gb,net,1,2\na30,2g.12gb,net,1,2\na30,1g.6gb,net,1,3\n"),
      "m.csv:4:1: net with batch 1, size 1 and 1 process on a30 1g.6gb is given in line 2 and again in line 4");
}

// A batch of 8 in 4 ms is 2000 a second; 2 is the same in samples a millisecond, 4000 just within a factor of two.
TEST(MeasurementsFile, ReportsAThroughputInOtherUnits) {
  const std::string header = "device,mig_profile,model,batch,latency_ms,throughput_per_s\n";
  EXPECT_EQ(measurements_problems(header + "a30,1g.6gb,net,8,4,2\n"),
            "m.csv:2:20: throughput_per_s 2 contradicts batch * processes / latency = 2000; check the units");
  EXPECT_EQ(measurements_problems(header + "a30,1g.6gb,net,8,4,4000\n"), "");
  EXPECT_EQ(measurements_problems(header + "a30,1g.6gb,net,8,,10\n"),
            "m.csv:2:19: a run without latency ran out of memory and cannot have a throughput");
}

TEST(MeasurementsFile, ChecksItsHeader) {
  EXPECT_EQ(measurements_problems("device,mig_profile,modell,batch,latency_ms,batch\na30,1g.6gb,net,1,2,1\n"),
            "m.csv:1:1: column model is missing\n"
            "m.csv:1:20: column is unknown: \"modell\", did you mean model?; known: device, mig_profile, model, batch, "
            "size, processes, latency_ms, latency_spread_ms, memory_mib, throughput_per_s, "
            "weights_mib, load_ms\n"
            "m.csv:1:44: column batch is given twice");
  EXPECT_EQ(measurements_problems(""), "m.csv: the file is empty; expected a header row");
}

TEST(MeasurementsFile, OfTheExamplesReadsBackTheSame) {
  const auto measurements = parse_measurements(test::example("measurements.csv"));
  ASSERT_TRUE(measurements) << measurements.error().message;
  EXPECT_GT(measurements->size(), 40U);
  const auto again = parsed_measurements(write_measurements(*measurements));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *measurements);
}

}  // namespace
}  // namespace tangram::formats
