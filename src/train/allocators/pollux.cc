// Pollux (OSDI'21): a genetic search over placements.
//
// A state says how many GPUs of each node each job gets. States are crossed by job, mutated and repaired. Their fitness
// is the harmonic mean of the jobs' speed-ups, where a job whose placement changes is charged for its restart. The use
// of the nodes is a second objective that keeps the population diverse (NSGA-II). The next round starts from the last
// population.
//
// A round at the published size evaluates ten thousand states, so eight nodes share a machine word, and speed-ups are
// read from tables. A job's speed-up depends on whether it has several nodes, not on how many, which keeps the tables
// small.
//
// Invariant: every state in the population is feasible, because repair_and_judge repairs a state before it computes its
// fitness, and no two states of the population are equal.

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "base/check.h"
#include "train/allocator.h"
#include "train/detail/byte_chances.h"

namespace tangram::train {
namespace {

constexpr int kNodesMax = 16;            // Of one job.
constexpr int kGpusPerNodeMax = 31;      // The sum of eight bytes must fit into one.
constexpr double kCrossover = 0.9;       // The chance that two parents mix.
constexpr unsigned kTenth = 13;          // A chance of a tenth, of detail::kChances.
constexpr double kFloor = 1e-3;          // Keeps the harmonic mean finite for jobs without GPUs.
constexpr int kPassesForDuplicates = 3;  // Tries to fill a generation with states that are new.

// Eight nodes, a byte each, none above 127: additions within a byte never reach the next.
using detail::kHighs;
using detail::kOnes;
using detail::Word;
constexpr std::size_t kNodesPerWord = 8;

// 1 in every byte that is not 0: adding 127 to a byte sets its high bit exactly if the byte is at least 1.
Word used_bytes(Word w) { return ((w + (kHighs - kOnes)) & kHighs) >> 7; }
// 255 in every byte that is 1.
Word spread(Word w) { return (w << 8) - w; }
int sum_bytes(Word w) { return static_cast<int>((w * kOnes) >> 56); }
// The smaller of each two bytes. With its high bit set, a byte of b is larger than any byte of a, so the subtraction
// borrows nothing from the next byte, and the high bit survives exactly where b >= a.
Word smaller_bytes(Word a, Word b) {
  const Word a_fits = spread((((b | kHighs) - a) & kHighs) >> 7);
  return (a & a_fits) | (b & ~a_fits);
}
// The GPUs of one node in a row of bytes, and how to set them.
int cell_of(const Word* row, std::size_t node) {
  return static_cast<int>(row[node / kNodesPerWord] >> (8 * (node % kNodesPerWord)) & 0xff);
}
void set_cell(Word* row, std::size_t node, int gpus) {
  const std::size_t shift = 8 * (node % kNodesPerWord);
  Word& word = row[node / kNodesPerWord];
  word = (word & ~(Word{0xff} << shift)) | static_cast<Word>(gpus) << shift;
}

struct Tally {
  int used = 0;  // Nodes.
  int sum = 0;   // GPUs.
};

// The nodes and GPUs that a row uses. Sums of bytes cannot overflow: 8 nodes of at most 31 GPUs make 248.
Tally tally_of(const Word* row, std::size_t words) {
  Tally tally;
  for (std::size_t w = 0; w < words; ++w) {
    tally.used += sum_bytes(used_bytes(row[w]));
    tally.sum += sum_bytes(row[w]);
  }
  return tally;
}

// What the search needs to know about one job, computed once for each round.
struct Row {
  int replicas_max = 0;
  std::vector<double> speedup[2];     // By whether there are several nodes, then by GPUs.
  std::vector<double> badness[2][2];  // 1 / (priced speed-up + floor), by whether it changed, then the same.
};

// A state with its objectives. The state itself lies in `pool_`, so that sorting moves only this.
struct Judged {
  double fitness = 0;
  double utility = 0;
  int rank = 0;
  double crowding = 0;
  std::uint64_t hash = 0;
  std::size_t slot = 0;  // Of `pool_`, with its state.
};

// One round's search. Seed it with known states, run it, and read the population.
class Search {
 public:
  Search(const RoundView& view, const AllocatorOptions& options, Rng& rng);

  void seed(const std::vector<Word>& state) { consider(state.data()); }
  void run();

