// Messages over a Unix SOCK_SEQPACKET socket, and the worker's spec as JSON.
//
// The kernel keeps message boundaries, so a message of fixed size needs no framing, buffer or partial read. The spec is
// larger than a message and travels as a descriptor of shared memory (SCM_RIGHTS). Neither side trusts the other: every
// message is checked for size, magic, kind and text length, since either process may be of another version.

#include "worker/worker_protocol.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace tangram::worker {
namespace {

using PlainJson = nlohmann::json;

// Space for one descriptor. The union gives it the alignment that the CMSG macros require.
union ControlRoom {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
};

// Returns the first descriptor that came and closes all others, so that no message can leak descriptors.
int take_descriptors(msghdr& head) {
  int first = -1;
  for (cmsghdr* part = CMSG_FIRSTHDR(&head); part != nullptr; part = CMSG_NXTHDR(&head, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof(int), sizeof descriptor);
      if (first < 0) {
        first = descriptor;
      } else {
        close(descriptor);
      }
    }
  }
  return first;
}

// Checks everything that later code relies on: text() must not reach beyond the array, and a switch must know the kind.
bool well_formed(const WorkerMessage& message) {
  const auto kind = static_cast<std::uint32_t>(message.kind);
  return message.magic == WorkerMessage::kMagic && kind >= static_cast<std::uint32_t>(WorkerMessageKind::load) &&
         kind <= static_cast<std::uint32_t>(WorkerMessageKind::drop_model) &&
         message.text_length <= message.text.size();
}

// The worker gets the whole signature, because it computes the offsets of the tensors in shared memory by itself.
PlainJson to_json(const std::vector<TensorSpec>& specs) {
  PlainJson list = PlainJson::array();
  for (const auto& spec : specs) {
    list.push_back({{"name", spec.name},
                    {"datatype", std::string(to_string(spec.datatype))},
                    {"shape", spec.shape},
                    {"pad", spec.pad},
                    {"mask", spec.mask}});
  }
  return list;
}

std::vector<TensorSpec> tensors_from(const PlainJson& list) {
  std::vector<TensorSpec> specs;
  for (const auto& item : list) {
    const auto datatype = parse_datatype(item.at("datatype").get<std::string>());
    // Turned into an error by read_worker_spec(), like the exceptions of the JSON library.
    if (!datatype) throw std::invalid_argument("unknown datatype");
    specs.push_back({item.at("name"), *datatype, item.at("shape"), item.at("pad"), item.at("mask")});
  }
  return specs;
}

// Each of `shapes` is a pair of batch and size.
PlainJson to_json(const engines::ModelSpec& model) {
  PlainJson shapes = PlainJson::array();
  for (const auto& shape : model.shapes) shapes.push_back({shape.batch, shape.size});
  return {{"service", model.service.value()},
          {"name", model.name},
          {"network", model.network},
          {"path", model.path},
          {"copy", model.copy.value()},
          {"on_demand", model.on_demand},
          {"load_ns", model.load_time.count()},
          {"inputs", to_json(model.signature.inputs)},
          {"outputs", to_json(model.signature.outputs)},
          {"shapes", shapes}};
}

engines::ModelSpec model_from(const PlainJson& item) {
  engines::ModelSpec model;
  model.service = ServiceId(item.at("service").get<std::uint32_t>());
  model.name = item.at("name");
  model.network = item.at("network");
  model.path = item.at("path");
  model.copy = ServiceId(item.at("copy").get<std::uint32_t>());
  model.on_demand = item.at("on_demand");
  model.load_time = Duration(item.at("load_ns").get<std::int64_t>());
  model.signature = {tensors_from(item.at("inputs")), tensors_from(item.at("outputs"))};
  for (const auto& shape : item.at("shapes")) model.shapes.push_back({shape.at(0), shape.at(1)});
  return model;
}

}  // namespace

// A reason that is too long is cut and marked with "...": the message has a fixed size, and the start says most.
void WorkerMessage::set_text(std::string_view reason) {
  constexpr std::string_view kCut = "...";
  const bool fits = reason.size() <= text.size();
  const std::string_view kept = reason.substr(0, fits ? reason.size() : text.size() - kCut.size());
  const auto end = std::ranges::copy(kept, text.begin()).out;
  text_length = static_cast<std::uint32_t>(fits ? kept.size() : text.size());
  if (!fits) std::ranges::copy(kCut, end);
}

// Ignored by no library, and free for programs.
int stop_signal() { return SIGRTMIN + 3; }

void send_stop(pid_t worker, BatchId batch) {
  sigval value{};
  value.sival_int = static_cast<int>(static_cast<std::uint32_t>(batch.value()));
  sigqueue(worker, stop_signal(), value);
}

