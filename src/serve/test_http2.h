// Frames of HTTP/2 by hand, for tests that send what no client library would.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tangram::serve::test {

enum FrameType : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kGoaway = 7,
  kWindow = 8,
  kContinuation = 9,
};
enum FrameFlag : std::uint8_t { kEndStream = 1, kAck = 1, kEndHeaders = 4 };

inline std::string big_endian(std::uint32_t value, int bytes = 4) {
  std::string out;
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
  return out;
}

inline std::string frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream, std::string_view payload) {
  std::string out = big_endian(static_cast<std::uint32_t>(payload.size()), 3);
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  out += big_endian(stream);
  out += payload;
  return out;
}

// An integer of HPACK with a prefix of 7 bits.
inline std::string hpack_integer(std::size_t value) {
  if (value < 127) return {static_cast<char>(value)};
  std::string out(1, '\x7f');
  for (value -= 127; value >= 128; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

// A field with a name of its own; `keep`: it enters the table, where 0xbe names the newest.
inline std::string hpack_field(std::string_view name, std::string_view value, bool keep = false) {
  std::string out(1, keep ? '\x40' : '\0');
  for (const auto text : {name, value}) {
    out += hpack_integer(text.size());
    out += text;
  }
  return out;
}

// The fields that every call has.
inline std::string call_fields(std::string_view method) {
  return hpack_field(":method", "POST") + hpack_field(":scheme", "http") +
         hpack_field(":path", "/inference.GRPCInferenceService/" + std::string(method)) +
         hpack_field(":authority", "test") + hpack_field("content-type", "application/grpc") +
         hpack_field("te", "trailers");
}

// A message as gRPC frames it.
inline std::string grpc_frame(std::string_view message, bool packed = false) {
  return std::string(1, packed ? '\1' : '\0') + big_endian(static_cast<std::uint32_t>(message.size())) +
         std::string(message);
}

// A connection of frames. Waiting ends after ten seconds.
class Http2Client {
 public:
  explicit Http2Client(std::uint16_t port, bool hello = true) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    nghttp2_hd_inflate_new(&inflater_);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{10, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    [[maybe_unused]] const int connected =
        connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    if (hello) send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, ""));
  }
  ~Http2Client() {
    close(socket_);
    nghttp2_hd_inflate_del(inflater_);
  }
  Http2Client(const Http2Client&) = delete;
  Http2Client& operator=(const Http2Client&) = delete;

  // False: the server has closed the connection.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  struct Frame {
    std::uint8_t type = 0;
    std::uint8_t flags = 0;
    std::uint32_t stream = 0;
    std::string payload;
    std::string fields;  // Of HEADERS: "name: value" lines.
  };
  // The next frame; false at the end of the connection, or when nothing comes.
  bool receive(Frame& found) {
    while (in_.size() < 9 || in_.size() < 9 + size_of_first()) {
      if (!read_more()) return false;
    }
    const std::size_t size = size_of_first();
    found.type = static_cast<std::uint8_t>(in_[3]);
    found.flags = static_cast<std::uint8_t>(in_[4]);
    found.stream = 0;
    for (std::size_t i = 5; i < 9; ++i) found.stream = found.stream << 8 | static_cast<std::uint8_t>(in_[i]);
    found.payload = in_.substr(9, size);
    in_.erase(0, 9 + size);
    found.fields = found.type == kHeaders ? unpacked(found.payload) : "";
    return true;
  }
  // All frames until the server closes the connection; empty if it does not.
  std::vector<Frame> receive_to_end() {
    std::vector<Frame> all;
    Frame next;
    while (receive(next)) all.push_back(next);
    return ended_ ? all : std::vector<Frame>();
  }
  bool ended() const { return ended_; }
  // What came that is no whole frame, for a server that speaks something else.
  std::string rest() {
    while (read_more()) continue;
    return in_;
  }

 private:
  // The fields of a block, whose tables are those of the connection.
  std::string unpacked(const std::string& block) {
    std::string text;
    const auto* at = reinterpret_cast<const std::uint8_t*>(block.data());
    std::size_t left = block.size();
    while (true) {
      nghttp2_nv field{};
      int flags = 0;
      const ssize_t used = nghttp2_hd_inflate_hd2(inflater_, &field, &flags, at, left, 1);
      if (used < 0) return "not HPACK";
      at += used;
      left -= static_cast<std::size_t>(used);
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
        text.append(reinterpret_cast<const char*>(field.name), field.namelen).append(": ");
        text.append(reinterpret_cast<const char*>(field.value), field.valuelen).append("\n");
      }
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0 && left == 0) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
    return text;
  }
  std::size_t size_of_first() const {
    std::size_t size = 0;
    for (std::size_t i = 0; i < 3; ++i) size = size << 8 | static_cast<std::uint8_t>(in_[i]);
    return size;
  }
  bool read_more() {
    char buffer[65536];
    const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);
    if (got > 0) in_.append(buffer, static_cast<std::size_t>(got));
    // A reset is an end, too; only silence is none.
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK)) ended_ = true;
    return got > 0;
  }

  int socket_;
  nghttp2_hd_inflater* inflater_ = nullptr;
  bool ended_ = false;
  std::string in_;
};

}  // namespace tangram::serve::test
