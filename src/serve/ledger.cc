// Counts how requests and batches ended. One thread, that of the world, so the counters are plain numbers.
//
// Background requests are counted apart: they run in the slack of the slices and have no Slo, so they would distort
// latency and attainment. For slices they do count, because they keep them busy.

#include "serve/ledger.h"

#include <chrono>

namespace tangram::serve {

void Ledger::count_ended(const Call& call, const Outcome& outcome, bool never_in_time, TimePoint now) {
  ServiceTally& tally = services_[call.model->service.index()];
  if (call.background > 0) {
    ++tally.background[static_cast<std::size_t>(outcome.kind)];
    return;
  }
  ++tally.outcomes[static_cast<std::size_t>(outcome.kind)];
  if (never_in_time) ++tally.never_in_time;
  // A request that no slice could ever have served says nothing about how well the Slo is kept.
  // Nor does one whose caller did not wait.
  const bool abandoned = outcome.kind == OutcomeKind::abandoned;
  if (!never_in_time && !abandoned && outcome.reason != RejectReason::too_large) {
    tally.attainment.add(now, outcome.kind == OutcomeKind::served);
  }
  // From the arrival at the gateway, so the time for which a call was held counts as waiting.
  const Duration here = now - call.arrived;
  const bool answered = outcome.kind == OutcomeKind::served || outcome.kind == OutcomeKind::late;
  if (!answered) {
    ++tally.rejected[static_cast<std::size_t>(outcome.reason)];
    if (!abandoned) tally.failed_ns += static_cast<std::uint64_t>(here.count());
    return;
  }
  tally.last_ms = wall_start_ms_ + now.time_since_epoch() / std::chrono::milliseconds(1);
  tally.samples += static_cast<std::uint64_t>(call.samples);
  tally.latency.add(here);
  tally.queue.add(here - call.compute);
  tally.compute.add(call.compute);
  // Weighted by samples, since each sample is padded. The ratio of both sums is the share of real work.
  tally.size_real += static_cast<double>(call.size) * call.samples;
  tally.size_padded += static_cast<double>(call.padded_size) * call.samples;
}

// by_batch_size is what the statistics extension reports: run times by number of samples.
void Ledger::count_batch(const Batch& batch) {
  SliceServed& slice = slices_[batch.slice.index()];
  slice.busy_ns += batch.took.count();
  ++slice.batches;
  slice.samples += static_cast<std::uint64_t>(batch.samples);
  if (batch.background) return;
  ServiceTally& service = services_[batch.service.index()];
  ++service.batches;
  BatchTally& by_size = service.by_batch_size[batch.samples];
  ++by_size.count;
  by_size.compute_ns += batch.took.count();
}

// The slice was busy, whoever is at fault. A batch that a remote server had no room for is not a failure.
void Ledger::count_failed_batch(SliceId slice, Duration took, bool own_fault) {
  SliceServed& tally = slices_[slice.index()];
  tally.busy_ns += took.count();
  if (own_fault) ++tally.failures;
}

}  // namespace tangram::serve
