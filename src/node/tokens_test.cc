#include "node/tokens.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "host/files.h"
#include "node/identity.h"

namespace tangram::node {
namespace {

// A folder that goes with the test.
class NodeFolder {
 public:
  NodeFolder() {
    char name[] = "/tmp/tangram-nodes-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~NodeFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const std::string kGatewayPrint(64, 'a');
const std::string kNodePrint(64, 'b');

TEST(Tokens, LetANodeInUntilTheyExpireAndItsCertificateAfterwards) {
  const NodeFolder folder;
  TokenStore store(folder.path());
  const auto made = store.create(kGatewayPrint, 1'000, 60, "rack 1");
  ASSERT_TRUE(made);
  EXPECT_EQ(parse_token(made->text)->gateway, kGatewayPrint);
  // Its first second is 1,000 and its last 1,059.
  EXPECT_THAT(store.admit(kNodePrint, "n1", made->text, 1'060).error().message, testing::HasSubstr("has expired"));
  EXPECT_TRUE(store.admit(kNodePrint, "n1", made->text, 1'059));
  EXPECT_TRUE(store.admit(kNodePrint, "n1", "", 999'999)) << "the certificate is known now";
  EXPECT_FALSE(store.admit(kNodePrint, "n2", "", 1'000)) << "under that name alone";
  EXPECT_FALSE(store.admit(std::string(64, 'c'), "n1", "", 1'000));
}

TEST(Tokens, LetNobodyInOnceRevoked) {
  const NodeFolder folder;
  TokenStore store(folder.path());
  const auto made = store.create(kGatewayPrint, 1'000, 60, "");
  ASSERT_TRUE(store.admit(kNodePrint, "n1", made->text, 1'001));
  EXPECT_TRUE(*store.revoke(made->token.id));
  EXPECT_FALSE(*store.revoke("n00000000"));
  EXPECT_THAT(store.admit(kNodePrint, "n1", made->text, 1'002).error().message, testing::HasSubstr("was revoked"));
  EXPECT_FALSE(store.admit(kNodePrint, "n1", "", 1'002)) << "its certificate was forgotten";
}

TEST(Tokens, AreKeptAsDigestsInAFileOfThisUserAlone) {
  const NodeFolder folder;
  TokenStore store(folder.path() + "/nodes");
  const auto made = store.create(kGatewayPrint, 1'000, 60, "");
  ASSERT_TRUE(made);
  const std::string path = folder.path() + "/nodes/tokens.json";
  const auto text = host::read_file(path);
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, testing::Not(testing::HasSubstr(parse_token(made->text)->secret)));
  struct stat found {};
  ASSERT_EQ(stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  ASSERT_EQ(stat((folder.path() + "/nodes").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
}

// One digit of the secret, of the id, of the length.
TEST(Tokens, ThatDifferInOneDigitAreNone) {
  const NodeFolder folder;
  TokenStore store(folder.path());
  const auto made = store.create(kGatewayPrint, 1'000, 60, "");
  for (const std::size_t place : {14ul, 30ul}) {
    std::string other = made->text;
    other[place] = other[place] == '0' ? '1' : '0';
    EXPECT_THAT(store.admit(kNodePrint, "n1", other, 1'001).error().message, testing::HasSubstr("no such join token"))
        << place;
  }
  for (const auto& text : {made->text.substr(1), made->text + "0", std::string("tangram_node_"), std::string()}) {
    EXPECT_FALSE(parse_token(text)) << text;
  }
}

TEST(Tokens, NoticeWhenAnotherProcessChangesThem) {
  const NodeFolder folder;
  TokenStore store(folder.path());
  EXPECT_TRUE(store.changed());
  EXPECT_FALSE(store.changed());
  ASSERT_TRUE(TokenStore(folder.path()).create(kGatewayPrint, 1'000, 60, ""));
  EXPECT_TRUE(store.changed());
  EXPECT_FALSE(store.changed());
}

TEST(Tokens, FileThatIsNoneIsAnErrorAndStays) {
  const NodeFolder folder;
  ASSERT_TRUE(host::write_file_atomically(folder.path() + "/tokens.json", "{\"version\":2}"));
  TokenStore store(folder.path());
  EXPECT_THAT(store.list().error().message, testing::HasSubstr("tokens.json"));
  EXPECT_FALSE(store.create(kGatewayPrint, 1'000, 60, ""));
  EXPECT_EQ(*host::read_file(folder.path() + "/tokens.json"), "{\"version\":2}");
}

TEST(Identity, IsTheSameAtTheNextStartAndNotForOthersToRead) {
  const NodeFolder folder;
  const std::string path = folder.path() + "/id.pem";
  const auto first = open_identity(path, "n1");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->fingerprint.size(), 64u);
  EXPECT_EQ(open_identity(path, "n1")->fingerprint, first->fingerprint);
  EXPECT_NE(make_identity("n1").fingerprint, first->fingerprint);
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(open_identity(path, "n1").error().message, testing::HasSubstr("chmod 600"));
}

TEST(NodeNames, AreShortAndPlain) {
  EXPECT_TRUE(is_node_name("gpu-17.rack_2:a"));
  for (const auto& name : {std::string(), std::string("a b"), std::string("a/b"), std::string("a\"b"),
                                 std::string(129, 'a')}) {
    EXPECT_FALSE(is_node_name(name)) << name;
  }
}

}  // namespace
}  // namespace tangram::node
