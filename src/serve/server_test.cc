#include "serve/server.h"

#include <signal.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "client/http_client.h"
#include "host/test_nowhere.h"
#include "serve/test_calls.h"
#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

// A server with free ports that runs on a thread of its own until the test ends.
class Running {
 public:
  explicit Running(ServerConfig config)
      : file_(memfd_create("log", MFD_CLOEXEC)), log_(std::make_unique<host::LogWriter>(file_)) {
    config.http_port = config.metrics_port = 0;
    config.emulated.time_scale = 0.1;
    server_ = std::make_unique<Server>(test::deployment(), test::workload(), std::move(config), *log_);
    EXPECT_TRUE(server_->open());
    thread_ = std::thread([this] { all_answered = server_->run(); });
  }
  ~Running() {
    stop();
    close(file_);
  }

  void stop() {
    if (!thread_.joinable()) return;
    server_->request_stop();
    thread_.join();
    server_.reset();
    log_.reset();
  }
  // All of it once the server has stopped; before, the last lines may be on their way.
  std::string log() const { return test::written_to(file_); }

  Result<client::HttpAnswer> ask(const std::string& method, const std::string& path, const std::string& body = "") {
    return client::ask_http({.port = server_->http_port(), .method = method, .path = path, .body = body});
  }
  Result<client::HttpAnswer> ask_admin(const std::string& method, const std::string& path) {
    return client::ask_http({.port = server_->metrics_port(), .method = method, .path = path});
  }
  void reload() { server_->request_reload(); }
  // Asks until every slice is ready, for far too long at most.
  bool wait_until_ready() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < limit) {
      const auto answer = ask("GET", "/v2/health/ready");
      if (answer && answer->status == 200) return true;
    }
    return false;
  }

  std::atomic<bool> all_answered{false};

  // Asks until so many plans have been put in place, for far too long at most.
  bool wait_for_plan(int count) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < limit) {
      const auto answer = ask_admin("GET", "/status");
      if (!answer) return false;
      const auto told = nlohmann::json::parse(answer->body);
      if (told.at("plan_changes") == count && told.at("plan_moving") == false) return true;
    }
    return false;
  }

 private:
  int file_;
  std::unique_ptr<host::LogWriter> log_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

std::string question(int length) {
  std::string ids;
  for (int i = 1; i <= length; ++i) ids += (i == 1 ? "" : ",") + std::to_string(i);
  return R"({"inputs":[{"name":"ids","datatype":"INT64","shape":[1,)" + std::to_string(length) + R"(],"data":[)" + ids +
         R"(]}],"parameters":{"tangram_deadline_ms":60000}})";
}

struct Setting {
  int threads = 1;
  bool workers = false;
};

class ServerThreads : public testing::TestWithParam<Setting> {};

// Eight clients ask twenty times each while the plan is changed; all are answered, and the same question gets the same
// answer every time.
TEST_P(ServerThreads, AnswerEveryoneWhileThePlanChanges) {
  ServerConfig config;
  config.threads = GetParam().threads;
  config.workers = GetParam().workers;
  std::atomic<int> reloads{0};
  config.reload = [&](const sched::Roster& now) -> Result<ReloadedPlan> {
    return ReloadedPlan{now, test::deployment(++reloads % 2 == 0 ? 8 : 4)};
  };
  Running server(std::move(config));
  ASSERT_TRUE(server.wait_until_ready());
  std::atomic<int> answered{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      std::string first;
      for (int n = 0; n < 20; ++n) {
        const auto answer = server.ask("POST", "/v2/models/rank/infer", question(1 + c * 9));
        if (!answer || answer->status != 200) continue;
        if (first.empty()) first = answer->body;
        EXPECT_EQ(answer->body, first);
        ++answered;
      }
    });
  }
  for (int i = 0; i < 3; ++i) {
    server.reload();
    const auto status = server.ask_admin("GET", "/status");
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_TRUE(nlohmann::json::accept(status->body));
    EXPECT_EQ(server.ask_admin("GET", "/metrics")->status, 200);
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(answered, 160);
  EXPECT_GE(reloads, 1);
  server.stop();
  EXPECT_TRUE(server.all_answered);
}

