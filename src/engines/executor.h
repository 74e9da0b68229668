// How batches run on one slice while others run elsewhere: nothing here waits.
//
// Whoever serves asks for memory, fills in the padded inputs, starts the batch and hears of its end later. An executor
// may run inside the process or speak for a worker beside it; the caller need not know which. One batch at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/ids.h"
#include "core/tensor.h"

namespace tangram::engines {

// A batch of one service. Every sample is padded to `size`.
struct BatchJob {
  BatchId batch = {};
  ServiceId service = {};
  std::int32_t samples = 1;
  std::int64_t size = 1;
  Duration expected{};  // What the latency model says it takes, once its model is loaded.
  bool cold = false;    // Its model is not loaded: it is loaded first.
  Duration load{};      // How long that takes, where it is known.
  Duration remaining{};  // Until nobody wants its answers any more; zero: not known.
};

// The tensors of a batch in the order of the signature, samples first, row-major. The caller writes the inputs before
// the start and reads the outputs after the end.
struct BatchMemory {
  std::vector<std::span<std::byte>> inputs;
  std::vector<std::span<std::byte>> outputs;
};

// Where executors report what happens outside the calling thread. May be called from any thread.
class ExecutorEvents {
 public:
  virtual ~ExecutorEvents() = default;
  // The answer to a start that returned nothing. `failure` is empty when all is well.
  virtual void on_done(SliceId slice, BatchId batch, std::string failure) = 0;
  // The answer to a start whose batch was ended early by Executor::stop.
  virtual void on_stopped(SliceId slice, BatchId batch) { on_done(slice, batch, "the batch was stopped"); }
  // The slice stopped working, for this reason; what ran there is not answered any more.
  virtual void on_lost(SliceId slice, std::string reason) = 0;
  // The answer to a restart that returned false.
  virtual void on_restarted(SliceId slice, bool ok) = 0;
  // Said just before the on_done of a batch that ran elsewhere: how long it took there. The rest of the time since its
  // start was the way there and back.
  virtual void on_ran(SliceId /*slice*/, Duration /*ran*/) {}
  // Said just before the on_done or on_lost of a batch that nobody was able to take: the requests did nothing wrong,
  // and may be sent again after this time.
  virtual void on_rejected_upstream(SliceId /*slice*/, Duration /*retry_after*/) {}
};

struct ModelSpec;

class Executor {
 public:
  virtual ~Executor() = default;
  // Room for the tensors of `job`, valid until its end. Errors: the batch is larger than the executor can hold.
  virtual Result<BatchMemory*> prepare(const BatchJob& job) = 0;
  // Runs what was prepared. Returns how long it will take where that is known already: then the caller keeps the time,
  // and the outputs are there. Otherwise ExecutorEvents::on_done answers, exactly once.
  virtual std::optional<Duration> start(const BatchJob& job) = 0;
  // Ends the batch that runs early, as soon as the executor can. `must`: in any case, if need be by ending the process
  // that runs it, which leaves an executor that is not ready. True: the batch has ended, and nobody answers; only
  // where start() has returned its time. Otherwise on_stopped answers, or on_done if it ends by itself before.
  virtual bool stop(BatchId /*batch*/, bool /*must*/) { return false; }
  // Gives up what runs and makes the slice usable again. True: it is, at once; otherwise on_restarted answers.
  virtual bool restart() = 0;
  // False before the first restart of an executor that must load something before it can run.
  virtual bool ready() const { return true; }
  // Unloads a model that was loaded on demand, named by ModelSpec::copy; the next batch that needs it loads it again.
  // Requires an idle slice. Nothing happens where nothing is loaded.
  virtual void unload(ServiceId /*copy*/) {}
  // Goes on as `slice` with these models: keeps those that it has, and loads and unloads the others. True: on_restarted
  // answers, as to a restart. False: it cannot, and is as before. Requires an idle slice.
  virtual bool change_models(SliceId /*slice*/, std::vector<ModelSpec> /*models*/);
  // The process that runs the batches; 0: this one, or none at present.
  virtual std::int64_t process() const { return 0; }
};

struct EmulatedExecutorConfig {
  double time_scale = 1;  // Of the expected times. 0 answers at once.
};

// Takes the time that the latency model says and answers numbers that depend on each real element of the inputs, on
// its place and on nothing else: not on the padding, not on who shares the batch. So each answer is bit for bit the
// one that the request would get alone. `signatures` are those of the services, by ServiceId, and outlive it.
std::unique_ptr<Executor> make_emulated_executor(std::span<const Signature* const> signatures,
                                                 const EmulatedExecutorConfig& config);

}  // namespace tangram::engines
