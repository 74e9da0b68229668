// Spawns, hears and kills the trainers of one job.
//
// A trainer is a child of the zygote and not of this process, so it is held by a pidfd that is opened when it connects:
// a number could belong to another process by the time it is killed.

#include "serve/training_host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "host/files.h"
#include "host/listen_socket.h"

extern char** environ;

namespace tangram::serve {
namespace {

namespace fs = std::filesystem;
using TrainingJson = nlohmann::json;
using train::Generation;
using train::TrainerId;

// A message of a trainer is a few hundred bytes; the value of a rendezvous key may have some thousand.
constexpr std::size_t kTrainerLineMax = 256 * 1024;
constexpr std::size_t kTrainersMax = 256;
constexpr std::size_t kLogTail = 1500;
constexpr std::uint64_t kStateMax = std::uint64_t{64} << 30;
// So many trainers in a row that end before they join, without a word, end the job.
constexpr int kEarlyDeathsMax = 3;
// So many zygotes in a row that are killed before a trainer of theirs has connected end the job.
constexpr int kZygoteDeathsMax = 3;
// From an order until the trainer connects. A fork takes milliseconds, but the zygote imports PyTorch first, which
// takes a minute on a machine that is busy with more important things.
constexpr Duration kForkMax = std::chrono::seconds(20);
constexpr Duration kImportMax = std::chrono::minutes(5);

bool has_torch(const std::string& python) {
  const std::string program = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
  std::array<char*, 4> arguments{const_cast<char*>(python.c_str()), const_cast<char*>("-c"),
                                 const_cast<char*>(program.c_str()), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
  }
  pid_t process = -1;
  const int problem = posix_spawnp(&process, python.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) return false;
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TrainingJson ids_of(const std::vector<TrainerId>& trainers) {
  TrainingJson list = TrainingJson::array();
  for (const TrainerId id : trainers) list.push_back(id.value());
  return list;
}

std::int64_t whole(const TrainingJson& message, const char* key, std::int64_t otherwise) {
  const auto found = message.find(key);
  return found != message.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
}

std::string words(const TrainingJson& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string from_hex(std::string_view text) {
  std::string bytes;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<char>((digit(text[i]) & 15) << 4 | (digit(text[i + 1]) & 15)));
  }
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) fmt::format_to(std::back_inserter(text), "{:02x}", static_cast<unsigned char>(c));
  return text;
}

}  // namespace

Result<std::string> find_python_with_torch(const std::string& wanted) {
  if (!wanted.empty()) {
    if (has_torch(wanted)) return wanted;
    return Error{ErrorCode::not_found, fmt::format("--python {}: expected an interpreter that has PyTorch", wanted)};
  }
  for (const char* const python : {"python3", "/usr/bin/python3"}) {
    if (has_torch(python)) return std::string(python);
  }
  return Error{ErrorCode::not_found,
               "training needs a Python with PyTorch, and neither python3 nor /usr/bin/python3 has it; install "
               "python3-torch, or name an interpreter with --python"};
}

Result<std::string> find_training_modules() {
  std::vector<fs::path> places;
  if (const char* share = std::getenv("TANGRAM_SHARE")) places.emplace_back(fs::path(share) / "python");
  std::array<char, PATH_MAX> self{};
  if (readlink("/proc/self/exe", self.data(), self.size() - 1) > 0) {
    const fs::path program = fs::path(self.data()).parent_path();
    places.push_back(program / "../share/tangram/python");
    places.push_back(program / "../../../src/serve/python");  // build/<preset>/bin in the source.
  }
  for (const auto& place : places) {
    std::error_code error;
    if (fs::exists(place / "tangram_elastic" / "zygote.py", error)) return fs::canonical(place, error).string();
  }
  return Error{
      ErrorCode::not_found,
      "the Python package tangram_elastic is not beside the program; name its folder's parent in TANGRAM_SHARE"};
}

// One trainer: its socket, its process, and bytes that are under way.
class TrainingHost::Connection final : public host::Readiness {
 public:
  Connection(TrainingHost& owner, int socket) : owner_(owner), socket_(socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
      process_.reset(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
    }
    owner_.loop_.add(socket, host::Interest::read, this);
  }
  ~Connection() override {
    if (socket_.open()) owner_.loop_.remove(socket_.get(), this);
  }

