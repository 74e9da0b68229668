// The inference requests of a shared cluster, from submission to their end.
//
// A request is not submitted yet, pending (it has no GPU), started, or ended. Requests are numbered by submission.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "formats/jobs_file.h"

namespace tangram::experiments {

class InferenceRequests {
 public:
  struct Request {
    std::string name;
    int application = 0;  // Index into applications().
    double submit_s = 0;
    double duration_s = 0;  // At least a second.
  };

  // Takes the jobs of kind inference.
  explicit InferenceRequests(const std::vector<formats::ClusterJob>& jobs);

  // Their names, in the order in which the jobs first name them.
  const std::vector<std::string>& applications() const { return applications_; }
  const Request& at(std::size_t i) const { return requests_[i]; }

  // When the next request is submitted; infinite after the last.
  double next_submit_s() const;
  // Calls `arrived(request)` for each request that is submitted by `now_s`, and makes it pending.
  template <typename Arrived>
  void admit(double now_s, const Arrived& arrived) {
    for (; next_ < requests_.size() && requests_[next_].submit_s <= now_s; ++next_) {
      arrived(requests_[next_]);
      pending_.push_back(next_);
    }
  }

  const std::vector<std::size_t>& pending() const { return pending_; }
  // Offers every pending request, in order, to `place(i)`, which returns true where the request has started. Until all
  // were offered, pending() keeps its size.
  template <typename Place>
  void place(const Place& place) {
    std::erase_if(pending_, place);
  }

  // A request that `place` accepted waited so long from its submission until its replica ran.
  void record_wait(double wait_s) { waits_s_.push_back(wait_s); }
  // So many of those that started have ended.
  void end(std::size_t count) { ended_ += count; }

  bool all_ended() const { return ended_ == requests_.size(); }
  // In the order in which the requests started.
  const std::vector<double>& waits_s() const { return waits_s_; }
  // The name of a request that has not ended: one that is pending, else the next to be submitted, else the one that
  // runs longest. There is one.
  const std::string& unfinished() const;

 private:
  std::vector<std::string> applications_;
  std::vector<Request> requests_;
  std::size_t next_ = 0;  // The first that is not submitted yet.
  std::vector<std::size_t> pending_;
  std::size_t ended_ = 0;
  std::vector<double> waits_s_;
};

}  // namespace tangram::experiments
