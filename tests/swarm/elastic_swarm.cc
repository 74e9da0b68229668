// elastic_swarm FIRST COUNT: one elastic training job a seed, whose trainers join, leave, die, hang and hear late.
//
// The coordinator is the real one (train/elastic_job.h); trainers are modelled in virtual time. A model trainer builds
// groups that end when a member dies, makes steps in collectives that succeed for some members and fail for others when
// one dies in the middle, and follows the rules of the protocol otherwise. Its parameters are a hash of all that was
// added to them, so that a step that is lost, doubled, made without a logical worker or applied to the wrong state
// shows at once: the parameters after s steps must always be those of a run with one trainer.
//
// A failure prints the line that repeats it.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/text.h"
#include "train/elastic_job.h"

namespace tangram {
namespace {

using namespace std::chrono_literals;
using train::Generation;
using train::TrainerId;
using train::TrainingGroup;

char repeat_line[64];

extern "C" void print_repeat_line(int) {
  std::fflush(stdout);
  const auto written = write(STDERR_FILENO, repeat_line, std::strlen(repeat_line));
  (void)written;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15ull + b + 0x7F4A7C15ull;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9ull;
  return x ^ (x >> 32);
}

constexpr int kLogical = 8;

// What the logical worker adds to the step.
std::uint64_t gradient(std::uint64_t parameters, std::int64_t step, int logical) {
  return mix(parameters, mix(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(logical)));
}

struct Settings {
  std::int64_t steps = 0;
  double fault_rate = 0;  // Joins, leaves and deaths a second.
  std::int64_t faults_max = 0;
  double late_share = 0;  // Messages that take up to a second.
  double lost_share = 0;  // Messages that are lost.
  double hang_share = 0;  // Of the deaths: the process stops instead and keeps its sockets.
  std::size_t trainers_max = 4;
  double step_ms = 20;
  bool all_may_die = false;
};

class Cluster final : public train::TrainerLinks {
 public:
  Cluster(std::uint64_t seed, const Settings& settings)
      : settings_(settings), rng_(seed), faults_(rng_.stream("faults")), job_(config(), *this) {
    parameters_.push_back(mix(seed, 1));
    for (std::int64_t s = 0; s < settings.steps; ++s) parameters_.push_back(applied(parameters_.back(), s));
  }

  // Empty, or what went wrong.
  std::string run() {
    spawn();
    schedule(faults_gap(), [this] { fault(); });
    const TimePoint limit = kTimeZero + 4h;
    while (!events_.empty() && problem_.empty() && !ended()) {
      const Event event = events_.top();
      events_.pop();
      if (event.when > limit) {
        problem_ =
            fmt::format("no end: {} at step {} of {}", train::to_string(job_.state()), job_.step(), settings_.steps);
        break;
      }
      now_ = std::max(now_, event.when);
      event.act();
      job_.check();
      wake();
    }
    if (problem_.empty() && !ended()) problem_ = fmt::format("nothing happens any more at step {}", job_.step());
    if (problem_.empty()) judge_end();
    return problem_;
  }

  std::int64_t changes = 0, deaths = 0, hangs = 0, repeated = 0, lost = 0, generations = 0, parks = 0;

 private:
  struct Event {
    TimePoint when;
    std::uint64_t number;
    std::function<void()> act;
    bool operator<(const Event& other) const { return when != other.when ? when > other.when : number > other.number; }
  };

  // The connections among the members of a generation. Who drops it, or dies, breaks it for the others.
  struct Mesh {
    TrainingGroup group;
    std::set<TrainerId> building, dropped;
    std::set<TrainerId> built;
    struct Arrival {
      std::uint64_t vote = 0;
      std::vector<std::uint64_t> gradients;  // By logical worker; 0 is none.
    };
    std::map<std::int64_t, std::map<TrainerId, Arrival>> collectives;  // By step.
    std::set<std::int64_t> complete;
    std::map<TrainerId, std::pair<std::int64_t, std::uint64_t>> sent;  // State on its way to fresh members.
    bool broken() const { return !dropped.empty(); }
  };