// What /status says of reloads when the first `number` have ended, which it is asked for far too long at most.
nlohmann::json reloads_after(Running& server, std::uint64_t number) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  nlohmann::json reloads;
  do {
    const auto status = server.ask_admin("GET", "/status");
    if (status) reloads = nlohmann::json::parse(status->body).at("reloads");
  } while (reloads.at("ended") < number && std::chrono::steady_clock::now() < limit);
  return reloads;
}

// The plan is right and the access file is wrong: neither counts, and whoever asked is told why. Then both are right.
TEST(ServerReload, TakesAllFilesOrNone) {
  ServerConfig config;
  std::atomic<bool> wrong{true};
  config.reload = [](const sched::Roster& now) -> Result<ReloadedPlan> {
    return ReloadedPlan{now, test::deployment(4)};
  };
  config.reload_security = [&]() -> Result<Security> {
    if (wrong) return Error{ErrorCode::invalid, "access.yaml:1:1: wrong"};
    return Security{};
  };
  Running server(std::move(config));
  ASSERT_TRUE(server.wait_until_ready());
  const auto plan_changes = [&] {
    return nlohmann::json::parse(server.ask_admin("GET", "/status")->body).at("plan_changes").get<int>();
  };
  const auto first = server.ask_admin("POST", "/reload");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(nlohmann::json::parse(first->body).at("number"), 1);
  EXPECT_EQ(reloads_after(server, 1).at("problem"), "access.yaml:1:1: wrong");
  EXPECT_EQ(plan_changes(), 0);
  wrong = false;
  EXPECT_EQ(nlohmann::json::parse(server.ask_admin("POST", "/reload")->body).at("number"), 2);
  EXPECT_EQ(reloads_after(server, 2).at("problem"), "");
  EXPECT_EQ(plan_changes(), 1);
}

// A worker that refuses to load while the file `refuses` is there, and is the real one otherwise.
class MoodyWorker {
 public:
  MoodyWorker() : program((std::filesystem::temp_directory_path() / ("moody-" + std::to_string(getpid()))).string()) {
    worker::WorkerMessage message;
    message.kind = worker::WorkerMessageKind::not_loaded;
    message.set_text("the model file is gone");
    std::ofstream(program + ".answer", std::ios::binary).write(reinterpret_cast<const char*>(&message), sizeof message);
    std::ofstream(program) << "#!/bin/sh\nif [ -e " << program << ".refuses ]; then\n"
                           << "dd bs=256 count=1 <&3 >/dev/null 2>&1; cat " << program << ".answer >&3; exec sleep 60\n"
                           << "fi\nexec " << worker::find_worker_program() << " \"$@\"\n";
    chmod(program.c_str(), 0755);
  }
  ~MoodyWorker() {
    for (const char* end : {"", ".answer", ".refuses"}) std::filesystem::remove(program + end);
  }
  MoodyWorker(const MoodyWorker&) = delete;
  MoodyWorker& operator=(const MoodyWorker&) = delete;

  void refuse() const { std::ofstream(program + ".refuses") << "yes"; }
  void relent() const { std::filesystem::remove(program + ".refuses"); }

  std::string program;
};

