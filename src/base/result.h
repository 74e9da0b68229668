// A value, or the error that came from outside instead of it.
//
// Errors are for what the world got wrong: a file, a device, a peer. Answers such as "infeasible" are values of
// their own, and bugs stop at TANGRAM_CHECK.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace tangram {

enum class ErrorCode {
  invalid,      // Input that was read and understood to be wrong.
  not_found,    // A file, device or name that is not there.
  denied,       // It is there, and we may not.
  unavailable,  // It may work later: a driver that is busy, a peer that is down.
  exhausted,    // A named limit of ours was reached.
};

// What was read, what was expected and where, ready to print. Several problems of one input are
// several lines, each complete in itself.
struct Error {
  ErrorCode code = ErrorCode::invalid;
  std::string message;

  bool operator==(const Error&) const = default;
};

// The error of input that was read and understood to be wrong.
inline Error invalid_input(std::string message) { return {ErrorCode::invalid, std::move(message)}; }

// The stand-in value of a call that has nothing to return but may fail.
struct Nothing {
  bool operator==(const Nothing&) const = default;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const T& value() const& {
    require_value();
    return *std::get_if<0>(&state_);
  }
  T& value() & {
    require_value();
    return *std::get_if<0>(&state_);
  }
  // By value, so that a loop over `*list()` does not walk a result that is already gone.
  T value() && {
    require_value();
    return std::move(*std::get_if<0>(&state_));
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  const Error& error() const {
    TANGRAM_CHECK(!ok(), "a result that holds a value has no error");
    return *std::get_if<1>(&state_);
  }

 private:
  void require_value() const { TANGRAM_CHECK(ok(), std::get_if<1>(&state_)->message); }

  std::variant<T, Error> state_;
};

}  // namespace tangram

// TANGRAM_TRY(const auto fleet, read_fleet(path)) declares `fleet` with the value of the expression, a Result, or
// returns its error from the enclosing function, which returns a Result too. An assignment works as well:
// TANGRAM_TRY(inputs.plan, read_plan(path)). It is two statements: not to be used as the body of an `if` without
// braces.
#define TANGRAM_TRY(target, ...) \
  TANGRAM_DETAIL_TRY(TANGRAM_DETAIL_JOIN(tangram_try_result_, __LINE__), target, __VA_ARGS__)

// The same for an expression whose value is not needed.
#define TANGRAM_RETURN_IF_ERROR(...)                                   \
  do {                                                                 \
    if (auto tangram_outcome = (__VA_ARGS__); !tangram_outcome.ok()) { \
      return tangram_outcome.error();                                  \
    }                                                                  \
  } while (false)

#define TANGRAM_DETAIL_TRY(result, target, ...) \
  auto result = (__VA_ARGS__);                  \
  if (!result.ok()) return result.error();      \
  target = *std::move(result)
#define TANGRAM_DETAIL_JOIN(a, b) TANGRAM_DETAIL_JOIN_NOW(a, b)
#define TANGRAM_DETAIL_JOIN_NOW(a, b) a##b