  enum class Doing { booting, waiting, receiving, computing, reducing, over };

  struct Trainer {
    TrainerId id;
    bool alive = true, hangs = false, connected = true;
    Doing doing = Doing::booting;
    Generation generation = 0;
    std::optional<std::int64_t> step;
    std::uint64_t parameters = 0;
    std::map<Generation, TrainingGroup> known;
    std::set<Generation> built;
    Generation latest = 0;  // Prepared.
    Generation told_to_enter = 0;
    Generation failed = 0;    // Groups up to this one are of no use to it.
    bool first_step = false;  // In its generation.
    std::optional<std::uint64_t> vote;
    bool told_to_stop = false;
    TimePoint in_at, out_at;  // When the last message in each direction arrives: a stream keeps its order.
    std::optional<TimePoint> deadline;
    std::uint64_t epoch = 0;  // Of what it is doing: an event of an earlier epoch is void.
  };

  train::ElasticJobConfig config() const {
    train::ElasticJobConfig config;
    config.members_max = settings_.trainers_max;
    config.silent_max = 3s;
    config.build_max = 4s;
    config.stuck_max = 30s;
    return config;
  }

  static std::uint64_t sum_of(const std::vector<std::uint64_t>& gradients) {
    std::uint64_t sum = 0;
    for (const auto g : gradients) sum = mix(sum, g);
    return sum;
  }
  static std::uint64_t applied(std::uint64_t parameters, std::int64_t step) {
    std::vector<std::uint64_t> all;
    for (int r = 0; r < kLogical; ++r) all.push_back(gradient(parameters, step, r));
    return mix(parameters, sum_of(all));
  }

  void schedule(Duration after, std::function<void()> act) { events_.push({now_ + after, ++number_, std::move(act)}); }
  Duration jitter(double ms) { return from_milliseconds(rng_.exponential(ms) + 0.01); }
  // The end comes without faults, so that the job must come to it.
  bool calm() const { return job_.step() * 10 > settings_.steps * 9 || changes >= settings_.faults_max; }

  void wake() {
    const TimePoint at = job_.wake_at();
    if (at == kTimeNever || (wake_at_ <= at && wake_at_ > now_)) return;
    wake_at_ = std::max(at, now_);
    schedule(wake_at_ - now_, [this] {
      wake_at_ = kTimeNever;
      job_.on_wake(now_);
    });
  }

  Trainer* alive(TrainerId id) {
    const auto found = trainers_.find(id);
    return found == trainers_.end() || !found->second.alive ? nullptr : &found->second;
  }

  // ---- messages ---------------------------------------------------------------------------------------------------
  Duration delay() {
    if (!calm() && faults_.chance(settings_.late_share)) return from_milliseconds(faults_.uniform(10, 1000));
    return jitter(0.3);
  }
  bool is_lost() { return !calm() && faults_.chance(settings_.lost_share); }

  template <typename Tell>
  void to_job(Trainer& trainer, Tell tell) {
    if (!trainer.connected || is_lost()) return;
    trainer.out_at = std::max(trainer.out_at, now_ + delay());
    events_.push({trainer.out_at, ++number_, [this, tell] { tell(job_); }});
  }
  template <typename Tell>
  void to_trainer(TrainerId id, Tell tell) {
    Trainer* const trainer = alive(id);
    if (trainer == nullptr || is_lost()) return;
    trainer->in_at = std::max(trainer->in_at, now_ + delay());
    events_.push({trainer->in_at, ++number_, [this, id, tell] {
                    // A process that hangs reads nothing.
                    if (Trainer* const t = alive(id); t != nullptr && !t->hangs) tell(*t);
                  }});
  }