  void on_ready(bool readable, bool writable, bool broken) override {
    if (writable) flush();
    if ((readable || broken) && !read()) owner_.lose(*this);
  }

  void send(const TrainingJson& message) {
    if (!socket_.open()) return;
    const bool idle = output_.empty();
    output_ += message.dump() + "\n";
    if (idle) flush();
  }

  void signal_process(int number) const {
    if (process_.open()) syscall(SYS_pidfd_send_signal, process_.get(), number, nullptr, 0);
  }

  std::optional<TrainerId> trainer;
  bool joined = false;    // It has said hello.
  bool recalled = false;  // Or its end is expected otherwise.

 private:
  bool read() {
    std::array<char, 65536> buffer;
    while (true) {
      const ssize_t got = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
      if (got <= 0) return false;
      input_.append(buffer.data(), static_cast<std::size_t>(got));
      std::size_t begin = 0;
      for (auto end = input_.find('\n'); end != std::string::npos; end = input_.find('\n', begin)) {
        owner_.handle(*this, input_.substr(begin, end - begin));
        begin = end + 1;
      }
      input_.erase(0, begin);
      if (input_.size() > kTrainerLineMax) return false;
    }
  }

  // A trainer that does not read is silent for the coordinator too, and is killed; until then its messages are kept.
  void flush() {
    while (!output_.empty()) {
      const ssize_t sent = ::send(socket_.get(), output_.data(), output_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) break;
      output_.erase(0, static_cast<std::size_t>(sent));
    }
    owner_.loop_.change(socket_.get(), output_.empty() ? host::Interest::read : host::Interest::both, this);
  }

  TrainingHost& owner_;
  host::Descriptor socket_;
  host::Descriptor process_;  // A pidfd.
  std::string input_;
  std::string output_;
};

class TrainingHost::Listener final : public host::Readiness {
 public:
  Listener(TrainingHost& owner, int socket) : owner_(owner), socket_(socket) {
    owner_.loop_.add(socket, host::Interest::read, this);
  }
  ~Listener() override { owner_.loop_.remove(socket_.get(), this); }
  void on_ready(bool, bool, bool) override { owner_.accept_all(); }
  int socket() const { return socket_.get(); }

 private:
  TrainingHost& owner_;
  host::Descriptor socket_;
};

TrainingHost::TrainingHost(const TrainingHostOptions& options, TrainingObserver& observer)
    : options_(options), observer_(observer) {
  options_.job.members_max =
      std::min(options_.job.members_max, static_cast<std::size_t>(std::max(1, options_.logical_workers)));
  train::TrainerLinks& links = *this;
  job_ = std::make_unique<train::ElasticJob>(options_.job, links);
}

Result<std::unique_ptr<TrainingHost>> TrainingHost::start(const TrainingHostOptions& options,
                                                          TrainingObserver& observer) {
  std::unique_ptr<TrainingHost> made(new TrainingHost(options, observer));
  TANGRAM_RETURN_IF_ERROR(made->open());
  return made;
}

Result<Nothing> TrainingHost::open() {
  socket_path_ = options_.folder + "/job.sock";
  TANGRAM_TRY(const int socket, host::listen_at_path(socket_path_));
  listener_ = std::make_unique<Listener>(*this, socket);
  keep_parked();  // Of a coordinator that ended in between.
  return start_zygote();
}

