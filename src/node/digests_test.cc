#include "node/digests.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "host/files.h"

namespace tangram::node {
namespace {

// Waits until the digest is known, for far too long at most.
std::string digest(ModelDigests& digests, const std::string& path) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < limit) {
    if (auto found = digests.find(path)) return *found;
    std::this_thread::yield();
  }
  return "never";
}

// The digest of "abc" is that of FIPS 180-2.
TEST(ModelDigests, AreThoseOfTheFilesAndFollowThem) {
  char name[] = "/tmp/tangram-digests-XXXXXX";
  const std::string folder = mkdtemp(name);
  std::atomic<int> woken{0};
  ModelDigests digests([&] { ++woken; });
  EXPECT_EQ(digest(digests, folder + "/net"), "") << "there is no such file";
  ASSERT_TRUE(host::write_file_atomically(folder + "/net.onnx", "abc"));
  ASSERT_TRUE(host::write_file_atomically(folder + "/network.onnx", "of another model"));
  EXPECT_EQ(digest(digests, folder + "/net"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_GE(woken.load(), 1);
  ASSERT_TRUE(host::write_file_atomically(folder + "/net.onnx", "abcd"));
  EXPECT_NE(digest(digests, folder + "/net"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // Weights in two files have a digest of both.
  const std::string one = digest(digests, folder + "/net");
  ASSERT_TRUE(host::write_file_atomically(folder + "/net.data", "more"));
  EXPECT_NE(digest(digests, folder + "/net"), one);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tangram::node
