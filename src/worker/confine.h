// What a worker gives up before it loads a model.
//
// TorchScript and ONNX files, and the libraries that run them, are code of somebody's. A worker needs its socket, the
// model files, the memory that the gateway passes to it and its share of the machine: everything else is given up for
// good, by the worker itself, before it has read a byte of a model. The kernel does not give any of it back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tangram::worker {

// Whom a worker that root has started becomes.
struct WorkerUser {
  std::uint32_t user = 0;
  std::uint32_t group = 0;
};

// One measure, and whether it is in force for this process.
struct Measure {
  std::string name;
  bool in_force = false;
};

// Takes all measures that the kernel permits; one that it does not permit is left out. Errors, in words: the process
// could not become `user`, which must not be left out.
std::optional<std::string> confine(const std::optional<WorkerUser>& user);

// What is in force for this process, as the kernel says.
std::vector<Measure> measures_in_force();

// The variables of `environment` that a worker gets: those that name folders, languages and the settings of numeric and
// GPU libraries. Keys and tokens of other programs, such as AWS_SECRET_ACCESS_KEY, are not among them.
bool worker_may_have(std::string_view variable);

}  // namespace tangram::worker