Result<Nothing> TrainingHost::start_zygote() {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Error{ErrorCode::exhausted, fmt::format("cannot open a pipe: {}", std::strerror(errno))};
  }
  zygote_input_.reset(ends[1]);
  const host::Descriptor child_end(ends[0]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child_end.get(), STDIN_FILENO);
  const std::string log = options_.folder + "/trainers.log";
  if (!options_.show_output) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> added{"PYTHONPATH=" + options_.modules,
                                 "PYTHONUNBUFFERED=1",
                                 "TANGRAM_ELASTIC_SOCKET=" + socket_path_,
                                 "TANGRAM_ELASTIC_LOCK=" + options_.folder + "/trainers.lock",
                                 "OMP_NUM_THREADS=1",
                                 "TANGRAM_CHECKPOINT=" + options_.checkpoint,
                                 "TANGRAM_PARK=" + options_.park,
                                 fmt::format("TANGRAM_CHECKPOINT_EVERY_S={}", options_.checkpoint_every_s),
                                 fmt::format("TANGRAM_LOGICAL_WORKERS={}", options_.logical_workers),
                                 fmt::format("TANGRAM_CHECK_STATE={}", options_.check_state ? 1 : 0)};
  if (const char* const path = std::getenv("PYTHONPATH")) added[0] += std::string(":") + path;
  std::vector<char*> environment;
  for (auto& entry : added) environment.push_back(entry.data());
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view name(*entry, std::strcspn(*entry, "=") + 1);
    const bool replaced = std::ranges::any_of(added, [&](const std::string& text) { return text.starts_with(name); });
    if (!replaced) environment.push_back(*entry);
  }
  environment.push_back(nullptr);
  std::array<char*, 4> arguments{options_.python.data(), const_cast<char*>("-m"),
                                 const_cast<char*>("tangram_elastic.zygote"), nullptr};
  const int problem =
      posix_spawnp(&zygote_, options_.python.c_str(), &actions, &attributes, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (problem == 0) {
    // Before it forks: it imports PyTorch first, which takes a second of a core.
    if (options_.nice != 0)
      setpriority(PRIO_PROCESS, static_cast<id_t>(zygote_), getpriority(PRIO_PROCESS, 0) + options_.nice);
    return Nothing{};
  }
  zygote_ = -1;
  return Error{ErrorCode::unavailable, fmt::format("cannot start {}: {}", options_.python, std::strerror(problem))};
}

// A trainer gives its slice back as soon as the state is in memory; how long the disk takes is ours to wait.
void TrainingHost::keep_parked() {
  if (options_.park.empty()) return;
  const auto parked = host::read_file(options_.park, kStateMax);
  if (!parked) return;
  if (const auto kept = host::write_file_atomically(options_.checkpoint, *parked); kept) {
    unlink(options_.park.c_str());
  } else if (!problem_) {
    problem_ = kept.error();
  }
}