  void prepare(TrainerId to, const TrainingGroup& group) override {
    to_trainer(to, [this, group](Trainer& t) { on_prepare(t, group); });
  }
  void enter(TrainerId to, Generation generation) override {
    to_trainer(to, [this, generation](Trainer& t) {
      t.told_to_enter = std::max(t.told_to_enter, generation);
      enter_if_possible(t);
    });
  }
  void answer(TrainerId, Generation, std::string_view, std::string_view) override {}
  void stop(TrainerId to) override {
    to_trainer(to, [this](Trainer& t) {
      t.told_to_stop = true;
      if (t.doing == Doing::booting || t.doing == Doing::waiting || t.doing == Doing::over) die(t.id);
    });
  }
  void fence(TrainerId id) override {
    schedule(jitter(1), [this, id] { die(id); });
  }

  // ---- the life of a trainer --------------------------------------------------------------------------------------
  void spawn() {
    const TrainerId id(next_id_++);
    Trainer& trainer = trainers_[id];
    trainer.id = id;
    schedule(jitter(30), [this, id] {
      Trainer* const t = alive(id);
      if (t == nullptr) return;
      t->doing = Doing::waiting;
      const std::int64_t begins_with = saved_;
      // The first message is never lost: without it, there is no connection.
      t->out_at = now_ + delay();
      events_.push({t->out_at, ++number_, [this, id, begins_with] { job_.on_hello(now_, id, begins_with); }});
      live(id);
    });
  }

  void live(TrainerId id) {
    Trainer* const t = alive(id);
    if (t == nullptr) return;
    if (!t->hangs) {
      const bool waits = t->doing != Doing::computing;
      to_job(*t, [this, id, waits](train::ElasticJob& job) { job.on_alive(now_, id, waits); });
    }
    schedule(250ms, [this, id] { live(id); });
  }

  void die(TrainerId id) {
    Trainer* const t = alive(id);
    if (t == nullptr) return;
    t->alive = false;
    if (t->step) watch_extinction(*t->step);
    for (auto& [generation, mesh] : meshes_) {
      if (mesh.group.has(id)) drop(mesh, id);
    }
    // Whatever it had sent arrives first.
    const TimePoint at = std::max(t->out_at, now_ + jitter(0.5));
    events_.push({at, ++number_, [this, id] { job_.on_gone(now_, id); }});
    // The fleet offers a new slice for each that is gone.
    if (calm() || faults_.chance(0.8) || live_count() == 0) schedule(jitter(40), [this] { spawn_if_few(); });
  }

  std::size_t live_count() {
    return static_cast<std::size_t>(std::ranges::count_if(trainers_, [](const auto& t) { return t.second.alive; }));
  }
  void spawn_if_few() {
    if (live_count() < settings_.trainers_max + 1) spawn();
  }
  // Somebody with this many steps is going: are these now lost with everybody who had the state?
  void watch_extinction(std::int64_t step) {
    const bool others = std::ranges::any_of(trainers_, [](const auto& t) { return t.second.alive && t.second.step; });
    extinct_ = extinct_ || (!others && step > saved_);
  }

  Mesh& mesh_of(const TrainingGroup& group) {
    Mesh& mesh = meshes_[group.generation];
    mesh.group = group;
    return mesh;
  }

  void on_prepare(Trainer& t, const TrainingGroup& group) {
    if (t.doing == Doing::over || group.generation <= t.latest) return;
    t.known[group.generation] = group;
    t.latest = group.generation;
    if (!group.has(t.id)) {
      t.built.insert(group.generation);  // There is nothing to build.
      return enter_if_possible(t);
    }
    Mesh& mesh = mesh_of(group);
    mesh.building.insert(t.id);
    const bool all = mesh.building.size() == group.members.size();
    if (mesh.broken()) return build_fails(t.id, group.generation);
    if (!all) return;
    for (const TrainerId member : group.members) {
      schedule(jitter(15), [this, member, generation = group.generation] { build_ends(member, generation); });
    }
  }

