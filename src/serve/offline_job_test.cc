#include "client/offline_job.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "client/http_client.h"
#include "client/offline_input.h"
#include "client/offline_output.h"
#include "host/test_nowhere.h"
#include "serve/server.h"
#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

// A server on a thread of its own that answers at once, a folder, and jobs in it.
class OfflineJobTest : public ::testing::Test {
 protected:
  explicit OfflineJobTest(Duration slo = 50ms) : log_(nowhere_.descriptor) {
    std::string name = (std::filesystem::temp_directory_path() / "tangram-job-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    ServerConfig config;
    config.http_port = config.metrics_port = 0;
    config.emulated.time_scale = 0;
    config.exit_timeout = 100ms;  // Rows that were given up may still wait there.
    sched::Deployment deployment = test::deployment();
    deployment.services[0].slo.latency = slo;
    server_ = std::make_unique<Server>(std::move(deployment), test::workload(), std::move(config), log_);
    EXPECT_TRUE(server_->open());
    thread_ = std::thread([this] { server_->run(); });
  }
  ~OfflineJobTest() override {
    server_->request_stop();
    thread_.join();
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string write_rows(int count) const {
    std::ofstream out(folder_ + "/in.jsonl");
    for (int i = 1; i <= count; ++i) {
      if (i % 10 == 0) {
        out << "{\"nothing\":1}\n";
      } else {
        out << "{\"id\":\"r" << i << "\",\"ids\":[" << i << ",2,3]}\n";
      }
    }
    return folder_ + "/in.jsonl";
  }

  std::string write_file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }

  client::OfflineStore submit(const std::string& input, const std::string& output,
                              const std::string& model = "rank") const {
    client::OfflineJob job;
    job.format = *client::parse_row_format(input);
    job.model = model;
    job.input = input;
    job.output = output;
    job.port = server_->http_port();
    const auto facts = client::scan_input(input, job.format);
    EXPECT_TRUE(facts.ok());
    job.rows = facts->rows;
    job.input_bytes = facts->bytes;
    job.input_digest = facts->digest;
    auto store = client::OfflineStore::create(folder_ + "/store", job);
    EXPECT_TRUE(store.ok());
    return std::move(*store);
  }

  static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  host::test::Nowhere nowhere_;
  host::LogWriter log_;
  std::string folder_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

// Rows 10, 20, ... are wrong. The promises of the server have seen none of the others: they ran in the background.
TEST_F(OfflineJobTest, AnswersEveryRowInOrderAndListsBadOnesApart) {
  auto store = submit(write_rows(100), folder_ + "/out");
  const auto end = client::run_offline_job(store, {});
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(*end, client::OfflineEnd::done);
  std::istringstream lines(content(folder_ + "/out"));
  std::string line;
  for (int row = 1; std::getline(lines, line); ++row) {
    if (row % 10 == 0) ++row;
    EXPECT_TRUE(line.starts_with("{\"row\":" + std::to_string(row) + ",\"id\":\"r" + std::to_string(row) + "\""))
        << line;
  }
  EXPECT_TRUE(
      content(client::failed_path(folder_ + "/out"))
          .starts_with(
              "{\"row\":10,\"line\":10,\"reason\":\"nothing: not an input of the model; its inputs are ids, mask\"}\n"));
  const auto job = store.read();
  EXPECT_EQ(job->answered, 90U);
  EXPECT_EQ(job->failed, 10U);
  EXPECT_EQ(job->state, client::OfflineState::done);
  const auto metrics = client::ask_http({.port = server_->metrics_port(), .path = "/metrics"});
  ASSERT_TRUE(metrics.ok());
  EXPECT_NE(metrics->body.find("tangram_background_requests_total{service=\"rank\",outcome=\"served\"} 90\n"),
            std::string::npos);
  EXPECT_NE(metrics->body.find("tangram_requests_total{service=\"rank\",outcome=\"served\"} 0\n"), std::string::npos);
}

// Interrupted at every look around until it is done: the output is that of a run without interruption.
TEST_F(OfflineJobTest, EndsLikeOneThatWasNeverInterrupted) {
  const std::string input = write_rows(200);
  auto whole = submit(input, folder_ + "/whole");
  ASSERT_TRUE(client::run_offline_job(whole, {}).ok());
  auto parts = submit(input, folder_ + "/parts");
  int runs = 0;
  while (parts.read()->state == client::OfflineState::open && runs < 1000) {
    int looks = 0;
    client::OfflineRunConfig config;
    config.interrupted = [&] { return ++looks > 3; };
    const auto end = client::run_offline_job(parts, config);
    ASSERT_TRUE(end.ok()) << end.error().message;
    ++runs;
  }
  EXPECT_GT(runs, 2);
  EXPECT_EQ(content(folder_ + "/parts"), content(folder_ + "/whole"));
  EXPECT_EQ(content(client::failed_path(folder_ + "/parts")), content(client::failed_path(folder_ + "/whole")));
}

TEST_F(OfflineJobTest, StopsWhereTheModelIsUnknownOrTheInputHasChanged) {
  auto unknown = submit(write_rows(5), folder_ + "/out", "nobody");
  const auto refused = client::run_offline_job(unknown, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::not_found);
  EXPECT_FALSE(unknown.read()->message.empty());
  auto changed = submit(write_rows(5), folder_ + "/out");
  write_rows(6);
  EXPECT_NE(client::run_offline_job(changed, {}).error().message.find("the file has changed since the job began"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/out"));
}

// Nobody listens at port 1, and patience ends at once; the job stays open.
TEST_F(OfflineJobTest, GivesUpOnAServerThatStaysAway) {
  auto store = submit(write_rows(5), folder_ + "/out");
  ASSERT_TRUE(store.set_server("127.0.0.1", 1).ok());
  client::OfflineRunConfig config;
  config.patience = 0s;
  const auto end = client::run_offline_job(store, config);
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code, ErrorCode::unavailable);
  EXPECT_EQ(store.read()->state, client::OfflineState::open);
}

TEST_F(OfflineJobTest, AnEmptyFileHasAnEmptyOutput) {
  auto store = submit(write_rows(0), folder_ + "/out");
  ASSERT_TRUE(client::run_offline_job(store, {}).ok());
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/out"));
  EXPECT_EQ(content(folder_ + "/out"), "");
}

// Row 1 is no request, and says what it is called; row 2 says nothing.
TEST_F(OfflineJobTest, NamesFailedRowsAsTheInputDoes) {
  auto store = submit(write_file("in.jsonl", "{\"id\":\"first\",\"nothing\":1}\n{\"nothing\":1}\n"), folder_ + "/out");
  ASSERT_TRUE(client::run_offline_job(store, {}).ok());
  const std::string reason = "\"reason\":\"nothing: not an input of the model; its inputs are ids, mask\"}\n";
  EXPECT_EQ(content(client::failed_path(folder_ + "/out")),
            "{\"row\":1,\"line\":1,\"id\":\"first\"," + reason + "{\"row\":2,\"line\":2," + reason);
}

// The byte 0xff is no UTF-8: the line says so with the sign that stands for it, and is JSON.
TEST_F(OfflineJobTest, ListsFailedRowsAsJsonWhateverTheInputHolds) {
  auto store = submit(write_file("in.csv", "id,ids\nr\xff,x\xff\n"), folder_ + "/out");
  const auto end = client::run_offline_job(store, {});
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(content(client::failed_path(folder_ + "/out")),
            "{\"row\":1,\"line\":2,\"id\":\"r\xEF\xBF\xBD\",\"reason\":\"ids: not a number: x\xEF\xBF\xBD\"}\n");
}

// One line without names is a header that no model has, not a file without rows; names alone are a file without rows.
TEST_F(OfflineJobTest, RefusesCsvWithoutAHeader) {
  auto store = submit(write_file("in.csv", "1 2 3\n"), folder_ + "/out");
  const auto end = client::run_offline_job(store, {});
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code, ErrorCode::invalid);
  EXPECT_NE(end.error().message.find("line 1: column 1 2 3"), std::string::npos) << end.error().message;
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/out"));
  EXPECT_NE(client::scan_input(write_file("empty.csv", "\n"), client::RowFormat::csv)
                .error()
                .message.find("must name its columns"),
            std::string::npos);
  auto names = submit(write_file("names.csv", "id,ids\n"), folder_ + "/none");
  ASSERT_TRUE(client::run_offline_job(names, {}).ok());
  EXPECT_EQ(content(folder_ + "/none"), "");
}

// A row takes 2 ms or more where the promise is 3 ms: there is never room for one.
class OfflineJobWithoutRoom : public OfflineJobTest {
 protected:
  OfflineJobWithoutRoom() : OfflineJobTest(3ms) {}
};

TEST_F(OfflineJobWithoutRoom, SaysWhyNothingMoves) {
  auto store = submit(write_rows(5), folder_ + "/out");
  std::string told;
  std::string kept;
  client::OfflineRunConfig config;
  config.stall = 0s;
  config.progress = [&](const client::OfflineView& view) {
    if (!view.stalled) return;
    told = view.trouble;
    kept = store.read()->message;
  };
  config.interrupted = [&] { return told.find("never start") != std::string::npos; };
  const auto end = client::run_offline_job(store, config);
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(*end, client::OfflineEnd::interrupted);
  EXPECT_EQ(told, kept);
  EXPECT_EQ(store.read()->message, "") << "of a run that has ended";
}

}  // namespace
}  // namespace tangram::serve