  std::size_t jobs() const { return jobs_; }
  std::size_t words() const { return words_; }
  std::size_t state_size() const { return jobs_ * words_; }
  const Word* base() const { return base_.data(); }
  const std::vector<Judged>& population() const { return population_; }
  const Word* state(const Judged& judged) const { return pool_.data() + judged.slot * state_size(); }

 private:
  // Requires `base_` and the sizes. Fills `rows_` for every number of GPUs that a job may have.
  void fill_tables(const RoundView& view, const AllocatorOptions& options);
  // Repairs and judges a copy of `state`; true if it is new.
  bool consider(const Word* state);
  // Repairs and judges the state in `slot`; a duplicate gives the slot back and returns false.
  bool judge_slot(std::size_t slot);
  // Makes `state` feasible and computes its objectives and its hash.
  void repair_and_judge(Word* state, Judged& judged);
  // Reduces `row` to at most `most` GPUs on at most kNodesMax nodes.
  void cap_replicas(Word* row, int most);
  // Changes `state` at random; the result may be infeasible.
  void mutate(Word* state);
  // Adds GPUs on nodes that have some free. Overwrites `left_` and `taken_`.
  void grow(Word* state);
  // Adds the two children of `a` and `b` that are not in the population yet. The arguments may dangle afterwards.
  void mate(const Judged& a, const Judged& b);
  // The better of two random states of the first `among`: lower rank, then more crowding distance.
  const Judged& tournament(std::size_t among);
  // Requires a population; ensures that it has at most `size_max_` states with rank and crowding.
  void survive();
  // Fills `fronts_` and the ranks.
  void sort_fronts();
  // Requires a front in the order of sort_fronts.
  void measure_crowding(std::span<const std::uint32_t> front);
  // Inserts `hash`; false if it is there already.
  bool remember(std::uint64_t hash);