  void build_ends(TrainerId id, Generation generation) {
    Trainer* const t = alive(id);
    Mesh& mesh = meshes_[generation];
    if (t == nullptr || t->hangs || mesh.dropped.contains(id)) return;
    // Connections may be complete although somebody has died since.
    if (mesh.broken() && rng_.chance(0.7)) return build_fails(id, generation);
    t->built.insert(generation);
    mesh.built.insert(id);
    to_job(*t, [this, id, generation](train::ElasticJob& job) { job.on_built(now_, id, generation); });
    enter_if_possible(*t);
  }

  void build_fails(TrainerId id, Generation generation) {
    Trainer* const t = alive(id);
    if (t == nullptr) return;
    meshes_[generation].dropped.insert(id);
    to_job(*t, [this, id, generation](train::ElasticJob& job) { job.on_build_failed(now_, id, generation); });
  }

  // Requires that the trainer waits outside of any group. Enters a group that recovers, or one that it was told to
  // enter.
  void enter_if_possible(Trainer& t) {
    if (t.doing != Doing::waiting) return;
    if (t.told_to_stop) return die(t.id);
    for (auto found = t.known.rbegin(); found != t.known.rend(); ++found) {
      const TrainingGroup& group = found->second;
      if (group.generation <= t.failed || !t.built.contains(group.generation)) continue;
      if (group.recovers && !group.has(t.id)) {
        if (group.members.empty() && group.source == t.id) return leave(t, group);
        continue;
      }
      const bool wrong_about_it =
          group.recovers && (group.restarts ? t.step.has_value() : !group.is_fresh(t.id) && t.step != group.step);
      if (wrong_about_it) continue;
      if (group.has(t.id) && (group.recovers || t.told_to_enter >= group.generation)) return enter_group(t, group);
    }
  }

  void enter_group(Trainer& t, const TrainingGroup group) {
    t.generation = group.generation;
    t.first_step = true;
    std::erase_if(t.known, [&](const auto& entry) { return entry.first <= group.generation; });
    const bool fresh = group.is_fresh(t.id);
    if (group.restarts && group.source == t.id) {
      t.step = saved_;
      t.parameters = parameters_[static_cast<std::size_t>(saved_)];
    }
    // An old state is kept until the new one is there: its holder may be the last.
    const std::int64_t step = fresh ? -1 : *t.step;
    const TrainerId id = t.id;
    to_job(t, [this, id, group, step](train::ElasticJob& job) { job.on_entered(now_, id, group.generation, step); });
    Mesh& mesh = meshes_[group.generation];
    if (mesh.broken()) return fail(t);
    ++t.epoch;
    if (group.source == t.id) {
      for (const TrainerId to : group.fresh) mesh.sent[to] = {*t.step, t.parameters};
      for (const TrainerId to : group.fresh) receive(to, group.generation);
    }
    if (fresh) {
      t.doing = Doing::receiving;
      return receive(id, group.generation);
    }
    compute(t);
  }

  void receive(TrainerId id, Generation generation) {
    Trainer* const t = alive(id);
    Mesh& mesh = meshes_[generation];
    if (t == nullptr || t->hangs || t->generation != generation || t->doing != Doing::receiving) return;
    const auto found = mesh.sent.find(id);
    if (found == mesh.sent.end()) return;
    schedule(jitter(8), [this, id, generation, state = found->second, epoch = t->epoch] {
      Trainer* const to = alive(id);
      if (to == nullptr || to->hangs || to->epoch != epoch || to->doing != Doing::receiving) return;
      if (to->generation != generation) return;
      to->step = state.first;
      to->parameters = state.second;
      compute(*to);
    });
  }

  // The logical workers of a member: a contiguous share among those who are not in their first step.
  std::vector<int> share(const Trainer& t, const TrainingGroup& group) const {
    std::vector<TrainerId> active;
    for (const TrainerId id : group.members) {
      if (!t.first_step || !group.is_fresh(id)) active.push_back(id);
    }
    std::vector<int> mine;
    const auto place = std::ranges::find(active, t.id) - active.begin();
    const auto n = std::ssize(active);
    for (int r = 0; r < kLogical && place < n; ++r) {
      if (r * n / kLogical == place) mine.push_back(r);
    }
    return mine;
  }