// The slices of the new plan cannot load. The server goes on, tries them again and again, and serves as soon as they
// can; at the first start the same would have ended it.
TEST(ServerReload, OutlivesWorkersThatCannotLoad) {
  const MoodyWorker worker;
  ServerConfig config;
  config.workers = true;
  config.worker_program = worker.program;
  config.patience.pause_min = std::chrono::milliseconds(1);
  config.patience.pause_max = std::chrono::milliseconds(20);
  config.reload = [](const sched::Roster& now) -> Result<ReloadedPlan> {
    return ReloadedPlan{now, test::deployment(4)};
  };
  Running server(std::move(config));
  ASSERT_TRUE(server.wait_until_ready());
  worker.refuse();
  // A reload that changes batches alone keeps the processes, so they are killed: their successors cannot load.
  ASSERT_TRUE(server.ask_admin("POST", "/reload"));
  const auto before = server.ask_admin("GET", "/status");
  ASSERT_TRUE(before) << before.error().message;
  const auto slices = nlohmann::json::parse(before->body).at("slices");
  for (const auto& slice : slices) {
    if (slice.at("process").is_number()) ::kill(slice.at("process").get<pid_t>(), SIGKILL);
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  // More starts in vain than a re-cut is tried.
  std::uint64_t restarts = 0;
  while (restarts < 10 && std::chrono::steady_clock::now() < limit) {
    const auto status = server.ask_admin("GET", "/status");
    ASSERT_TRUE(status) << status.error().message;
    const auto told = nlohmann::json::parse(status->body);
    restarts = 0;
    for (const auto& slice : told.at("slices")) restarts += slice.at("restarts").get<std::uint64_t>();
  }
  ASSERT_GE(restarts, 10u);
  worker.relent();
  const auto answer = server.ask("POST", "/v2/models/rank/infer", question(3));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 200) << answer->body;
  server.stop();
  EXPECT_TRUE(server.all_answered);
}

// The same refusal at the first start ends the server.
TEST(Server, EndsWhenAWorkerOfTheFirstStartCannotLoad) {
  const MoodyWorker worker;
  worker.refuse();
  const host::test::Nowhere nowhere;
  host::LogWriter log(nowhere.descriptor);
  ServerConfig config;
  config.http_port = config.metrics_port = 0;
  config.workers = true;
  config.worker_program = worker.program;
  Server server(test::deployment(), test::workload(), std::move(config), log);
  ASSERT_TRUE(server.open());
  EXPECT_FALSE(server.run());
  EXPECT_NE(server.unrecoverable().find("the model file is gone"), std::string::npos) << server.unrecoverable();
}

// Inside the server a slice has no process of its own; with workers it has one.
TEST(Server, NamesTheProcessesOfSlicesThatHaveOne) {
  for (const bool workers : {false, true}) {
    ServerConfig config;
    config.workers = workers;
    Running server(std::move(config));
    ASSERT_TRUE(server.wait_until_ready());
    const auto status = nlohmann::json::parse(server.ask_admin("GET", "/status")->body);
    for (const auto& slice : status.at("slices")) {
      const nlohmann::json& process = slice.at("process");
      EXPECT_TRUE(workers ? process.is_number() && process.get<int>() > 1 : process.is_null()) << slice;
    }
  }
}

// The first plan takes eight samples at once, the next four. Then one comes that serves nothing, and the log says so.
TEST(Server, FollowsTheNextPlanInWhatItTellsClients) {
  std::atomic<int> reloads{0};
  ServerConfig config;
  config.reload = [&](const sched::Roster& now) -> Result<ReloadedPlan> {
    sched::Deployment next = test::deployment(4);
    if (++reloads == 1) return ReloadedPlan{now, next};
    next.pools.clear();
    next.places.clear();
    next.services[0].pools.clear();
    return ReloadedPlan{now, next};
  };
  Running server(std::move(config));
  ASSERT_TRUE(server.wait_until_ready());
  const auto told = [&] {
    return nlohmann::json::parse(server.ask("GET", "/v2/models/rank/config")->body).at("max_batch_size").get<int>();
  };
  EXPECT_EQ(told(), 8);
  for (const int count : {1, 2}) {
    ASSERT_TRUE(server.ask_admin("POST", "/reload"));
    ASSERT_TRUE(server.wait_for_plan(count));
    EXPECT_EQ(told(), 4);
  }
  server.stop();
  const std::string log = server.log();
  const auto changed = log.find("plan_changed");
  ASSERT_NE(changed, std::string::npos) << log;
  EXPECT_THAT(log.substr(0, changed), testing::Not(testing::HasSubstr("service_without_replica")));
  EXPECT_THAT(log.substr(changed), testing::HasSubstr("service_without_replica"));
}