  std::size_t take_slot() {
    const std::size_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  // Uniform below `bound` by multiplication; the bias is below bound / 2^32.
  std::uint64_t pick(std::uint64_t bound) { return ((rng_.next_u64() >> 32) * bound) >> 32; }

  Rng& rng_;
  bool spread_apart_;
  std::size_t jobs_;
  std::size_t nodes_;
  std::size_t words_;  // Of a row.
  std::size_t size_max_;
  int generations_;
  std::vector<Row> rows_;
  std::vector<Word> base_;
  std::vector<Word> capacity_;  // Of each node.
  std::vector<Word> pool_;      // The states, in slots.
  std::vector<std::size_t> free_slots_;
  std::vector<Judged> population_;     // Parents first, then what is new.
  std::vector<std::uint64_t> hashes_;  // Of the population: an open table with zeros where it is empty.
  std::vector<Word> left_;
  std::vector<Word> taken_;
  std::vector<std::size_t> order_;
  struct Ranked {
    double fitness = 0;
    std::uint32_t index = 0;
  };
  std::vector<Ranked> order_by_fitness_;
  std::vector<std::vector<std::uint32_t>> fronts_;  // Indices into the population; the first `fronts_used_` are valid.
  std::size_t fronts_used_ = 0;
  std::vector<Judged> survivors_;
};

Search::Search(const RoundView& view, const AllocatorOptions& options, Rng& rng)
    : rng_(rng),
      spread_apart_(view.spread_apart),
      jobs_(view.jobs.size()),
      nodes_(static_cast<std::size_t>(view.nodes())),
      words_((nodes_ + kNodesPerWord - 1) / kNodesPerWord),
      size_max_(static_cast<std::size_t>(options.population)),
      generations_(options.generations),
      base_(jobs_ * words_),
      capacity_(words_),
      pool_(2 * (size_max_ + 2) * jobs_ * words_),
      hashes_(1024),
      left_(words_),
      taken_(words_) {
  // At most a quarter of the table is used (parents and children), so probing always finds an empty cell soon.
  while (hashes_.size() < 8 * size_max_) hashes_.resize(2 * hashes_.size());
  // A generation has at most size_max_ parents and size_max_ + 1 children, so the slots never run out.
  for (std::size_t slot = 2 * (size_max_ + 2); slot-- > 0;) free_slots_.push_back(slot);
  TANGRAM_CHECK(view.gpus_per_node <= kGpusPerNodeMax, "the GPUs of eight nodes are counted in a byte");
  for (std::size_t n = 0; n < nodes_; ++n) set_cell(capacity_.data(), n, view.gpus_free[n]);
  for (std::size_t j = 0; j < jobs_; ++j) {
    for (const auto& share : *view.jobs[j].current) {
      set_cell(base_.data() + j * words_, static_cast<std::size_t>(share.node), share.gpus);
    }
  }
  fill_tables(view, options);
}

void Search::fill_tables(const RoundView& view, const AllocatorOptions& options) {
  const int gpus = view.gpus();
  rows_.resize(jobs_);
  for (std::size_t j = 0; j < jobs_; ++j) {
    const JobView& job = view.jobs[j];
    Row& row = rows_[j];
    row.replicas_max = std::min({job.replicas_max, gpus, 255});
    const Speedup speedup(*job.model, std::max(gpus, 1), static_cast<int>(jobs_));
    const double factor = restart_factor(job, options.restart_s);
    const double scale = static_cast<double>(nodes_) / std::max(gpus, 1);
    for (const int several : {0, 1}) {
      auto& values = row.speedup[several];
      values.resize(static_cast<std::size_t>(row.replicas_max) + 1);
      for (int k = 1; k <= row.replicas_max; ++k) {
        // More GPUs than a node has cannot be on one node: the entry stays 0 and is never read.
        if (several == 0 && k > view.gpus_per_node) break;
        // Two nodes stand for any larger number of nodes.
        values[static_cast<std::size_t>(k)] = speedup(1 + several, k);
      }
      for (const int changed : {0, 1}) {
        for (const double value : values) {
          row.badness[changed][several].push_back(1 / (value * scale * (changed != 0 ? factor : 1) + kFloor));
        }
      }
    }
  }
}

bool Search::remember(std::uint64_t hash) {
  const std::size_t mask = hashes_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    if (hashes_[i] == hash) return false;
    if (hashes_[i] == 0) {
      hashes_[i] = hash;
      return true;
    }
  }
}

// Visits the nodes in random order; each keeps its GPUs until the job's limit is reached. The order is random because a
// fixed one would always take the GPUs away from the same nodes.
void Search::cap_replicas(Word* row, int most) {
  order_.clear();
  for (std::size_t n = 0; n < nodes_; ++n) {
    if (cell_of(row, n) != 0) order_.push_back(n);
  }
  int left = most;
  int places = kNodesMax;
  for (std::size_t i = order_.size(); i > 0; --i) {
    const std::size_t chosen = pick(i);
    const std::size_t node = order_[chosen];
    order_[chosen] = order_[i - 1];
    const int kept = places > 0 ? std::min(cell_of(row, node), left) : 0;
    set_cell(row, node, kept);
    left -= kept;
    if (kept > 0) --places;
  }
}

// Makes `state` feasible and fills in everything of `judged` but rank, crowding and slot. One pass over the jobs in
// their order, so that the earlier job wins a conflict: at most one job of several nodes on a node, no job above its
// limit, no node above its capacity. Cost: jobs * words; this is where a round spends its time.
void Search::repair_and_judge(Word* state, Judged& judged) {
  std::ranges::copy(capacity_, left_.begin());
  std::ranges::fill(taken_, 0);
  double badness = 0;
  double speed = 0;
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
  for (std::size_t j = 0; j < jobs_; ++j) {
    Word* const row = state + j * words_;
    const Word* const base = base_.data() + j * words_;
    const Row& job = rows_[j];
    Tally tally = tally_of(row, words_);
    if (tally.used > 1 && spread_apart_) {
      // Drop the nodes on which an earlier job already runs distributed. Two distributed jobs would share the network
      // of the node.
      for (std::size_t w = 0; w < words_; ++w) {
        const Word here = used_bytes(row[w]);
        row[w] &= ~spread(taken_[w]);
        taken_[w] |= here;
      }
    }
    if (tally.sum > job.replicas_max || tally.used > kNodesMax) {
      // The first count is out of date if nodes were dropped. Count again only where it matters.
      tally = tally_of(row, words_);
      if (tally.sum > job.replicas_max || tally.used > kNodesMax) cap_replicas(row, job.replicas_max);
    }
    tally = {};
    Word differs = 0;
    for (std::size_t w = 0; w < words_; ++w) {
      const Word here = smaller_bytes(row[w], left_[w]);
      row[w] = here;
      left_[w] -= here;
      tally.used += sum_bytes(used_bytes(here));
      tally.sum += sum_bytes(here);
      differs |= here ^ base[w];
      hash = (hash ^ here) * 0xff51afd7ed558ccdULL;
      hash ^= hash >> 29;
    }
    const int several = tally.used > 1 ? 1 : 0;
    const auto gpus = static_cast<std::size_t>(tally.sum);
    badness += job.badness[differs != 0 ? 1 : 0][several][gpus];
    speed += job.speedup[several][gpus];
  }
  // The second objective: speed-up for each GPU of the nodes that are in use at all.
  int active = 0;
  for (std::size_t w = 0; w < words_; ++w) {
    active += sum_bytes(capacity_[w] & spread(used_bytes(left_[w] ^ capacity_[w])));
  }
  judged.fitness = static_cast<double>(jobs_) / badness;
  judged.utility = active > 0 ? speed / active : 0;
  // Never 0, which marks an empty cell of the table.
  judged.hash = (hash ^ (hash >> 32)) | 1;
}

bool Search::judge_slot(std::size_t slot) {
  Judged judged;
  judged.slot = slot;
  repair_and_judge(pool_.data() + slot * state_size(), judged);
  if (!remember(judged.hash)) {
    free_slots_.push_back(slot);
    return false;
  }
  population_.push_back(judged);
  return true;
}

bool Search::consider(const Word* state) {
  if (population_.size() >= size_max_) return false;
  const std::size_t slot = take_slot();
  std::copy_n(state, state_size(), pool_.data() + slot * state_size());
  return judge_slot(slot);
}

void Search::mutate(Word* state) {
  // One random word serves four jobs: 8 bits decide whether the job returns to its current placement, which costs no
  // restart, and 8 bits whether it loses some nodes.
  std::uint64_t bits = 0;
  for (std::size_t j = 0; j < jobs_; ++j) {
    if (j % 4 == 0) bits = rng_.next_u64();
    Word* const row = state + j * words_;
    if (detail::hits(bits, kTenth)) std::copy_n(base_.data() + j * words_, words_, row);
    if (detail::hits(bits >> 8, kTenth)) {
      for (std::size_t w = 0; w < words_; ++w) row[w] &= ~spread(detail::hit_bytes(rng_.next_u64(), kTenth));
    }
    bits >>= 16;
  }
  grow(state);
}

// On nodes with a free GPU, each job may get more: with chance 1 / jobs, and a job that is already on the node also
// with chance 1 / (jobs on that node). The new number is uniform between what the job has and the whole node;
// repair_and_judge cuts what does not fit.
void Search::grow(Word* state) {
  std::ranges::fill(left_, 0);   // GPUs in use on each node.
  std::ranges::fill(taken_, 0);  // Jobs on each node.
  for (std::size_t j = 0; j < jobs_; ++j) {
    for (std::size_t w = 0; w < words_; ++w) {
      const Word row = state[j * words_ + w];
      left_[w] += row;
      taken_[w] += used_bytes(row);
    }
  }
  const double new_chance = 1.0 / static_cast<double>(jobs_);
  const auto new_limit = static_cast<std::uint64_t>(new_chance * 65536);
  for (std::size_t n = 0; n < nodes_; ++n) {
    const int capacity = cell_of(capacity_.data(), n);
    if (cell_of(left_.data(), n) >= capacity) continue;
    const int there = cell_of(taken_.data(), n);
    const double old_chance = there > 0 ? 1.0 / there : 0;
    const auto old_limit = static_cast<std::uint64_t>((new_chance + old_chance - new_chance * old_chance) * 65536);
    std::uint64_t bits = 0;
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (j % 4 == 0) bits = rng_.next_u64();
      const std::uint64_t draw = bits & 0xffff;
      bits >>= 16;
      if (draw >= old_limit && draw >= new_limit) continue;
      Word* const row = state + j * words_;
      const int cell = cell_of(row, n);
      if (draw >= (cell != 0 ? old_limit : new_limit) || cell >= capacity) continue;
      set_cell(row, n, cell + static_cast<int>(pick(static_cast<std::uint64_t>(1 + capacity - cell))));
    }
  }
}

const Judged& Search::tournament(std::size_t among) {
  const Judged& a = population_[pick(among)];
  const Judged& b = population_[pick(among)];
  if (a.rank != b.rank) return a.rank < b.rank ? a : b;
  return a.crowding >= b.crowding ? a : b;
}

void Search::mate(const Judged& a, const Judged& b) {
  const std::size_t size = state_size();
  const Word* const state_a = pool_.data() + a.slot * size;
  const Word* const state_b = pool_.data() + b.slot * size;
  const std::size_t slots[] = {take_slot(), take_slot()};
  Word* const one = pool_.data() + slots[0] * size;
  Word* const two = pool_.data() + slots[1] * size;
  // The children exchange whole jobs, so a job keeps a placement that some parent had. A cut of 0 copies the parents.
  const std::size_t cut = rng_.uniform() < kCrossover ? pick(jobs_) * words_ : 0;
  std::copy_n(state_b, cut, one);
  std::copy_n(state_a + cut, size - cut, one + cut);
  std::copy_n(state_a, cut, two);
  std::copy_n(state_b + cut, size - cut, two + cut);
  mutate(one);
  mutate(two);
  for (const std::size_t slot : slots) judge_slot(slot);
}

// The crowding distance of NSGA-II within one front, which is in order of falling fitness and rising utility. The two
// ends get an infinite distance, so that survive() never drops the fittest state of the first front.
void Search::measure_crowding(std::span<const std::uint32_t> front) {
  constexpr double kEdge = std::numeric_limits<double>::infinity();
  const auto at = [&](std::size_t i) -> Judged& { return population_[front[i]]; };
  const double width = at(0).fitness - at(front.size() - 1).fitness;
  const double height = at(front.size() - 1).utility - at(0).utility;
  for (std::size_t i = 0; i < front.size(); ++i) {
    if (i == 0 || i + 1 == front.size()) {
      at(i).crowding = kEdge;
      continue;
    }
    const double dx = width > 0 ? (at(i - 1).fitness - at(i + 1).fitness) / width : 0;
    const double dy = height > 0 ? (at(i + 1).utility - at(i - 1).utility) / height : 0;
    at(i).crowding = dx + dy;
  }
}

// Sorts the population into fronts, each dominated by none of the later. From the fittest down, a state belongs to the
// first front whose last member is not better in both objectives. With two objectives the last member has the largest
// utility of its front, and these fall from front to front, so a binary search finds the front: O(n log n) instead of
// the n^2 comparisons of NSGA-II.
void Search::sort_fronts() {
  order_by_fitness_.resize(population_.size());
  for (std::uint32_t i = 0; i < order_by_fitness_.size(); ++i) order_by_fitness_[i] = {population_[i].fitness, i};
  std::ranges::sort(order_by_fitness_, [&](const Ranked& a, const Ranked& b) {
    if (a.fitness != b.fitness) return a.fitness > b.fitness;
    if (population_[a.index].utility != population_[b.index].utility) {
      return population_[a.index].utility > population_[b.index].utility;
    }
    // The hash breaks ties, so that the order does not depend on how the sort is implemented.
    return population_[a.index].hash < population_[b.index].hash;
  });
  fronts_used_ = 0;
  for (const auto& [fitness, index] : order_by_fitness_) {
    Judged& judged = population_[index];
    const auto dominated = [&](const std::vector<std::uint32_t>& front) {
      const Judged& last = population_[front.back()];
      return last.utility > judged.utility || (last.utility == judged.utility && last.fitness > judged.fitness);
    };
    const auto end = fronts_.begin() + static_cast<std::ptrdiff_t>(fronts_used_);
    const auto front = std::partition_point(fronts_.begin(), end, dominated);
    judged.rank = static_cast<int>(front - fronts_.begin());
    if (front != end) {
      front->push_back(index);
      continue;
    }
    if (fronts_used_ == fronts_.size()) fronts_.emplace_back();
    fronts_[fronts_used_].assign(1, index);
    ++fronts_used_;
  }
}

// Keeps the best `size_max_` states: whole fronts first, then from the front that does not fit whole the members with
// the largest crowding distance. Only survivors stay in the hash table; a dropped state may be generated again.
void Search::survive() {
  sort_fronts();
  survivors_.clear();
  std::ranges::fill(hashes_, 0);
  for (std::size_t f = 0; f < fronts_used_; ++f) {
    auto& front = fronts_[f];
    const std::size_t room = size_max_ - survivors_.size();
    if (room > 0) measure_crowding(front);
    if (room > 0 && front.size() > room) {
      std::ranges::stable_sort(front, std::greater{}, [&](std::uint32_t i) { return population_[i].crowding; });
    }
    for (std::size_t i = 0; i < front.size(); ++i) {
      const Judged& judged = population_[front[i]];
      if (i < room) {
        survivors_.push_back(judged);
        remember(judged.hash);
      } else {
        free_slots_.push_back(judged.slot);
      }
    }
  }
  population_.swap(survivors_);
}

void Search::run() {
  survive();
  for (int generation = 0; generation < generations_; ++generation) {
    const std::size_t parents = population_.size();
    for (int pass = 0; pass < kPassesForDuplicates && population_.size() < parents + size_max_; ++pass) {
      const std::size_t wanted = parents + size_max_ - population_.size();
      for (std::size_t pair = 0; 2 * pair < wanted; ++pair) {
        mate(tournament(parents), tournament(parents));
      }
    }
    if (population_.size() == parents) break;  // Every state that can be reached is there.
    survive();
  }
}

class Pollux final : public Allocator {
 public:
  explicit Pollux(const AllocatorOptions& options) : options_(options), rng_(Rng(options.seed).stream("pollux")) {}