TrainingHost::~TrainingHost() {
  for (const auto& connection : connections_) connection->signal_process(SIGKILL);
  zygote_input_.reset();
  if (zygote_ > 0) {
    kill(zygote_, SIGKILL);
    while (waitpid(zygote_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  connections_.clear();
  listener_.reset();
  unlink(socket_path_.c_str());
}

TrainerId TrainingHost::spawn(const TrainerPlace& place) {
  const TrainerId id(next_trainer_++);
  TrainingJson order{{"trainer", id.value()},
                     {"script", options_.script},
                     {"arguments", options_.arguments},
                     {"threads", options_.threads},
                     {"logical_workers", options_.logical_workers},
                     {"directory", options_.directory},
                     {"cpus", place.cpus},
                     {"nice", place.nice},
                     {"memory_mib", place.memory_mib},
                     {"environment", TrainingJson::object()}};
  for (const auto& entry : place.environment) {
    const auto equals = std::min(entry.find('='), entry.size());
    order["environment"][entry.substr(0, equals)] = entry.substr(std::min(equals + 1, entry.size()));
  }
  orders_.push_back({id, order.dump() + "\n", clock_.now()});
  send_order(orders_.back());
  return id;
}

// One that cannot be sent stays in orders_, and is sent to the next zygote or given up.
void TrainingHost::send_order(const Order& order) {
  if (zygote_ <= 0 || processes() > kTrainersMax) return;
  if (host::write_all(zygote_input_.get(), order.text) != 0) watch_zygote();
}

bool TrainingHost::forget_order(TrainerId trainer) {
  return std::erase_if(orders_, [&](const Order& order) { return order.trainer == trainer; }) > 0;
}

void TrainingHost::accept_all() {
  while (true) {
    const int socket = accept4(listener_->socket(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0) return;
    if (connections_.size() >= kTrainersMax) {
      ::close(socket);
    } else {
      connections_.push_back(std::make_unique<Connection>(*this, socket));
    }
  }
}

TrainingHost::Connection* TrainingHost::find(TrainerId trainer) {
  for (const auto& connection : connections_) {
    if (connection->trainer == trainer) return connection.get();
  }
  return nullptr;
}

void TrainingHost::handle(Connection& connection, const std::string& line) {
  const TrainingJson message = TrainingJson::parse(line, nullptr, false);
  if (!message.is_object()) return;
  const TimePoint now = clock_.now();
  if (!connection.trainer) {
    const TrainerId id(static_cast<std::uint32_t>(whole(message, "trainer", -1)));
    if (forget_order(id)) {
      connection.trainer = id;
      zygote_forks_ = true;
      zygote_deaths_ = 0;
    } else {
      connection.signal_process(SIGKILL);  // It was recalled before it came.
    }
    return;
  }
  const TrainerId id = *connection.trainer;
  const auto generation = static_cast<Generation>(whole(message, "generation", 0));
  const std::int64_t step = whole(message, "step", -1);
  const auto named = [&](const char* key) { return static_cast<Generation>(whole(message, key, 0)); };
  if (message.contains("alive")) {
    job_->on_alive(now, id, message.value("waits", false));
  } else if (message.contains("set")) {
    job_->on_set(id, generation, words(message, "set"), from_hex(words(message, "value")));
  } else if (message.contains("get")) {
    job_->on_get(id, generation, words(message, "get"));
  } else if (message.contains("hello")) {
    connection.joined = true;
    early_deaths_ = 0;
    observer_.on_ready(now, id);
    if (!job_->knows(id)) job_->on_hello(now, id, whole(message, "hello", 0));
  } else if (message.contains("built")) {
    job_->on_built(now, id, named("built"));
  } else if (message.contains("build_failed")) {
    job_->on_build_failed(now, id, named("build_failed"));
  } else if (message.contains("entered")) {
    observer_.on_entered(now, id, named("entered"));
    job_->on_entered(now, id, named("entered"), step);
  } else if (message.contains("failed")) {
    job_->on_failed(now, id, named("failed"), step < 0 ? std::nullopt : std::optional(step));
  } else if (message.contains("left")) {
    job_->on_left(now, id, named("left"));
  } else if (message.contains("saved")) {
    keep_parked();
    observer_.on_saved(whole(message, "saved", 0));
    job_->on_saved(now, id, whole(message, "saved", 0));
  } else if (message.contains("done")) {
    observer_.on_done(id, whole(message, "done", 0), words(message, "state"));
    job_->on_done(now, id, whole(message, "done", 0));
  } else if (message.contains("refused")) {
    if (!problem_) problem_ = Error{ErrorCode::invalid, words(message, "refused")};
  } else if (message.contains("crashed")) {
    if (!problem_) problem_ = Error{ErrorCode::unavailable, words(message, "crashed") + log_tail()};
  } else if (message.contains("state")) {
    observer_.on_state(id, generation, step, words(message, "state"));
  } else if (message.contains("step")) {
    const auto loss = message.find("loss");
    observer_.on_step(now, id, generation, step, loss != message.end() && loss->is_number() ? loss->get<double>() : 0);
    job_->on_step(now, id, generation, step);
  }
}

void TrainingHost::lose(Connection& connection) {
  const auto found = std::ranges::find(connections_, &connection, &std::unique_ptr<Connection>::get);
  if (found == connections_.end()) return;
  // A process that closed its socket and still runs is of no use and would keep its slice.
  connection.signal_process(SIGKILL);
  const auto id = connection.trainer;
  const bool early = id && !connection.joined && !connection.recalled;
  lost_.push_back(std::move(*found));
  connections_.erase(found);
  if (!id) return;
  if (early) count_early_death();
  observer_.on_gone(clock_.now(), *id);
  job_->on_gone(clock_.now(), *id);
}

void TrainingHost::count_early_death() {
  if (++early_deaths_ < kEarlyDeathsMax || problem_) return;
  problem_ = Error{ErrorCode::unavailable, fmt::format("{}: {} trainers in a row ended before they joined{}",
                                                       options_.script, kEarlyDeathsMax, log_tail())};
}

void TrainingHost::work(TimePoint until) {
  // A script that ends before it connects is noticed by nothing else.
  const TimePoint look = add_saturating(clock_.now(), std::chrono::milliseconds(200));
  loop_.wait(clock_, std::min({until, look, job_->wake_at()}));
  lost_.clear();
  if (clock_.now() >= job_->wake_at()) job_->on_wake(clock_.now());
  watch_zygote();
  watch_orders();
}

// One that ends by itself could not import PyTorch or the script's modules, and the next could not either. One that is
// killed says nothing about the job: its trainers go on, and the next forks what was ordered of it.
void TrainingHost::watch_zygote() {
  if (zygote_ <= 0 || problem_) return;
  int status = 0;
  if (waitpid(zygote_, &status, WNOHANG) != zygote_) return;
  zygote_ = -1;
  zygote_forks_ = false;
  if (WIFSIGNALED(status) && ++zygote_deaths_ < kZygoteDeathsMax) {
    if (const auto started = start_zygote(); !started) {
      problem_ = started.error();
      return;
    }
    for (Order& order : orders_) {
      order.since = clock_.now();
      send_order(order);
    }
    return;
  }
  problem_ = Error{ErrorCode::unavailable, fmt::format("{} -m tangram_elastic.zygote has ended (status {}){}",
                                                       options_.python, status, log_tail())};
}

void TrainingHost::watch_orders() {
  const Duration patience = zygote_forks_ ? kForkMax : kImportMax;
  std::vector<TrainerId> late;
  for (const Order& order : orders_) {
    if (clock_.now() - order.since > patience) late.push_back(order.trainer);
  }
  for (const TrainerId trainer : late) {
    forget_order(trainer);
    count_early_death();
    observer_.on_gone(clock_.now(), trainer);
  }
}

std::string TrainingHost::log_tail() const {
  if (options_.show_output) return {};
  const auto text = host::read_file(options_.folder + "/trainers.log");
  if (!text || text->empty()) return {};
  const auto from = text->size() > kLogTail ? text->size() - kLogTail : 0;
  return "\n" + text->substr(from);
}

void TrainingHost::recall(TrainerId trainer, Duration at_most) {
  const TimePoint now = clock_.now();
  if (forget_order(trainer)) return observer_.on_gone(now, trainer);
  Connection* const found = find(trainer);
  if (found != nullptr) found->recalled = true;
  // It has no share of the job yet, so nothing is lost with it.
  if (found != nullptr && !found->joined) return found->signal_process(SIGKILL);
  job_->recall(now, trainer, add_saturating(now, at_most));
}

void TrainingHost::kill_trainer(TrainerId trainer) {
  Connection* const found = find(trainer);
  if (found == nullptr) return;
  found->recalled = true;
  found->signal_process(SIGKILL);
}
void TrainingHost::stop_trainer(TrainerId trainer) {
  if (Connection* const found = find(trainer)) found->signal_process(SIGSTOP);
}

void TrainingHost::prepare(TrainerId to, const train::TrainingGroup& group) {
  Connection* const found = find(to);
  if (found == nullptr) return;
  TrainingJson text{{"generation", group.generation},
                    {"members", ids_of(group.members)},
                    {"fresh", ids_of(group.fresh)},
                    {"source", nullptr},
                    {"recovers", group.recovers},
                    {"restarts", group.restarts},
                    {"step", group.step}};
  if (group.source) text["source"] = group.source->value();
  found->send({{"prepare", std::move(text)}});
}

void TrainingHost::enter(TrainerId to, Generation generation) {
  if (Connection* const found = find(to)) found->send({{"enter", generation}});
}

void TrainingHost::answer(TrainerId to, Generation generation, std::string_view key, std::string_view value) {
  if (Connection* const found = find(to)) {
    found->send({{"value", to_hex(value)}, {"key", std::string(key)}, {"generation", generation}});
  }
}

void TrainingHost::stop(TrainerId to) {
  if (Connection* const found = find(to)) found->send({{"stop", true}});
}

void TrainingHost::fence(TrainerId trainer) {
  if (Connection* const found = find(trainer)) found->signal_process(SIGKILL);
}

}  // namespace tangram::serve
