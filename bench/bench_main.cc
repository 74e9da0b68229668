// The main of every benchmark program: runs them, prints ratios to the peers timed in the same run, and fails if a
// benchmark found its own result wrong.
//
// `BM_Exponential/tangram` and `BM_Exponential/std` are peers: same task, same run, same machine. Only their ratio
// means something elsewhere.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace {

class PeerReporter final : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const auto& run : runs) {
      failed_ |= run.error_occurred;
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      std::string name = run.benchmark_name();
      if (const auto at = name.find("/manual_time"); at != std::string::npos)
        name.resize(at);  // How, not what, was timed.
      times_.emplace_back(std::move(name), run.real_accumulated_time / static_cast<double>(run.iterations));
    }
  }

  // One line for each peer of a benchmark of ours: above 1, ours is faster.
  void print_ratios() const {
    static constexpr std::string_view kOurs = "/tangram";
    for (const auto& [name, seconds] : times_) {
      const auto at = name.find(kOurs);
      if (at == std::string::npos) continue;
      const std::string task = name.substr(0, at + 1);
      const std::string rest = name.substr(at + kOurs.size());
      for (const auto& [peer, peer_seconds] : times_) {
        const bool same_task = peer != name && peer.starts_with(task) && peer.ends_with(rest);
        if (same_task) fmt::print("{} is {:.2f} x as fast as {}\n", name, peer_seconds / seconds, peer);
      }
    }
  }
  bool failed() const { return failed_; }

 private:
  std::vector<std::pair<std::string, double>> times_;
  bool failed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  PeerReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  reporter.print_ratios();
  return reporter.failed() ? 1 : 0;
}
