// gzip and deflate, as HTTP and gRPC use them, in steps: whoever unpacks can stop before the memory for more is used up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tangram::host {

enum class ContentCoding : std::uint8_t { identity, gzip, deflate };
std::string_view to_string(ContentCoding coding);

// The coding of a Content-Encoding field; "x-gzip" is gzip. Nothing: another one, or several.
std::optional<ContentCoding> parse_content_coding(std::string_view field);
// The coding that an Accept-Encoding field prefers of those that there are; identity if it wants none. Only codings that
// it names count, "*" does not: what was not asked for by name is not packed.
ContentCoding accepted_coding(std::string_view field);

// Unpacks one stream. `deflate` is the zlib format, or the bare one, which some clients send under that name.
class Unpacker {
 public:
  enum class State : std::uint8_t { more, done, broken };
  // What an unpacker holds besides the output: the window and the tables of zlib.
  static constexpr std::size_t kBytes = 48 << 10;

  explicit Unpacker(ContentCoding coding);
  ~Unpacker();
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  struct Step {
    std::size_t consumed = 0;  // Of the input.
    std::size_t written = 0;   // To the output. All of it: there may be more.
  };
  // Consumes a prefix of `packed` and writes at most `room` bytes to `out`.
  Step step(std::string_view packed, char* out, std::size_t room);
  // `done`: the stream has ended and its checksum fits; what follows it is not part of it.
  State state() const { return state_; }

 private:
  struct Stream;
  // Consumes from `packed` what begin_ lacks. True: it is complete, and the format is known.
  bool complete_begin(std::string_view& packed);
  // One call of zlib. Sets state_.
  Step inflate_some(std::string_view packed, char* out, std::size_t room);

  std::unique_ptr<Stream> stream_;
  State state_ = State::more;
  // The first two bytes of `deflate`, which tell the zlib format from the bare one.
  std::array<char, 2> begin_{};
  std::size_t begin_size_ = 0;
  std::size_t begin_at_ = 0;  // Of them, those that zlib has.
};

// Packs `text` whole and appends it to `out`, quickly rather than tightly. Takes kPackBytes beside the output, which is
// at most packed_max() long.
inline constexpr std::size_t kPackBytes = 272 << 10;
std::size_t packed_max(std::size_t bytes);
void pack(ContentCoding coding, std::string_view text, std::string& out);

}  // namespace tangram::host
