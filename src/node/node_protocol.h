// What a node and its gateway say to each other.
//
// The node dials. On each connection it sends one HTTP request, and with the gateway's 200 the roles turn round:
//
//   POST /v2/nodes/join      who the node is and what it offers. From then on both send control messages, one JSON
//                            object a line: the gateway load, unload, stop and ping; the node pong, ready, failed,
//                            lost and leaving.
//   POST /v2/nodes/slices    for one slice that was loaded. From then on the gateway sends batches as requests of the
//                            Open Inference Protocol with binary tensors, one at a time, and the node answers them.
//
// A load has a number, the life of the slice; it stands in every later message about it, in each batch and in each
// answer, so that nothing of an earlier life is taken for one of this. Versions are compared at the join.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "engines/executor.h"
#include "host/http_parser.h"

namespace tangram::node {

// Of this protocol. Both sides must have the same.
inline constexpr int kNodeProtocol = 1;

// Limits on what the other side may send. A join is read before the peer is known.
inline constexpr std::size_t kJoinHeadMax = 4 << 10;
inline constexpr std::size_t kJoinBodyMax = 64 << 10;
inline constexpr std::size_t kControlLineMax = 4 << 20;  // A load with the signatures of many models.
inline constexpr std::size_t kBoardsMax = 64;            // Of a node.
inline constexpr std::size_t kOfferedSlicesMax = 256;    // Of a node.

inline constexpr std::string_view kJoinPath = "/v2/nodes/join";
inline constexpr std::string_view kSlicePath = "/v2/nodes/slices";

// A slice that exists on a node, whatever plan there is.
struct OfferedSlice {
  std::string id;           // Of the node's own: a MIG UUID, or a number.
  std::string mig_profile;  // "1g.10gb"
  int start = -1;           // Negative: not known.

  bool operator==(const OfferedSlice&) const = default;
};

// A device of a node, or what the node has of one.
struct OfferedBoard {
  std::string name;  // The device of plans that it is; empty: any of its type.
  std::string type;  // "a100-80gb", "cpu"; empty: not known.
  int cores = 0;     // Of a host.
  bool whole = false;                // It takes every layout of its type.
  std::vector<OfferedSlice> slices;  // Otherwise: those that it has.

  bool operator==(const OfferedBoard&) const = default;
};

struct JoinRequest {
  int protocol = kNodeProtocol;
  std::string version = {};  // Of the program.
  std::string name = {};
  std::string token = {};  // Empty: the gateway knows the certificate, or `munge` says who it is.
  std::string munge = {};  // A credential of MUNGE over the fingerprint of the certificate.
  std::vector<OfferedBoard> boards = {};

  bool operator==(const JoinRequest&) const = default;
};

struct JoinAnswer {
  int protocol = kNodeProtocol;
  std::string version = {};
  std::string session = {};  // Names this join in later connections.
  Duration ping_every{};
  Duration silence_max{};
  std::string munge = {};  // A credential of MUNGE over the fingerprint of the gateway's certificate, if one was shown.
};

// The first request of a connection for batches.
struct SliceJoin {
  std::string session;
  std::string slice;
  std::uint64_t life = 0;
};

enum class ControlKind : std::uint8_t { ping, load, unload, stop, pong, ready, failed, lost, leaving };

// A line of the control connection. Which fields count depends on `kind`.
struct ControlMessage {
  ControlKind kind = ControlKind::ping;
  std::uint64_t number = 0;      // Of a ping, and of its pong.
  std::string slice = {};        // As the gateway names it.
  std::uint64_t life = 0;        //
  // Of a load: what it serves, on which board, which of its slices or what cut.
  std::size_t board = 0;
  std::string offered = {};      // Of a slice that exists.
  std::string mig_profile = {};  // Of a whole board: the cut, and the device that the plan cuts it from.
  int start = 0;
  int device_units = 0;
  int units_per_core = 0;
  int cut_units = 0;
  int process = 0;
  bool fresh = false;            // A process that has the models already is not to be trusted.
  std::string spec = {};         // As worker::write_worker_spec() writes it.
  std::uint64_t batch = 0;       // Of a stop.
  bool must = false;
  std::string reason = {};       // Of failed and lost.
  std::map<std::string, std::string> digests = {};  // Of ready: what the weights of each model are.

  bool operator==(const ControlMessage&) const = default;
};

// Each as text, and back. Errors say what is wrong with the text: it comes from another program.
std::string write_join(const JoinRequest& join);
Result<JoinRequest> read_join(std::string_view text);
std::string write_join_answer(const JoinAnswer& answer);
Result<JoinAnswer> read_join_answer(std::string_view text);
std::string write_slice_join(const SliceJoin& join);
Result<SliceJoin> read_slice_join(std::string_view text);
std::string write_control(const ControlMessage& message);  // With its line end.
Result<ControlMessage> read_control(std::string_view line);
// {"error": ..., "final": ...}: a refusal, and whether asking again is of no use.
std::string write_refusal(const std::string& why, bool final);
struct Refusal {
  std::string why;
  bool final = false;
};
Refusal read_refusal(std::string_view text);

// The first request of a connection, whole.
std::string write_first_request(std::string_view path, std::string_view host, std::string_view body);
// An answer with a JSON body, whole.
std::string write_answer(int status, std::string_view body);
// An answer at the beginning of `in`, which is removed from it; nothing: it is not complete. Errors: it is none, or is
// longer than a join may be.
struct PlainAnswer {
  int status = 0;
  std::string body;
};
Result<std::optional<PlainAnswer>> take_answer(std::string& in);

// What a batch says beside its tensors, in fields of its head.
struct BatchHead {
  engines::BatchJob job;
  std::uint64_t life = 0;
  Duration remaining{};             // Until the last of its members is of no more use; zero: not known.
  std::vector<ServiceId> unloaded;  // Copies that go before it runs.
};
std::string write_batch_fields(const BatchHead& head);
// Errors: a field is missing or makes no sense.
Result<BatchHead> read_batch_fields(const host::HttpHead& head);
// What its answer says beside its tensors.
struct AnswerHead {
  std::uint64_t batch = 0;
  std::uint64_t life = 0;
  Duration ran{};        // On the slice, without the network.
  bool stopped = false;  // It was ended early.
};
std::string write_answer_fields(const AnswerHead& head);
// From the head of an answer. Nothing: it is not the answer of a node.
std::optional<AnswerHead> read_answer_fields(std::string_view head);

}  // namespace tangram::node
