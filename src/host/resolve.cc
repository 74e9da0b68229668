#include "host/resolve.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>

#include "host/socket.h"

namespace tangram::host {

Result<std::vector<std::string>> addresses_of(const std::string& name) {
  const bool bracketed = name.size() > 2 && name.front() == '[' && name.back() == ']';
  const std::string bare = bracketed ? name.substr(1, name.size() - 2) : name;
  if (is_numeric_address(bare)) return std::vector<std::string>{bare};
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int problem = bare.empty() || bracketed ? EAI_NONAME : getaddrinfo(bare.c_str(), nullptr, &hints, &list);
  if (problem != 0) {
    return Error{ErrorCode::not_found, fmt::format("the machine \"{}\" is not known: {}", name, gai_strerror(problem))};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* number =
        entry->ai_family == AF_INET6
            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(entry->ai_addr)->sin6_addr)
            : static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(entry->ai_addr)->sin_addr);
    if (inet_ntop(entry->ai_family, number, text.data(), text.size()) != nullptr) addresses.emplace_back(text.data());
  }
  if (addresses.empty()) return Error{ErrorCode::not_found, fmt::format("the machine \"{}\" has no address", name)};
  return addresses;
}

Result<std::string> resolve_host(const std::string& name) {
  TANGRAM_TRY(auto addresses, addresses_of(name));
  return std::move(addresses.front());
}

}  // namespace tangram::host