  void compute(Trainer& t) {
    const TrainerId id = t.id;
    ++t.epoch;
    if (*t.step == settings_.steps) {
      t.doing = Doing::over;
      if (t.parameters != parameters_.back()) problem_ = "the parameters at the end are wrong";
      const std::int64_t step = *t.step;
      to_job(t, [this, id, step](train::ElasticJob& job) { job.on_done(now_, id, step); });
      if (t.told_to_stop) die(id);
      return;
    }
    t.doing = Doing::computing;
    schedule(from_milliseconds(settings_.step_ms * rng_.uniform(0.8, 1.2)), [this, id, epoch = t.epoch] {
      Trainer* const found = alive(id);
      if (found != nullptr && !found->hangs && found->epoch == epoch) reduce(*found);
    });
  }

  void reduce(Trainer& t) {
    Mesh& mesh = meshes_[t.generation];
    if (mesh.broken()) return fail(t);
    t.doing = Doing::reducing;
    auto& arrivals = mesh.collectives[*t.step];
    Mesh::Arrival& arrival = arrivals[t.id];
    arrival.gradients.assign(kLogical, 0);
    for (const int r : share(t, mesh.group)) {
      arrival.gradients[static_cast<std::size_t>(r)] = gradient(t.parameters, *t.step, r);
    }
    t.vote = t.latest > t.generation && t.built.contains(t.latest) && !t.known[t.latest].recovers ? t.latest : 0;
    arrival.vote = *t.vote;
    if (arrivals.size() < mesh.group.members.size()) return;
    // Two groups must never make steps at the same time.
    if (t.generation < newest_) problem_ = fmt::format("generation {} makes a step after {}", t.generation, newest_);
    newest_ = std::max(newest_, t.generation);
    mesh.complete.insert(*t.step);
    for (const auto& [member, unused] : arrivals) {
      schedule(jitter(1.5), [this, member = member, generation = t.generation, step = *t.step] {
        finish_step(member, generation, step);
      });
    }
  }

  void finish_step(TrainerId id, Generation generation, std::int64_t step) {
    Trainer* const t = alive(id);
    if (t == nullptr || t->hangs || t->generation != generation || t->doing != Doing::reducing || t->step != step)
      return;
    Mesh& mesh = meshes_[generation];
    auto& arrivals = mesh.collectives[step];
    std::vector<std::uint64_t> all(kLogical, 0);
    bool agreed = *t->vote > 0;
    for (const auto& [member, arrival] : arrivals) {
      agreed = agreed && arrival.vote == *t->vote;
      for (std::size_t r = 0; r < kLogical; ++r) {
        if (arrival.gradients[r] == 0) continue;
        if (all[r] != 0) problem_ = fmt::format("step {}: logical worker {} ran twice", step, r);
        all[r] = arrival.gradients[r];
      }
    }
    t->parameters = mix(t->parameters, sum_of(all));
    t->step = step + 1;
    t->first_step = false;
    if (t->parameters != parameters_[static_cast<std::size_t>(step + 1)]) {
      problem_ =
          fmt::format("trainer {}: other parameters after step {} in generation {}", id.value(), step, generation);
      return;
    }
    to_job(*t, [this, id, generation, step](train::ElasticJob& job) { job.on_step(now_, id, generation, step + 1); });
    if (!agreed || step + 1 == settings_.steps) return compute(*t);
    const TrainingGroup group = t->known[*t->vote];
    if (!group.has(id)) return leave(*t, group);
    enter_group(*t, group);
  }

