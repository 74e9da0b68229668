// What people may ask of a server that follows its traffic.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tangram::serve {

class Follower;

enum class FollowCommand : std::uint8_t { pause, resume, now, undo, approve };
inline constexpr std::array<std::string_view, 5> kFollowCommands{"pause", "resume", "now", "undo", "approve"};

inline std::optional<FollowCommand> parse_follow_command(std::string_view text) {
  for (std::size_t i = 0; i < kFollowCommands.size(); ++i) {
    if (kFollowCommands[i] == text) return static_cast<FollowCommand>(i);
  }
  return std::nullopt;
}

}  // namespace tangram::serve