// The largest bucket is 128. The second request within a minute is counted, and not told.
TEST(Server, WarnsOnceOfRequestsThatAreBeyondThePlan) {
  Running server({});
  ASSERT_TRUE(server.wait_until_ready());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(server.ask("POST", "/v2/models/rank/infer", question(129))->status, 400);
  ASSERT_TRUE(server.ask("GET", "/v2/models/rank/ready"));
  server.stop();
  const std::string log = server.log();
  const auto first = log.find("requests_beyond_plan");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_NE(log.find(R"("size_max":129)"), std::string::npos) << log;
  EXPECT_NE(log.find(R"("plan_size_max":128)"), std::string::npos) << log;
  EXPECT_EQ(log.find("requests_beyond_plan", first + 1), std::string::npos) << log;
}

INSTANTIATE_TEST_SUITE_P(InsideAndBeside, ServerThreads,
                         testing::Values(Setting{1, false}, Setting{3, false}, Setting{1, true}, Setting{3, true}),
                         [](const auto& tried) {
                           return std::string(tried.param.workers ? "Workers" : "Inside") +
                                  std::to_string(tried.param.threads);
                         });

// The plan of the tests for the services of `roster`: each of them that is served runs on the slices of the one
// service.
sched::Deployment for_roster(const sched::Roster& roster) {
  sched::Deployment deployment = test::deployment();
  const sched::DeployedService one = deployment.services[0];
  deployment.services.clear();
  for (std::size_t s = 0; s < roster.removed.size(); ++s) {
    deployment.services.push_back(one);
    deployment.services.back().name = roster.workload.services[s].name;
    if (roster.removed[s]) deployment.services.back().pools.clear();
  }
  for (auto& pool : deployment.pools) {
    const sched::PoolService entry = pool.services[0];
    pool.services.clear();
    for (std::uint32_t s = 0; s < roster.removed.size(); ++s) {
      if (roster.removed[s]) continue;
      pool.services.push_back(entry);
      pool.services.back().service = pool.services.back().model.copy = ServiceId(s);
    }
  }
  return deployment;
}

// A service comes, then the first one goes, then it returns. Who goes is answered 404 and shown to nobody, and counters
// of who stays go on.
TEST(ServerReload, AddsAndRemovesServices) {
  std::atomic<int> reloads{0};
  ServerConfig config;
  config.reload = [&](const sched::Roster& now) -> Result<ReloadedPlan> {
    Workload next = test::workload();
    next.services.push_back(next.services[0]);
    next.services[1].name = "find";
    if (++reloads == 2) next.services.erase(next.services.begin());
    auto roster = sched::next_roster(now, next);
    if (!roster) return roster.error();
    return ReloadedPlan{*roster, for_roster(*roster)};
  };
  Running server(std::move(config));
  ASSERT_TRUE(server.wait_until_ready());
  const auto status_of = [&](const std::string& name) {
    return server.ask("POST", "/v2/models/" + name + "/infer", question(3))->status;
  };
  EXPECT_EQ(status_of("rank"), 200);
  EXPECT_EQ(status_of("find"), 404);
  const auto reload = [&](std::uint64_t number) {
    server.reload();
    EXPECT_TRUE(server.wait_for_plan(static_cast<int>(number)));
  };
  reload(1);
  EXPECT_EQ(status_of("rank"), 200);
  EXPECT_EQ(status_of("find"), 200);
  reload(2);
  EXPECT_EQ(status_of("rank"), 404);
  EXPECT_EQ(status_of("find"), 200);
  const auto told = nlohmann::json::parse(server.ask_admin("GET", "/status")->body).at("services");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].at("name"), "find");
  EXPECT_EQ(told[0].at("served"), 2);
  EXPECT_EQ(server.ask_admin("GET", "/metrics")->body.find("service=\"rank\""), std::string::npos);
  reload(3);
  EXPECT_EQ(status_of("rank"), 200);
}

}  // namespace
}  // namespace tangram::serve