  void leave(Trainer& t, const TrainingGroup& group) {
    const TrainerId id = t.id;
    const Generation generation = group.generation;
    const std::int64_t step = *t.step;
    if (group.members.empty() && group.source == id) {
      saved_ = step;
      ++parks;
      to_job(t, [this, id, step](train::ElasticJob& job) { job.on_saved(now_, id, step); });
    }
    t.doing = Doing::over;
    to_job(t, [this, id, generation](train::ElasticJob& job) { job.on_left(now_, id, generation); });
    t.step.reset();
    watch_extinction(step);
    ++t.epoch;
    schedule(jitter(1), [this, id] { die(id); });
  }

  // Its collective cannot end. It drops all groups but those that recover later.
  void fail(Trainer& t) {
    t.doing = Doing::waiting;
    ++t.epoch;
    t.failed = t.generation;
    const Generation generation = t.generation;
    for (auto& [number, mesh] : meshes_) {
      const bool later = number > generation && mesh.group.recovers;
      if (mesh.group.has(t.id) && !later && !mesh.dropped.contains(t.id)) drop(mesh, t.id);
    }
    std::erase_if(t.known, [&](const auto& entry) { return !entry.second.recovers; });
    const std::optional<std::int64_t> step = t.step;
    const TrainerId id = t.id;
    to_job(t, [this, id, generation, step](train::ElasticJob& job) { job.on_failed(now_, id, generation, step); });
    enter_if_possible(t);
  }

  // Closes the connections of one member: the others fail where they wait for it.
  void drop(Mesh& mesh, TrainerId who) {
    mesh.dropped.insert(who);
    for (const TrainerId member : mesh.group.members) {
      if (member == who) continue;
      schedule(jitter(1), [this, member, generation = mesh.group.generation] { feel(member, generation); });
    }
  }

  void feel(TrainerId id, Generation generation) {
    Trainer* const t = alive(id);
    if (t == nullptr || t->hangs) return;
    Mesh& mesh = meshes_[generation];
    if (t->generation != generation) {
      const bool building = mesh.building.contains(id) && !mesh.built.contains(id) && !mesh.dropped.contains(id);
      if (building && t->failed < generation) build_fails(id, generation);
      return;
    }
    if (t->doing == Doing::receiving && mesh.dropped.contains(*mesh.group.source)) return fail(*t);
    if (t->doing == Doing::receiving && rng_.chance(0.5)) return;  // Found out later, in the collective.
    if (t->doing == Doing::receiving) return fail(*t);
    // What was complete may reach it or not; what was not, cannot.
    if (t->doing == Doing::reducing && (!mesh.complete.contains(*t->step) || rng_.chance(0.5))) fail(*t);
  }

  // ---- faults -----------------------------------------------------------------------------------------------------
  Duration faults_gap() { return from_seconds(faults_.exponential(1 / settings_.fault_rate)); }

  void fault() {
    schedule(faults_gap(), [this] { fault(); });
    for (const auto& [id, t] : trainers_) {
      if (t.alive && t.deadline && now_ > *t.deadline + 5s) {
        problem_ = fmt::format("trainer {} is there after its deadline", id.value());
      }
    }
    if (calm()) return spawn_if_few();
    std::vector<TrainerId> live;
    for (const auto& [id, t] : trainers_) {
      if (t.alive && t.doing != Doing::booting) live.push_back(id);
    }
    ++changes;
    const double dice = faults_.uniform();
    if (live.empty() || dice < 0.4) return spawn_if_few();
    const TrainerId victim = live[faults_.below(live.size())];
    if (dice < 0.75) {
      const TimePoint deadline = now_ + from_seconds(faults_.chance(0.1) ? 0.01 : faults_.uniform(0.5, 3));
      if (job_.knows(victim)) trainers_.at(victim).deadline = deadline;
      return job_.recall(now_, victim, deadline);
    }
    if (!settings_.all_may_die && holders() < 2) return;
    ++deaths;
    if (!faults_.chance(settings_.hang_share)) return die(victim);
    ++hangs;
    trainers_.at(victim).hangs = true;
  }

  std::ptrdiff_t holders() {
    return std::ranges::count_if(trainers_, [](const auto& t) { return t.second.alive && t.second.step; });
  }

