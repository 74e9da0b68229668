// Writes every event and action of a scheduler as a line of text, and passes the actions on to the World.
//
// Example: "> 1000000 wake" is an event with its instant in nanoseconds, "< restart 3" an action that follows.
#include "sched/recorder.h"

#include <fmt/format.h>

#include <iterator>

#include "sched/recording_text.h"

namespace tangram::sched {
namespace {

std::int64_t count_of(TimePoint when) { return when.time_since_epoch().count(); }

void append(std::string& line, std::initializer_list<std::int64_t> numbers) {
  for (const auto number : numbers) fmt::format_to(std::back_inserter(line), " {}", number);
}

}  // namespace

void Recorder::write_head(const Deployment& deployment, const SchedulerConfig& config) {
  write(fmt::format("tangram recording {}\n", kRecordingVersion));
  write("config " + write_config(config) + '\n');
  write("deployment " + write_deployment(deployment) + '\n');
}

void Recorder::write_end() { write("end\n"); }

// Stops for good at the first line that does not fit: a shorter line behind it would leave a gap, and a recording with
// a gap replays to another run.
void Recorder::write(std::string_view line) {
  if (!sink_) return;
  if (line.size() > bytes_left_) {
    sink_ = nullptr;
    return;
  }
  bytes_left_ -= line.size();
  sink_(line);
}

// Events carry their instant; the actions that follow happen at the same one.
void Recorder::write_event(std::string_view word, std::initializer_list<std::int64_t> numbers) {
  if (!sink_) return;
  line_.clear();
  fmt::format_to(std::back_inserter(line_), "> {} {}", count_of(now()), word);
  append(line_, numbers);
  line_ += '\n';
  write(line_);
}

void Recorder::write_action(std::string_view word, std::initializer_list<std::int64_t> numbers) {
  if (!sink_) return;
  line_.assign("< ").append(word);
  append(line_, numbers);
  line_ += '\n';
  write(line_);
}

// The arrival is not written: it is the instant of the event.
void Recorder::write_arrival(const Request& r) {
  write_event("arrival", {static_cast<std::int64_t>(r.id.value()), r.service.value(), r.tenant.value(), r.priority,
                          r.samples, r.size, count_of(r.deadline)});
}

// The last number: 1 for a batch that succeeded, 0 for one that failed, 2 for one that found no room, 3 for one that
// was stopped.
void Recorder::write_done(const BatchDone& done) {
  const int how = done.ok ? 1 : done.stopped ? 3 : done.rejected_upstream ? 2 : 0;
  write_event("done", {done.slice.value(), static_cast<std::int64_t>(done.batch.value()), how});
}

void Recorder::write_plan(const Deployment& next) {
  if (sink_) write(fmt::format("> {} plan {}\n", count_of(now()), write_deployment(next)));
}

void Recorder::wake_at(TimePoint when) {
  write_action("wake_at", {count_of(when)});
  world_.wake_at(when);
}

void Recorder::launch(const Batch& b) {
  if (sink_) {
    line_.assign("< launch");
    append(line_, {static_cast<std::int64_t>(b.id.value()), b.slice.value(), b.service.value(), b.bucket, b.padded_size,
                   b.samples, b.predicted.count()});
    line_ += ':';
    for (const Request* member : b.members) append(line_, {static_cast<std::int64_t>(member->id.value())});
    line_ += '\n';
    write(line_);
  }
  if (watcher_ != nullptr) watcher_->launched(b);
  world_.launch(b);
}

void Recorder::stop(SliceId slice, bool must) {
  write_action("stop", {slice.value(), must ? 1 : 0});
  world_.stop(slice, must);
}

void Recorder::restart(SliceId slice) {
  write_action("restart", {slice.value()});
  world_.restart(slice);
}

// Profiles by index, not by name: tests have devices without a geometry.
void Recorder::reshape(DeviceId device, const Layout& target) {
  if (sink_) write(fmt::format("< reshape {} {}\n", device.value(), write_layout(target)));
  world_.reshape(device, target);
}

// Only Scheduler::lend and lend_idle lend a slice, so the event is recorded as `lend` of the
// slice that was found; replayed, that has the same effect.
void Recorder::lend(SliceId slice) {
  if (!handling_) write_event("lend", {slice.value()});
  write_action("lend", {slice.value()});
  if (watcher_ != nullptr) watcher_->lent(slice, now());
  world_.lend(slice);
}

// A plan that takes a lent slice away recalls it by itself, while an event is handled.
void Recorder::recall(SliceId slice) {
  if (!handling_) write_event("recall", {slice.value()});
  write_action("recall", {slice.value()});
  if (watcher_ != nullptr) watcher_->recalled(slice, now());
  world_.recall(slice);
}

void Recorder::resolve(const Request& request, const Outcome& outcome, const Batch* batch) {
  write_action("resolve", {static_cast<std::int64_t>(request.id.value()), static_cast<std::int64_t>(outcome.kind),
                           static_cast<std::int64_t>(outcome.reason), count_of(outcome.earliest),
                           batch == nullptr ? 0 : static_cast<std::int64_t>(batch->id.value())});
  if (watcher_ != nullptr) watcher_->resolved(request, outcome, batch);
  world_.resolve(request, outcome, batch);
}

}  // namespace tangram::sched
