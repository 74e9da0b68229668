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

Result<std::string> resolve_host(const std::string& name) {
  if (is_numeric_address(name)) return name;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int problem = name.empty() ? EAI_NONAME : getaddrinfo(name.c_str(), nullptr, &hints, &list);
  if (problem != 0) {
    return Error{ErrorCode::not_found, fmt::format("the machine \"{}\" is not known: {}", name, gai_strerror(problem))};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* number = list->ai_family == AF_INET6
                           ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(list->ai_addr)->sin6_addr)
                           : static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(list->ai_addr)->sin_addr);
  if (inet_ntop(list->ai_family, number, text.data(), text.size()) == nullptr) {
    return Error{ErrorCode::not_found, fmt::format("the machine \"{}\" has no address", name)};
  }
  return std::string(text.data());
}

}  // namespace tangram::host
