// zlib behind a header of ours.

#include "host/content_coding.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/check.h"
#include "host/http_parser.h"

namespace tangram::host {
namespace {

// zlib's window: 15 bits, with 16 added for gzip; negative for the bare format.
constexpr int kWindowBits = 15;
constexpr int kGzip = 16;
// Of 1 to 9. At 1, zlib takes a third of the time of its default for a tenth more bytes.
constexpr int kPackLevel = 1;
constexpr int kMemoryLevel = 8;
// What gzip adds in front and behind at most, beyond what zlib counts for its own format.
constexpr std::size_t kGzipOverhead = 18;

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

unsigned at_most_unsigned(std::size_t bytes) {
  return static_cast<unsigned>(std::min<std::size_t>(bytes, std::numeric_limits<unsigned>::max()));
}

}  // namespace

struct Unpacker::Stream {
  z_stream z{};
};

std::string_view to_string(ContentCoding coding) {
  switch (coding) {
    case ContentCoding::identity: return "identity";
    case ContentCoding::gzip: return "gzip";
    case ContentCoding::deflate: return "deflate";
  }
  return "identity";
}

std::optional<ContentCoding> parse_content_coding(std::string_view field) {
  if (equals_ignoring_case(field, "identity")) return ContentCoding::identity;
  if (equals_ignoring_case(field, "gzip") || equals_ignoring_case(field, "x-gzip")) return ContentCoding::gzip;
  if (equals_ignoring_case(field, "deflate")) return ContentCoding::deflate;
  return std::nullopt;
}

// "gzip;q=0.5, deflate": the largest weight wins, gzip among equals, and 0 means never (RFC 9110 section 12.5.3).
ContentCoding accepted_coding(std::string_view field) {
  ContentCoding best = ContentCoding::identity;
  double best_weight = 0;
  while (!field.empty()) {
    const std::string_view item = field.substr(0, field.find(','));
    field.remove_prefix(std::min(item.size() + 1, field.size()));
    const auto semicolon = std::min(item.find(';'), item.size());
    const auto coding = parse_content_coding(without_blanks(item.substr(0, semicolon)));
    std::string_view weight_text = without_blanks(item.substr(std::min(semicolon + 1, item.size())));
    double weight = 1;
    if (weight_text.starts_with("q=") || weight_text.starts_with("Q=")) {
      weight_text.remove_prefix(2);
      weight = 0;
      std::from_chars(weight_text.data(), weight_text.data() + weight_text.size(), weight);
    }
    if (!coding || *coding == ContentCoding::identity || !(weight > 0)) continue;
    if (weight > best_weight || (weight == best_weight && *coding == ContentCoding::gzip)) {
      best = *coding;
      best_weight = weight;
    }
  }
  return best;
}

Unpacker::Unpacker(ContentCoding coding) : stream_(std::make_unique<Stream>()) {
  TANGRAM_CHECK(coding != ContentCoding::identity, "there is something to unpack");
  const bool gzip = coding == ContentCoding::gzip;
  if (gzip) begin_size_ = begin_at_ = begin_.size();
  if (inflateInit2(&stream_->z, gzip ? kWindowBits + kGzip : kWindowBits) != Z_OK) state_ = State::broken;
}

Unpacker::~Unpacker() { inflateEnd(&stream_->z); }

// RFC 1950: the low four bits of the first byte are 8, and both bytes as a number are a multiple of 31. Browsers tell the
// two formats apart in the same way.
bool Unpacker::complete_begin(std::string_view& packed) {
  if (begin_size_ == begin_.size()) return true;
  while (begin_size_ < begin_.size() && !packed.empty()) {
    begin_[begin_size_++] = packed.front();
    packed.remove_prefix(1);
  }
  if (begin_size_ < begin_.size()) return false;
  const unsigned first = static_cast<unsigned char>(begin_[0]);
  const unsigned second = static_cast<unsigned char>(begin_[1]);
  const bool zlib = (first & 15) == 8 && (first * 256 + second) % 31 == 0;
  if (!zlib && inflateReset2(&stream_->z, -kWindowBits) != Z_OK) state_ = State::broken;
  return state_ == State::more;
}

Unpacker::Step Unpacker::inflate_some(std::string_view packed, char* out, std::size_t room) {
  z_stream& z = stream_->z;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  z.avail_in = at_most_unsigned(packed.size());
  z.next_out = reinterpret_cast<Bytef*>(out);
  z.avail_out = at_most_unsigned(room);
  const unsigned in_before = z.avail_in;
  const unsigned out_before = z.avail_out;
  const int result = inflate(&z, Z_NO_FLUSH);
  // Z_BUF_ERROR: no progress for want of input or room, which is no error of the stream.
  if (result == Z_STREAM_END) {
    state_ = State::done;
  } else if (result != Z_OK && result != Z_BUF_ERROR) {
    state_ = State::broken;
  }
  return {in_before - z.avail_in, out_before - z.avail_out};
}

Unpacker::Step Unpacker::step(std::string_view packed, char* out, std::size_t room) {
  Step step;
  const std::size_t given = packed.size();
  if (state_ != State::more || !complete_begin(packed)) return {given - packed.size(), 0};
  step.consumed = given - packed.size();
  if (begin_at_ < begin_.size()) {
    const Step first = inflate_some({begin_.data() + begin_at_, begin_.size() - begin_at_}, out, room);
    begin_at_ += first.consumed;
    step.written = first.written;
    if (begin_at_ < begin_.size() || state_ != State::more) return step;
  }
  const Step rest = inflate_some(packed, out + step.written, room - step.written);
  return {step.consumed + rest.consumed, step.written + rest.written};
}

// compressBound() is for the default parameters, which are those of pack() but for the level.
std::size_t packed_max(std::size_t bytes) { return compressBound(bytes) + kGzipOverhead; }

void pack(ContentCoding coding, std::string_view text, std::string& out) {
  z_stream z{};
  const int bits = coding == ContentCoding::gzip ? kWindowBits + kGzip : kWindowBits;
  const int begun = deflateInit2(&z, kPackLevel, Z_DEFLATED, bits, kMemoryLevel, Z_DEFAULT_STRATEGY);
  TANGRAM_CHECK(begun == Z_OK, "zlib has memory for its tables");
  const std::size_t before = out.size();
  out.resize(before + deflateBound(&z, text.size()));
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = at_most_unsigned(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data() + before);
  z.avail_out = at_most_unsigned(out.size() - before);
  const int ended = deflate(&z, Z_FINISH);
  TANGRAM_CHECK(ended == Z_STREAM_END, "the output has room for the whole stream");
  out.resize(before + z.total_out);
  deflateEnd(&z);
}

}  // namespace tangram::host
