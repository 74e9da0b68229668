// What people may ask of a server that follows its traffic.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tangram::serve {

class Follower;

// `lose` and `restore` name a device, which then is dead or works again: for rehearsals on emulated fleets.
enum class FollowCommand : std::uint8_t { pause, resume, now, undo, approve, lose, restore };
inline constexpr std::array<std::string_view, 7> kFollowCommands{"pause",   "resume", "now",    "undo",
                                                                 "approve", "lose",   "restore"};

inline bool names_device(FollowCommand command) {
  return command == FollowCommand::lose || command == FollowCommand::restore;
}

inline std::optional<FollowCommand> parse_follow_command(std::string_view text) {
  for (std::size_t i = 0; i < kFollowCommands.size(); ++i) {
    if (kFollowCommands[i] == text) return static_cast<FollowCommand>(i);
  }
  return std::nullopt;
}

}  // namespace tangram::serve
