// JSON for what happens at joins and loads, and plain fields of numbers for batches. Everything that comes in is checked
// for type, length and range here, so that the rest need not.
#include "node/node_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "node/tokens.h"

namespace tangram::node {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array<std::string_view, 9> kControlKinds{"ping", "load",   "unload", "stop",   "pong",
                                                        "ready", "failed", "lost",   "leaving"};
constexpr std::size_t kShortMax = 256;   // Versions, sessions, ids.
constexpr std::size_t kReasonMax = 2'000;
constexpr std::size_t kUnloadedMax = 1'000;

Error no_message(std::string_view what, const std::string& why) {
  return {ErrorCode::invalid, fmt::format("expected {}: {}", what, why)};
}

// Throws what the JSON library would: callers catch both.
std::string short_text(const nlohmann::json& object, const char* key, std::size_t max = kShortMax) {
  std::string text = object.at(key).get<std::string>();
  if (text.size() > max) throw std::length_error(fmt::format("'{}' is longer than {} bytes", key, max));
  return text;
}

// Whole numbers only: the library would cut others to size.
std::uint64_t count_of(const nlohmann::json& object, const char* key) {
  const auto& number = object.at(key);
  if (!number.is_number_unsigned()) throw std::out_of_range(fmt::format("'{}' is no count", key));
  return number.get<std::uint64_t>();
}

int small_number(const nlohmann::json& object, const char* key, int min, int max) {
  if (!object.at(key).is_number_integer()) throw std::out_of_range(fmt::format("'{}' is no whole number", key));
  const auto number = object.at(key).get<std::int64_t>();
  if (number < min || number > max) throw std::out_of_range(fmt::format("'{}' is not in {} to {}", key, min, max));
  return static_cast<int>(number);
}

OrderedJson board_json(const OfferedBoard& board) {
  auto slices = OrderedJson::array();
  for (const auto& slice : board.slices) {
    slices.push_back({{"id", slice.id}, {"profile", slice.mig_profile}, {"start", slice.start}});
  }
  return {{"name", board.name}, {"type", board.type}, {"cores", board.cores}, {"whole", board.whole}, {"slices", slices}};
}

OfferedBoard board_from(const nlohmann::json& json) {
  OfferedBoard board{short_text(json, "name"), short_text(json, "type"), small_number(json, "cores", 0, 4096),
                     json.at("whole").get<bool>(), {}};
  for (const auto& slice : json.at("slices")) {
    board.slices.push_back({short_text(slice, "id"), short_text(slice, "profile"), small_number(slice, "start", -1, 1024)});
    if (board.slices.size() > kOfferedSlicesMax) throw std::length_error("too many slices");
  }
  return board;
}

// Digits only, at most nineteen: what strtoull would make of signs and blanks is not ours to guess.
std::optional<std::uint64_t> field_number(const std::optional<std::string_view>& text) {
  if (!text) return std::nullopt;
  const auto number = text::parse_integer(*text);
  if (!number || *number < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

}  // namespace

std::string write_join(const JoinRequest& join) {
  auto boards = OrderedJson::array();
  for (const auto& board : join.boards) boards.push_back(board_json(board));
  return OrderedJson{{"protocol", join.protocol}, {"version", join.version}, {"name", join.name},
                     {"token", join.token},       {"munge", join.munge},     {"boards", boards}}
      .dump();
}

Result<JoinRequest> read_join(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    JoinRequest join;
    // First and alone: another version may have other keys.
    join.protocol = small_number(json, "protocol", 0, 1'000'000);
    join.version = short_text(json, "version");
    if (join.protocol != kNodeProtocol) return join;
    join.name = short_text(json, "name", kNodeNameMax);
    if (!is_node_name(join.name)) return no_message("a join", "the name has other signs than letters, digits and .-_:");
    join.token = short_text(json, "token");
    join.munge = short_text(json, "munge", 8 << 10);
    std::size_t slices = 0;
    for (const auto& board : json.at("boards")) {
      join.boards.push_back(board_from(board));
      slices += join.boards.back().slices.size();
      if (join.boards.size() > kBoardsMax || slices > kOfferedSlicesMax) {
        return no_message("a join", fmt::format("more than {} devices or {} slices", kBoardsMax, kOfferedSlicesMax));
      }
    }
    return join;
  } catch (const std::exception& problem) {
    return no_message("a join", problem.what());
  }
}

std::string write_join_answer(const JoinAnswer& answer) {
  return OrderedJson{{"protocol", answer.protocol},
                     {"version", answer.version},
                     {"session", answer.session},
                     {"ping_every_ms", answer.ping_every / std::chrono::milliseconds(1)},
                     {"silence_max_ms", answer.silence_max / std::chrono::milliseconds(1)},
                     {"munge", answer.munge}}
      .dump();
}

Result<JoinAnswer> read_join_answer(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    return JoinAnswer{small_number(json, "protocol", 0, 1'000'000),
                      short_text(json, "version"),
                      short_text(json, "session"),
                      std::chrono::milliseconds(small_number(json, "ping_every_ms", 10, 60'000)),
                      std::chrono::milliseconds(small_number(json, "silence_max_ms", 10, 600'000)),
                      short_text(json, "munge", 8 << 10)};
  } catch (const std::exception& problem) {
    return no_message("the answer to a join", problem.what());
  }
}

std::string write_slice_join(const SliceJoin& join) {
  return OrderedJson{{"session", join.session}, {"slice", join.slice}, {"life", join.life}}.dump();
}

Result<SliceJoin> read_slice_join(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    return SliceJoin{short_text(json, "session"), short_text(json, "slice"), count_of(json, "life")};
  } catch (const std::exception& problem) {
    return no_message("a connection for a slice", problem.what());
  }
}

std::string write_control(const ControlMessage& m) {
  OrderedJson json{{"is", kControlKinds[static_cast<std::size_t>(m.kind)]}};
  const bool names_slice = !m.slice.empty();
  if (names_slice) {
    json["slice"] = m.slice;
    json["life"] = m.life;
  }
  switch (m.kind) {
    case ControlKind::ping:
    case ControlKind::pong: json["number"] = m.number; break;
    case ControlKind::load:
      json["board"] = m.board;
      json["offered"] = m.offered;
      json["profile"] = m.mig_profile;
      json["start"] = m.start;
      json["device_units"] = m.device_units;
      json["units_per_core"] = m.units_per_core;
      json["cut_units"] = m.cut_units;
      json["process"] = m.process;
      json["fresh"] = m.fresh;
      json["spec"] = m.spec;
      break;
    case ControlKind::stop:
      json["batch"] = m.batch;
      json["must"] = m.must;
      break;
    case ControlKind::failed:
    case ControlKind::lost: json["reason"] = m.reason.substr(0, kReasonMax); break;
    case ControlKind::ready: json["digests"] = m.digests; break;
    case ControlKind::unload:
    case ControlKind::leaving: break;
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<ControlMessage> read_control(std::string_view line) {
  try {
    const auto json = nlohmann::json::parse(line);
    const auto is = short_text(json, "is");
    const auto kind = std::ranges::find(kControlKinds, is);
    if (kind == kControlKinds.end()) return no_message("a control message", fmt::format("\"{}\" is none", is));
    ControlMessage m;
    m.kind = static_cast<ControlKind>(kind - kControlKinds.begin());
    if (json.contains("slice")) {
      m.slice = short_text(json, "slice");
      m.life = count_of(json, "life");
    }
    switch (m.kind) {
      case ControlKind::ping:
      case ControlKind::pong: m.number = count_of(json, "number"); break;
      case ControlKind::load:
        m.board = static_cast<std::size_t>(small_number(json, "board", 0, kBoardsMax - 1));
        m.offered = short_text(json, "offered");
        m.mig_profile = short_text(json, "profile");
        m.start = small_number(json, "start", 0, 65'535);
        m.device_units = small_number(json, "device_units", 0, 65'535);
        m.units_per_core = small_number(json, "units_per_core", 0, 64);
        m.cut_units = small_number(json, "cut_units", 0, 65'535);
        m.process = small_number(json, "process", 0, 64);
        m.fresh = json.at("fresh").get<bool>();
        m.spec = json.at("spec").get<std::string>();
        break;
      case ControlKind::stop:
        m.batch = count_of(json, "batch");
        m.must = json.at("must").get<bool>();
        break;
      case ControlKind::failed:
      case ControlKind::lost: m.reason = short_text(json, "reason", kReasonMax); break;
      case ControlKind::ready:
        m.digests = json.at("digests").get<std::map<std::string, std::string>>();
        break;
      case ControlKind::unload:
      case ControlKind::leaving: break;
    }
    return m;
  } catch (const std::exception& problem) {
    return no_message("a control message", problem.what());
  }
}

std::string write_refusal(const std::string& why, bool final) {
  return OrderedJson{{"error", why}, {"final", final}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Refusal read_refusal(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  Refusal refusal{"the gateway refused without a reason", false};
  if (!json.is_object()) return refusal;
  if (const auto why = json.find("error"); why != json.end() && why->is_string()) refusal.why = why->get<std::string>();
  if (const auto end = json.find("final"); end != json.end() && end->is_boolean()) refusal.final = end->get<bool>();
  return refusal;
}

std::string write_first_request(std::string_view path, std::string_view host, std::string_view body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", path, host,
      body.size(), body);
}

std::string write_answer(int status, std::string_view body) {
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", status,
                     host::http_status_text(status), body.size(), body);
}

// Only what write_answer() makes is understood. Bytes behind it are the gateway's first messages.
Result<std::optional<PlainAnswer>> take_answer(std::string& in) {
  const Error rubbish{ErrorCode::invalid, "this is not the node port of a Tangram gateway"};
  const auto end = in.find("\r\n\r\n");
  if (end == std::string::npos) {
    if (in.size() > kJoinHeadMax) return rubbish;
    return std::optional<PlainAnswer>();
  }
  const std::string_view head(in.data(), end);
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  const auto at = head.find(kLength);
  if (!head.starts_with("HTTP/1.1 ") || head.size() < 12 || at == std::string_view::npos) return rubbish;
  const auto status = text::parse_integer(head.substr(9, 3));
  const auto tail = head.substr(at + kLength.size());
  const auto length = text::parse_integer(tail.substr(0, tail.find('\r')));
  if (!status || !length || *length < 0 || static_cast<std::size_t>(*length) > kJoinBodyMax) return rubbish;
  const std::size_t whole = end + 4 + static_cast<std::size_t>(*length);
  if (in.size() < whole) return std::optional<PlainAnswer>();
  PlainAnswer answer{static_cast<int>(*status), in.substr(end + 4, static_cast<std::size_t>(*length))};
  in.erase(0, whole);
  return std::optional<PlainAnswer>(std::move(answer));
}

std::string write_batch_fields(const BatchHead& head) {
  std::string fields = fmt::format(
      "Tangram-Life: {}\r\nTangram-Batch: {}\r\nTangram-Service: {}\r\nTangram-Samples: {}\r\nTangram-Size: {}\r\n"
      "Tangram-Expected-Ns: {}\r\nTangram-Load-Ns: {}\r\nTangram-Cold: {}\r\nTangram-Remaining-Us: {}\r\n",
      head.life, head.job.batch.value(), head.job.service.value(), head.job.samples, head.job.size,
      std::max<std::int64_t>(head.job.expected.count(), 0), std::max<std::int64_t>(head.job.load.count(), 0),
      head.job.cold ? 1 : 0, std::max<std::int64_t>(head.remaining / std::chrono::microseconds(1), 0));
  // One field for all: a head may have 64 of them.
  for (std::size_t i = 0; i < head.unloaded.size(); ++i) {
    fields += fmt::format("{}{}", i == 0 ? "Tangram-Unload: " : ",", head.unloaded[i].value());
  }
  if (!head.unloaded.empty()) fields += "\r\n";
  return fields;
}

Result<BatchHead> read_batch_fields(const host::HttpHead& head) {
  const auto life = field_number(head.find("tangram-life"));
  const auto batch = field_number(head.find("tangram-batch"));
  const auto service = field_number(head.find("tangram-service"));
  const auto samples = field_number(head.find("tangram-samples"));
  const auto size = field_number(head.find("tangram-size"));
  const auto expected = field_number(head.find("tangram-expected-ns"));
  const auto load = field_number(head.find("tangram-load-ns"));
  const auto cold = field_number(head.find("tangram-cold"));
  const auto remaining = field_number(head.find("tangram-remaining-us"));
  constexpr std::uint64_t kDay = 86'400'000'000'000;  // Nanoseconds.
  const bool good = life && batch && service && *service < 1'000'000 && samples && *samples >= 1 &&
                    *samples <= 1'000'000 && size && *size >= 1 && *size <= (std::uint64_t{1} << 40) && expected &&
                    *expected <= kDay && load && *load <= kDay && cold && *cold <= 1 && remaining &&
                    *remaining <= kDay / 1000;
  if (!good) return Error{ErrorCode::invalid, "the fields of the batch are missing or make no sense"};
  BatchHead read;
  read.life = *life;
  read.job = {.batch = BatchId(*batch),
              .service = ServiceId(static_cast<std::uint32_t>(*service)),
              .samples = static_cast<std::int32_t>(*samples),
              .size = static_cast<std::int64_t>(*size),
              .expected = Duration(static_cast<std::int64_t>(*expected)),
              .cold = *cold == 1,
              .load = Duration(static_cast<std::int64_t>(*load))};
  read.remaining = std::chrono::microseconds(*remaining);
  std::string_view unloaded = head.find("tangram-unload").value_or("");
  while (!unloaded.empty()) {
    const auto end = std::min(unloaded.find(','), unloaded.size());
    const auto copy = field_number(unloaded.substr(0, end));
    unloaded.remove_prefix(std::min(end + 1, unloaded.size()));
    if (!copy || *copy >= 1'000'000 || read.unloaded.size() >= kUnloadedMax) {
      return Error{ErrorCode::invalid, "the fields of the batch make no sense"};
    }
    read.unloaded.push_back(ServiceId(static_cast<std::uint32_t>(*copy)));
  }
  return read;
}

std::string write_answer_fields(const AnswerHead& head) {
  return fmt::format("Tangram-Life: {}\r\nTangram-Batch: {}\r\nTangram-Ran-Ns: {}\r\n{}", head.life, head.batch,
                     std::max<std::int64_t>(head.ran.count(), 0), head.stopped ? "Tangram-Stopped: 1\r\n" : "");
}

std::optional<AnswerHead> read_answer_fields(std::string_view head) {
  const auto find = [&](std::string_view name) -> std::optional<std::string_view> {
    const auto at = head.find(name);
    if (at == std::string_view::npos) return std::nullopt;
    const auto rest = head.substr(at + name.size());
    return rest.substr(0, rest.find('\r'));
  };
  const auto life = field_number(find("\r\nTangram-Life: "));
  const auto batch = field_number(find("\r\nTangram-Batch: "));
  const auto ran = field_number(find("\r\nTangram-Ran-Ns: "));
  if (!life || !batch || !ran) return std::nullopt;
  return AnswerHead{*batch, *life, Duration(static_cast<std::int64_t>(*ran)), find("\r\nTangram-Stopped: ").has_value()};
}

}  // namespace tangram::node
