#include "host/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "host/descriptor.h"
#include "host/socket.h"

namespace tangram::host {
namespace {

// What a service manager does: it binds a datagram socket and reads.
class Manager {
 public:
  explicit Manager(std::string path) : path_(std::move(path)), socket_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    std::filesystem::remove(path_);
    const auto address = socket_address({.socket_path = path_});
    EXPECT_EQ(::bind(socket_.get(), address->get(), address->length), 0);
  }
  ~Manager() { std::filesystem::remove(path_); }

  // The next message; empty if there is none.
  std::string message() const {
    std::string text(256, '\0');
    const auto length = ::recv(socket_.get(), text.data(), text.size(), MSG_DONTWAIT);
    text.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
    return text;
  }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const Descriptor socket_;
};

std::string path_of_test() { return testing::TempDir() + "notify-" + std::to_string(getpid()); }

TEST(ServiceManager, HearsOneDatagramForEachMessage) {
  const Manager manager(path_of_test());
  setenv("NOTIFY_SOCKET", manager.path().c_str(), 1);
  setenv("WATCHDOG_USEC", "30000000", 1);
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  const auto told = ServiceManager::from_environment();
  EXPECT_EQ(std::getenv("NOTIFY_SOCKET"), nullptr) << "a worker would speak for the server";
  EXPECT_EQ(std::getenv("WATCHDOG_USEC"), nullptr);
  EXPECT_EQ(told.watchdog(), std::chrono::seconds(15));
  told.ready("serving\nX=1");
  told.reloading();
  told.alive();
  told.stopping();
  EXPECT_EQ(manager.message(), "READY=1\nMAINPID=" + std::to_string(getpid()) + "\nSTATUS=serving X=1");
  EXPECT_TRUE(manager.message().starts_with("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_EQ(manager.message(), "WATCHDOG=1");
  EXPECT_EQ(manager.message(), "STOPPING=1");
  EXPECT_EQ(manager.message(), "");
}

TEST(ServiceManager, WatchesOnlyTheProcessThatIsMeant) {
  setenv("NOTIFY_SOCKET", "/nowhere", 1);
  setenv("WATCHDOG_USEC", "30000000", 1);
  setenv("WATCHDOG_PID", "1", 1);
  EXPECT_EQ(ServiceManager::from_environment().watchdog(), std::nullopt);
  setenv("NOTIFY_SOCKET", "/nowhere", 1);
  setenv("WATCHDOG_USEC", "soon", 1);
  EXPECT_EQ(ServiceManager::from_environment().watchdog(), std::nullopt);
}

TEST(ServiceManager, IsNotNeeded) {
  unsetenv("NOTIFY_SOCKET");
  setenv("WATCHDOG_USEC", "30000000", 1);
  const auto none = ServiceManager::from_environment();
  EXPECT_FALSE(none.listens());
  EXPECT_EQ(none.watchdog(), std::nullopt);
  none.ready("serving");
  setenv("NOTIFY_SOCKET", ("/tmp/" + std::string(200, 'a')).c_str(), 1);
  ServiceManager::from_environment().ready("too long a path");
}

}  // namespace
}  // namespace tangram::host
