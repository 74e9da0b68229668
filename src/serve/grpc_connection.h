// One connection of a gRPC client: HTTP/2 by nghttp2, with the limits that it does not have itself.
#pragma once

#ifdef TANGRAM_WITH_GRPC

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/event_loop.h"
#include "serve/client_stream.h"
#include "serve/grpc_context.h"
#include "serve/grpc_stream.h"

// As nghttp2 declares it, whose header only grpc_connection.cc includes.
struct nghttp2_session;

namespace tangram::serve {

struct GrpcFrames;  // The callbacks of nghttp2.

class GrpcConnection final : public host::Readiness {
 public:
  // Takes over the socket. `tls` null: plain. `peer` is the account of those who are not known by name.
  GrpcConnection(GrpcContext& context, int socket, const host::TlsSlot* tls, const PeerKey& key,
                 std::shared_ptr<Peer> peer);
  ~GrpcConnection() override;

  // False: there is no memory for a connection, which is to be deleted at once.
  bool charged() const { return charge_.bytes() > 0; }
  void on_ready(bool readable, bool writable, bool broken) override;
  // Sends what is to be sent. Afterwards the connection can be closed.
  void proceed();
  bool is_open() const { return stream_.is_open(); }
  const PeerKey& peer_key() const { return peer_key_; }

  // Whether the client has used up its time in one way or another; then it was closed or a call was ended.
  void check_time(TimePoint now);
  // No new calls; closes when those that there are have ended.
  void drain();
  // Nobody has a call here, and nothing was asked for a while: the first to go when there is no room for another.
  TimePoint quiet_since() const { return quiet_since_; }
  bool is_quiet() const { return streams_.empty(); }
  void close_now();

  // ---- For streams ----
  // The fields of an answer, which is all of it if the stream has finished and has nothing to send.
  void begin_answer(GrpcStream& stream);
  // There is more to send, or the end.
  void more_to_send(GrpcStream& stream);
  // The stream is done with so many bytes of its input.
  void consumed(const GrpcStream& stream, std::size_t bytes);
  // An answer that is no gRPC: the status of HTTP alone.
  void answer_http(GrpcStream& stream, int status);
  void reset(const GrpcStream& stream);
  // What is charged to it, and to the group: null for callers who are not known by name.
  MemoryPlaces places(MemoryAccount* group = nullptr);
  const std::shared_ptr<ConnectionMemory>& memory() const { return memory_; }
  // For answers that the client has not read.
  bool has_room_for(std::uint64_t bytes) const { return unsent_ == 0 || unsent_ + bytes <= context_.limits.unread_max; }
  void count_unsent(std::int64_t bytes) { unsent_ += static_cast<std::uint64_t>(bytes); }
  const host::TlsStream* tls() const { return stream_.tls(); }
  // The names in the client's certificate.
  const std::vector<std::string>& certificate_names();

  std::size_t index = 0;  // Into the connections of the server.

 private:
  friend struct GrpcFrames;

  void read_some();
  void flush();
  bool send_out();
  void watch();
  void mark_dirty();
  // Counts a frame that asks for nothing. False: there were too many.
  bool allow_frame();
  void tell_plain_http(std::string_view bytes);
  void shut();
  // Whether the client has not read what it was sent for too long.
  bool unread_too_long(TimePoint now);

  GrpcContext& context_;
  ClientStream stream_;
  const PeerKey peer_key_;
  const std::shared_ptr<ConnectionMemory> memory_;
  Charge charge_;      // For this object and nghttp2's.
  Charge out_charge_;  // For out_ while the client does not read.
  nghttp2_session* session_ = nullptr;
  std::vector<std::unique_ptr<GrpcStream>> streams_;
  std::optional<std::vector<std::string>> certificate_names_;

  std::string out_;  // Frames.
  std::size_t out_at_ = 0;
  std::uint64_t unsent_ = 0;  // Bytes of answers that wait in streams.
  host::Interest interest_ = host::Interest::read;
  bool dirty_ = false;
  bool doomed_ = false;      // To be closed when nghttp2 is not on the stack.
  bool said_hello_ = false;  // The client's settings have come.
  bool draining_ = false;
  bool goodbye_ = false;        // The last call is named.
  std::size_t head_bytes_ = 0;  // Of the block of fields that is being read, packed. 0: none.
  double frames_left_;
  TimePoint frames_at_;

  TimePoint began_;
  TimePoint heard_at_;     // The last byte of the client.
  TimePoint quiet_since_;  // The last call ended.
  TimePoint head_began_;
  std::optional<TimePoint> asked_for_life_at_;
  std::optional<TimePoint> unread_since_;  // The window of unread_too_long(); nothing: all was read.
  std::uint64_t sent_in_window_ = 0;
};

}  // namespace tangram::serve

#endif
