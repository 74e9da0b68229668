#include "serve/command_link.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

// Says that it is ready, and never answers a batch.
constexpr const char* kSilentServer = R"(exec python3 -c '
import http.server, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def do_POST(self):
        time.sleep(600)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
' {port} 2>/dev/null)";

struct Heard final : engines::ExecutorEvents {
  void on_done(SliceId, BatchId, std::string) override { ++done; }
  void on_lost(SliceId, std::string) override { ++lost; }
  void on_restarted(SliceId, bool ok) override { ok ? ++ready : ++failed; }

  int done = 0;
  int lost = 0;
  int ready = 0;
  int failed = 0;
};

// A batch takes too long, so the scheduler has the slice restarted: the end of the old server is no second loss, and
// the slice comes back.
TEST(CommandLink, ComesBackFromARestartInABatch) {
  host::EventLoop loop;
  const host::LiveClock clock;
  host::LogWriter log(memfd_create("log", MFD_CLOEXEC));
  engines::Remotes remotes(loop, clock, log);
  Commands commands(loop, clock, log, remotes);
  Heard heard;
  CommandConfig config;
  config.program = worker::find_worker_program();
  config.command = kSilentServer;
  config.title = "slice";
  config.models = {{.service = ServiceId(0),
                    .name = "rank",
                    .network = "encoder",
                    .signature = test::workload().services[0].signature()}};
  const auto link = commands.make(SliceId(0), std::move(config), heard);
  const auto wait_for = [&](const int& count, int value) {
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (count < value && std::chrono::steady_clock::now() < limit) {
      loop.wait(clock, std::min({remotes.next_due(), commands.next_due(), clock.now() + 50ms}));
      remotes.work(clock.now());
      commands.work(clock.now());
    }
    return count >= value;
  };
  EXPECT_FALSE(link->restart());
  ASSERT_TRUE(wait_for(heard.ready, 1));
  const engines::BatchJob job{.batch = BatchId(7), .service = ServiceId(0), .samples = 2, .size = 3};
  ASSERT_TRUE(link->prepare(job));
  ASSERT_FALSE(link->start(job));
  EXPECT_FALSE(link->restart());
  EXPECT_TRUE(wait_for(heard.ready, 2));
  EXPECT_EQ(heard.lost, 0);
  EXPECT_EQ(heard.done, 0);
  EXPECT_EQ(heard.failed, 0);
}

}  // namespace
}  // namespace tangram::serve