  bool ended() { return job_.state() == train::ElasticJobState::done; }

  void judge_end() {
    repeated = job_.steps_repeated();
    lost = job_.steps_lost();
    generations = static_cast<std::int64_t>(job_.current().generation);
    if (job_.step() != settings_.steps) problem_ = fmt::format("done at step {} of {}", job_.step(), settings_.steps);
    // Late news can cost steps, never wrong ones: a trainer that had just received the state and is recalled is stopped
    // if the death of the one who sent it is known first. They are made again.
    const bool prompt = settings_.lost_share == 0 && settings_.late_share == 0;
    if (lost > 0 && !extinct_ && prompt) problem_ = "steps were lost";
  }

  Settings settings_;
  Rng rng_;
  Rng faults_;
  std::vector<std::uint64_t> parameters_;  // After s steps, of a run with one trainer.
  std::priority_queue<Event> events_;
  std::uint64_t number_ = 0;
  TimePoint now_ = kTimeZero;
  TimePoint wake_at_ = kTimeNever;
  std::uint32_t next_id_ = 0;
  std::map<TrainerId, Trainer> trainers_;
  std::map<Generation, Mesh> meshes_;
  Generation newest_ = 0;
  std::int64_t saved_ = 0;
  bool extinct_ = false;  // Once, in the whole run.
  std::string problem_;
  train::ElasticJob job_;
};

Settings draw(std::uint64_t seed) {
  Rng rng = Rng(seed).stream("settings");
  Settings settings;
  settings.steps = rng.integer(50, 600);
  settings.fault_rate = rng.chance(0.3) ? rng.uniform(10, 60) : rng.uniform(0.5, 10);
  settings.faults_max = rng.integer(20, 300);
  settings.late_share = rng.chance(0.5) ? rng.uniform(0, 0.1) : 0;
  settings.lost_share = rng.chance(0.25) ? rng.uniform(0, 0.01) : 0;
  settings.hang_share = rng.chance(0.5) ? rng.uniform(0, 0.3) : 0;
  settings.trainers_max = static_cast<std::size_t>(rng.integer(1, 6));
  settings.step_ms = rng.uniform(5, 200);
  settings.all_may_die = rng.chance(0.3);
  return settings;
}

int run_seeds(std::uint64_t first, std::uint64_t count) {
  std::int64_t changes = 0, deaths = 0, repeated = 0, generations = 0, parks = 0, lost = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string line = fmt::format("repeat: elastic_swarm {} 1\n", seed);
    std::strncpy(repeat_line, line.c_str(), sizeof repeat_line - 1);
    Cluster cluster(seed, draw(seed));
    if (const std::string wrong = cluster.run(); !wrong.empty()) {
      fmt::print(stderr, "seed {}: {}\n{}", seed, wrong, line);
      return 1;
    }
    changes += cluster.changes;
    deaths += cluster.deaths;
    repeated += cluster.repeated;
    generations += cluster.generations;
    parks += cluster.parks;
    lost += cluster.lost;
  }
  fmt::print(
      "{} seeds: {} changes, {} deaths among them, {} generations, {} steps repeated, {} lost with everybody, {} parked\n",
      count, changes, deaths, generations, repeated, lost, parks);
  if (count >= 50 && (deaths == 0 || repeated == 0 || parks == 0 || generations < changes / 20)) {
    fmt::print(stderr, "the swarm tries nothing\n");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace tangram

int main(int argc, char** argv) {
  std::signal(SIGABRT, tangram::print_repeat_line);
  const auto first = argc > 1 ? tangram::text::parse_integer(argv[1]) : std::nullopt;
  const auto count = argc > 2 ? tangram::text::parse_integer(argv[2]) : std::nullopt;
  if (!first || !count) {
    fmt::print(stderr, "usage: elastic_swarm FIRST COUNT\n");
    return 2;
  }
  return tangram::run_seeds(static_cast<std::uint64_t>(*first), static_cast<std::uint64_t>(*count));
}
