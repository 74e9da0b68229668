// A fleet's history as JSON: what the page reads, live or from a file. Its schema is docs/schema/events.schema.json.
//
// There are three kinds of values. A `fleet` names devices, slices and services; a `frame` says how they are at an
// instant; a `mark` says what happened. A frame may have only what has changed since the frame before it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "control/fleet_history.h"

namespace tangram::control {

std::string fleet_json(const FleetFaces& faces);
std::string mark_json(const FleetMark& mark);
// The story of a request with what the service would have needed, in words.
std::string story_json(const FleetHistory& history, const RequestStory& story);

// Writes frames one after the other, each as the difference to the one before.
class FrameWriter {
 public:
  // The history outlives it.
  explicit FrameWriter(const FleetHistory& history) : history_(history) {}

  // Appends the frame: whole where it is the first, else without what stayed the same.
  void write(std::string& out, const FleetFrame& frame);
  // The reader knows this frame already.
  void know(const FleetFrame& frame);

 private:
  std::string slice_text(const FleetFrame& frame, const SliceSample& sample) const;
  std::string service_text(const FleetFrame& frame, std::size_t service) const;
  template <typename Id>
  static void append_changes(std::string& out, std::map<Id, std::string>& known, std::map<Id, std::string> now);
  std::map<std::uint32_t, std::string> slices_of(const FleetFrame& frame) const;
  std::map<std::size_t, std::string> services_of(const FleetFrame& frame) const;

  const FleetHistory& history_;
  std::uint64_t before_ = 0;  // The number of the frame that the reader knows; 0: none.
  std::map<std::uint32_t, std::string> slices_;
  std::map<std::size_t, std::string> services_;
};

// What a page that is a file is made of: the whole history.
struct RecordedPage {
  std::string title;  // "scenario-day.yaml"
  std::string kind;   // "simulation" or "recording".
  std::string about;  // One sentence.
};
std::string history_json(const FleetHistory& history, const RecordedPage& page);

// Server-sent events for a reader that knows the frames up to `known`. Nothing: it knows nothing and wants to know how
// things are now; 0: it wants all that is kept, with at most `frames_max` frames. `about` is the JSON of the event
// `about`, which comes first.
std::string events_text(const FleetHistory& history, std::optional<std::uint64_t> known, std::string_view about,
                        std::size_t frames_max = 400);

}  // namespace tangram::control
