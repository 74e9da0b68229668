// The calls that the scheduler knows, found by the number of their request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "serve/call.h"

namespace tangram::serve {

// The most calls in the gateway at one time; one more is refused.
inline constexpr std::size_t kCallsMax = std::size_t{1} << 20;

// Request numbers count up; their lowest 20 bits are the index of the call, so that it is found without a search. An
// index is reused as soon as it is free, a number never.
class CallTable {
 public:
  // Gives the call its number. Requires that fewer than kCallsMax are here.
  RequestId add(Call* call) {
    std::uint32_t place = 0;
    if (free_.empty()) {
      place = static_cast<std::uint32_t>(calls_.size());
      calls_.push_back(call);
    } else {
      place = free_.back();
      free_.pop_back();
      calls_[place] = call;
    }
    ++count_;
    call->request = RequestId((numbered_++ << kPlaceBits) | place);
    return call->request;
  }
  // The call with this number, which is here.
  Call* at(RequestId request) const { return calls_[place_of(request)]; }
  // The same, and it is here no more.
  Call* take(RequestId request) {
    const std::uint32_t place = place_of(request);
    Call* call = calls_[place];
    TANGRAM_CHECK(call != nullptr && call->request == request, "a call is answered once");
    calls_[place] = nullptr;
    free_.push_back(place);
    --count_;
    return call;
  }
  // Whether the call is here. Reads only its number: the rest may be its owner's.
  bool holds(const Call* call) const {
    const std::uint32_t place = place_of(call->request);
    return place < calls_.size() && calls_[place] == call;
  }
  std::size_t count() const { return count_; }

 private:
  static constexpr unsigned kPlaceBits = 20;
  static_assert(kCallsMax == std::size_t{1} << kPlaceBits);

  static std::uint32_t place_of(RequestId request) {
    return static_cast<std::uint32_t>(request.value() & (kCallsMax - 1));
  }

  std::vector<Call*> calls_;         // By place; null: free.
  std::vector<std::uint32_t> free_;  // The last one freed is used first.
  std::size_t count_ = 0;
  std::uint64_t numbered_ = 0;
};

}  // namespace tangram::serve
