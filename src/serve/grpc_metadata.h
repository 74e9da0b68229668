// The header fields of one call that matter here: gRPC calls them metadata.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tangram::serve {

enum class GrpcField : std::uint8_t {
  method,
  path,
  content_type,
  timeout,
  encoding,
  accept_encoding,
  authorization,
  api_key,
  traceparent,
  deadline_ms,
  input_size,
  background,
  stream_error,
};
inline constexpr std::size_t kGrpcFields = 13;

// Keeps the values of the fields above and counts the bytes of all. A field can occur several times; where that would
// be ambiguous the call is refused, because a proxy in front could have checked another value than the one used here.
class GrpcMetadata {
 public:
  // What is kept of one field: all that matter have short values, except keys.
  void add(std::string_view name, std::string_view value);
  // Of all fields so far, as HTTP/2 counts them: name, value and 32 bytes each.
  std::size_t bytes() const { return bytes_; }

  bool has(GrpcField field) const { return of(field).count > 0; }
  bool repeated(GrpcField field) const { return of(field).count > 1; }
  // The first value; empty if there is none.
  std::string_view value(GrpcField field) const { return of(field).value; }

 private:
  struct Kept {
    std::string value;
    int count = 0;
  };
  const Kept& of(GrpcField field) const { return kept_[static_cast<std::size_t>(field)]; }

  std::array<Kept, kGrpcFields> kept_;
  std::size_t bytes_ = 0;
};

}  // namespace tangram::serve
