#include "host/content_coding.h"

#include <gtest/gtest.h>

#include <array>

#include "base/rng.h"

namespace tangram::host {
namespace {

// Unpacks in pieces of `piece` bytes of input and `room` of output; "broken" if it breaks, and "more" if it does not end.
std::string unpack_in_pieces(ContentCoding coding, std::string_view packed, std::size_t piece, std::size_t room) {
  Unpacker unpacker(coding);
  std::string out;
  std::string buffer(room, '\0');
  while (unpacker.state() == Unpacker::State::more) {
    const auto step = unpacker.step(packed.substr(0, piece), buffer.data(), room);
    packed.remove_prefix(step.consumed);
    out.append(buffer, 0, step.written);
    if (packed.empty() && step.written < room && unpacker.state() == Unpacker::State::more) return "more";
  }
  return unpacker.state() == Unpacker::State::done ? out : "broken";
}

std::string some_text() {
  Rng rng(7);
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(rng.below(1000)) + ",";
  return text;
}

TEST(ContentCoding, WhatIsPackedComesBackWhateverThePieces) {
  const std::string text = some_text();
  for (const auto coding : {ContentCoding::gzip, ContentCoding::deflate}) {
    std::string packed = "before ";
    pack(coding, text, packed);
    EXPECT_LE(packed.size() - 7, packed_max(text.size()));
    EXPECT_LT(packed.size(), text.size());
    const std::string_view stream = std::string_view(packed).substr(7);
    EXPECT_EQ(unpack_in_pieces(coding, stream, 1, 7), text);
    EXPECT_EQ(unpack_in_pieces(coding, stream, 1 << 20, 1 << 20), text);
  }
}

// The zlib format without its two bytes in front and its four behind.
TEST(ContentCoding, BareDeflateIsUnderstoodAsDeflate) {
  const std::string text = some_text();
  std::string packed;
  pack(ContentCoding::deflate, text, packed);
  const std::string_view bare = std::string_view(packed).substr(2, packed.size() - 6);
  EXPECT_EQ(unpack_in_pieces(ContentCoding::deflate, bare, 1 << 20, 1000), text);
}

TEST(ContentCoding, ADamagedOrShortStreamIsNotDone) {
  std::string packed;
  pack(ContentCoding::gzip, some_text(), packed);
  EXPECT_EQ(unpack_in_pieces(ContentCoding::gzip, packed.substr(0, packed.size() - 1), 100, 100), "more");
  packed[packed.size() - 6] ^= 1;  // The checksum.
  EXPECT_EQ(unpack_in_pieces(ContentCoding::gzip, packed, 100, 100), "broken");
  EXPECT_EQ(unpack_in_pieces(ContentCoding::gzip, "no gzip at all", 100, 100), "broken");
}

// 64 MiB of zeros are 64 KiB of gzip: a step writes what it has room for, and no more is held.
TEST(ContentCoding, AStepWritesNoMoreThanItsRoom) {
  std::string packed;
  pack(ContentCoding::gzip, std::string(std::size_t{64} << 20, '\0'), packed);
  Unpacker unpacker(ContentCoding::gzip);
  std::array<char, 4096> out;
  const auto step = unpacker.step(packed, out.data(), out.size());
  EXPECT_EQ(step.written, out.size());
  EXPECT_LT(step.consumed, 4096u);
  EXPECT_EQ(unpacker.state(), Unpacker::State::more);
}

TEST(ContentCoding, TheFieldsAreReadAsHttpSays) {
  EXPECT_EQ(parse_content_coding("GZip"), ContentCoding::gzip);
  EXPECT_EQ(parse_content_coding("br"), std::nullopt);
  EXPECT_EQ(parse_content_coding("gzip, gzip"), std::nullopt);
  EXPECT_EQ(accepted_coding(""), ContentCoding::identity);
  EXPECT_EQ(accepted_coding("*"), ContentCoding::identity);
  EXPECT_EQ(accepted_coding("br, deflate , gzip"), ContentCoding::gzip);
  EXPECT_EQ(accepted_coding("gzip;q=0.2, deflate;q=0.3"), ContentCoding::deflate);
  EXPECT_EQ(accepted_coding("gzip;q=0, identity"), ContentCoding::identity);
  EXPECT_EQ(accepted_coding("gzip;q=0.0,deflate;q=x"), ContentCoding::identity);
}

}  // namespace
}  // namespace tangram::host