  std::vector<Allocation> allocate(const RoundView& view) override {
    if (view.jobs.empty()) return {};
    Search search(view, options_, rng_);
    // The first seed is the running placement: the search can always answer "change nothing".
    std::vector<Word> state(search.base(), search.base() + search.state_size());
    search.seed(state);
    for (const auto& earlier : memory_) {
      adapt(earlier, view, search, state);
      search.seed(state);
    }
    search.run();
    remember(view, search);
    const auto best = std::ranges::max_element(search.population(), {}, &Judged::fitness);
    return allocations_of(search, search.state(*best));
  }

 private:
  // Translates a state of the last round into one of this round: rows of finished jobs are dropped, and new jobs start
  // without GPUs. If the cluster has changed so much that a row has another width, the state is empty.
  void adapt(const std::vector<Word>& earlier, const RoundView& view, const Search& search,
             std::vector<Word>& state) const {
    std::ranges::fill(state, 0);
    const std::size_t words = search.words();
    if (words != memory_words_) return;
    for (std::size_t j = 0; j < view.jobs.size(); ++j) {
      const auto found = row_of_.find(view.jobs[j].id);
      if (found == row_of_.end()) continue;
      std::copy_n(earlier.data() + found->second * words, words, state.data() + j * words);
    }
  }

  void remember(const RoundView& view, const Search& search) {
    memory_.clear();
    memory_words_ = search.words();
    for (const auto& judged : search.population()) {
      const Word* state = search.state(judged);
      memory_.emplace_back(state, state + search.state_size());
    }
    row_of_.clear();
    for (std::size_t j = 0; j < view.jobs.size(); ++j) row_of_[view.jobs[j].id] = j;
  }

  static std::vector<Allocation> allocations_of(const Search& search, const Word* state) {
    std::vector<Allocation> allocations(search.jobs());
    for (std::size_t j = 0; j < search.jobs(); ++j) {
      for (std::size_t n = 0; n < search.words() * kNodesPerWord; ++n) {
        const int gpus = cell_of(state + j * search.words(), n);
        if (gpus > 0) allocations[j].push_back({static_cast<int>(n), gpus});
      }
    }
    return allocations;
  }

  AllocatorOptions options_;
  Rng rng_;
  std::vector<std::vector<Word>> memory_;
  std::size_t memory_words_ = 0;
  std::map<std::uint32_t, std::size_t> row_of_;
};

}  // namespace

std::unique_ptr<Allocator> make_pollux(const AllocatorOptions& options) { return std::make_unique<Pollux>(options); }

}  // namespace tangram::train
