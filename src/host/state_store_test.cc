#include "host/state_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tangram::host {
namespace {

class StateFolder : public ::testing::Test {
 protected:
  StateFolder()
      : path_(::testing::TempDir() + "/state-" + ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(path_);
  }
  ~StateFolder() override { std::filesystem::remove_all(path_); }

  std::string path_;
};

using StateStoreFile = StateFolder;

TEST_F(StateStoreFile, KeepsTextsBetweenTwoRuns) {
  {
    auto store = StateStore::open(path_);
    ASSERT_TRUE(store && *store);
    EXPECT_EQ(*(**store).read("plan"), std::nullopt);
    ASSERT_TRUE((**store).write({{"plan", "a"}, {"counts", "1"}}));
    ASSERT_TRUE((**store).write({{"plan", "b"}}));
  }
  auto again = StateStore::open(path_);
  ASSERT_TRUE(again && *again);
  EXPECT_EQ(*(**again).read("plan"), "b");
  EXPECT_EQ(*(**again).read("counts"), "1");
}

// flock() belongs to the open file, so a second one in the same process is turned away as another process would be.
TEST_F(StateStoreFile, LetsOneUseItAtATime) {
  {
    auto first = StateStore::open(path_);
    ASSERT_TRUE(first && *first);
    const auto second = StateStore::open(path_);
    ASSERT_TRUE(second);
    EXPECT_FALSE(*second);
  }
  const auto third = StateStore::open(path_);
  EXPECT_TRUE(third && *third);
}

TEST_F(StateStoreFile, SaysThatAFileIsNotOurs) {
  std::filesystem::create_directories(path_);
  std::ofstream(path_ + "/gateway.db")
      << "certainly not a database, and longer than a header of one hundred bytes ........"
         "........................................";
  const auto store = StateStore::open(path_);
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message.find("gateway.db"), std::string::npos) << store.error().message;
}

// The open file would take the text, and nobody could read it again.
TEST_F(StateStoreFile, SaysThatItsFolderWasDeleted) {
  auto store = StateStore::open(path_);
  ASSERT_TRUE(store && *store);
  ASSERT_TRUE((**store).write({{"plan", "a"}}));
  std::filesystem::remove_all(path_);
  const auto gone = (**store).write({{"plan", "b"}});
  ASSERT_FALSE(gone);
  EXPECT_NE(gone.error().message.find("deleted"), std::string::npos);
  // Another server has made a folder of this name.
  auto other = StateStore::open(path_);
  ASSERT_TRUE(other && *other);
  EXPECT_FALSE((**store).write({{"plan", "c"}}));
}

}  // namespace
}  // namespace tangram::host
