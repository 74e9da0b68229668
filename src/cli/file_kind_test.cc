#include "cli/file_kind.h"

#include <gtest/gtest.h>

namespace tangram::cli {
namespace {

TEST(FileKind, IsSeenInTheContentWhateverTheName) {
  EXPECT_EQ(detect_file_kind("plan.json", "# mine\nspare: none\ndevices:\n  - type: a30\n"), FileKind::fleet);
  EXPECT_EQ(detect_file_kind("x", "services:\n"), FileKind::services);
  EXPECT_EQ(detect_file_kind("x", "  {\"version\": 1, \"devices\": []}"), FileKind::plan);
  EXPECT_EQ(detect_file_kind("plan.json", R"({"version": 1, "models": [{"devices": 3}]})"), FileKind::model);
  EXPECT_EQ(detect_file_kind("x", "model,device,mig_profile,batch,latency_ms\n"), FileKind::measurements);
  EXPECT_EQ(detect_file_kind("x",
                             "\xEF\xBB\xBF"
                             "at_s,size\n0,1\n"),
            FileKind::trace);
  EXPECT_EQ(detect_file_kind("x", "size,weight\r\n1,2\r\n"), FileKind::histogram);
  EXPECT_EQ(detect_file_kind("x", "name,submit_s\n"), FileKind::jobs);
  EXPECT_EQ(detect_file_kind("x", "application,kind,nodes,replicas,local_batch,step_s\n"), FileKind::training);
  EXPECT_EQ(detect_file_kind("x", "slices,action,runs,mean_ms\n"), FileKind::recuts);
  EXPECT_EQ(detect_file_kind("x", "tenants:\n  - name: search\n"), FileKind::access);
  EXPECT_EQ(detect_file_kind("x", "# rates\n12.5\n13\n"), FileKind::curve);
}

// A value of that name, a key further in and a quote that is escaped are no keys of the document.
TEST(FileKind, OfJsonIsSeenInTheOutermostKeysOnly) {
  EXPECT_EQ(detect_file_kind("x", R"({"name": "models", "parts": {"devices": []}})"), std::nullopt);
  EXPECT_EQ(detect_file_kind("x", R"({"name": "a\"b", "devices": [)"), FileKind::plan);
  EXPECT_EQ(detect_file_kind("x", R"({"name": "\)"), std::nullopt);
  EXPECT_EQ(detect_file_kind("my-plan.json", "{}"), FileKind::plan);
}

// A key inside another is no kind: only the first column counts.
TEST(FileKind, IsNotSeenInNestedKeys) { EXPECT_EQ(detect_file_kind("x", "things:\n  devices: 3\n"), std::nullopt); }

TEST(FileKind, FallsBackOnTheName) {
  EXPECT_EQ(detect_file_kind("fleet/my-services.yaml", "srvices:\n"), FileKind::services);
  EXPECT_EQ(detect_file_kind("fleet/notes.txt", ""), std::nullopt);
}

TEST(FileKind, HasANameThatReadsBack) {
  for (const auto& name : file_kind_names()) EXPECT_EQ(to_string(*parse_file_kind(name)), name);
  EXPECT_EQ(parse_file_kind("flet"), std::nullopt);
}

}  // namespace
}  // namespace tangram::cli