bool send_message(int socket, const WorkerMessage& message, int descriptor) {
  // iovec has no const variant; sendmsg() only reads.
  iovec part{const_cast<WorkerMessage*>(&message), sizeof message};
  msghdr head{};
  head.msg_iov = &part;
  head.msg_iovlen = 1;
  ControlRoom room{};
  if (descriptor >= 0) {
    head.msg_control = room.bytes;
    head.msg_controllen = sizeof room.bytes;
    cmsghdr* control = CMSG_FIRSTHDR(&head);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
  }
  // Our end of the socket does not block: with a full buffer sendmsg() fails with EAGAIN. The worker then does not read
  // its messages, which counts as gone.
  while (true) {
    // Without MSG_NOSIGNAL a worker that has just died would end the gateway with SIGPIPE.
    const ssize_t sent = sendmsg(socket, &head, MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<std::size_t>(sent) == sizeof message;
    if (errno != EINTR) return false;
  }
}

ReceivedMessage receive_message(int socket, bool wait) {
  ReceivedMessage received;
  iovec part{&received.message, sizeof received.message};
  ControlRoom room{};
  msghdr head{};
  head.msg_iov = &part;
  head.msg_iovlen = 1;
  head.msg_control = room.bytes;
  head.msg_controllen = sizeof room.bytes;
  ssize_t got = -1;
  do {
    // CLOEXEC from the start: another thread may spawn a process before a later fcntl().
    got = recvmsg(socket, &head, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    const bool later = errno == EAGAIN || errno == EWOULDBLOCK;
    received.kind = later ? ReceivedMessage::Kind::nothing : ReceivedMessage::Kind::closed;
    return received;
  }
  // Taken even from a message that turns out to be malformed, or its descriptors would leak.
  received.descriptor = take_descriptors(head);
  // A longer message is truncated by the kernel and flagged; a shorter one comes from another version.
  const bool whole = static_cast<std::size_t>(got) == sizeof received.message && (head.msg_flags & MSG_TRUNC) == 0;
  received.kind = got == 0                                 ? ReceivedMessage::Kind::closed
                  : whole && well_formed(received.message) ? ReceivedMessage::Kind::message
                                                           : ReceivedMessage::Kind::rubbish;
  return received;
}

WorkerMessage run_message(const engines::BatchJob& job) {
  WorkerMessage message;
  message.kind = WorkerMessageKind::run;
  message.batch = job.batch.value();
  message.service = job.service.value();
  message.samples = job.samples;
  message.size = job.size;
  message.expected_ns = job.expected.count();
  return message;
}

// The inverse of run_message(). Nothing is checked here: WorkerHost compares the job with its models and memory, and
// knows which of them are loaded.
engines::BatchJob job_of(const WorkerMessage& message) {
  return {.batch = BatchId(message.batch),
          .service = ServiceId(message.service),
          .samples = message.samples,
          .size = message.size,
          .expected = Duration(message.expected_ns)};
}

WorkerMessage unload_message(ServiceId copy) {
  WorkerMessage message;
  message.kind = WorkerMessageKind::unload_model;
  message.service = copy.value();
  return message;
}

WorkerMessage drop_message(ServiceId service) {
  WorkerMessage message;
  message.kind = WorkerMessageKind::drop_model;
  message.service = service.value();
  return message;
}

std::string write_worker_spec(const WorkerSpec& spec) {
  PlainJson models = PlainJson::array();
  for (const auto& model : spec.models) models.push_back(to_json(model));
  return PlainJson{{"engine", spec.engine},
                   {"device", spec.config.device},
                   {"threads", spec.config.threads},
                   {"time_scale", spec.config.time_scale},
                   {"mig_profile", spec.config.mig_profile},
                   {"memory_mib", spec.config.memory_mib},
                   {"provider", spec.config.provider},
                   {"cores", spec.cores},
                   {"models", models}}
      .dump();
}

// Every key is required: both programs come from one build, so a missing key means a damaged or foreign spec.
Result<WorkerSpec> read_worker_spec(std::string_view text) {
  try {
    const PlainJson json = PlainJson::parse(text);
    WorkerSpec spec;
    spec.engine = json.at("engine");
    spec.config = {json.at("device"),      json.at("threads"),    json.at("time_scale"),
                   json.at("mig_profile"), json.at("memory_mib"), json.at("provider")};
    spec.cores = json.at("cores").get<std::vector<int>>();
    for (const auto& model : json.at("models")) spec.models.push_back(model_from(model));
    return spec;
  } catch (const std::exception& problem) {
    return Error{ErrorCode::invalid, std::string("cannot read the worker's spec: ") + problem.what()};
  }
}

std::string write_model_spec(const engines::ModelSpec& model) { return to_json(model).dump(); }

Result<engines::ModelSpec> read_model_spec(std::string_view text) {
  try {
    return model_from(PlainJson::parse(text));
  } catch (const std::exception& problem) {
    return Error{ErrorCode::invalid, std::string("cannot read the spec of a model: ") + problem.what()};
  }
}

}  // namespace tangram::worker
