#include "boards.h"

#include <algorithm>

#include "nvml_api.h"

namespace fake_nvml {
namespace {

// Of the boards with seven compute slices and eight memory units, in the order 1g, 1g+me, 1g with twice the memory, 2g,
// 3g, 4g, 7g. Ids and placements are the same on all of them.
struct SevenSlices {
  const char* names[7];
  unsigned multiprocessors[7];
  double memory_gib[7];
  unsigned copy_engines[7];
  Engines media[7];
};

std::vector<ProfileRow> rows(const SevenSlices& board) {
  struct Same {
    unsigned number, id, slices, instances;
    std::vector<unsigned> starts;
    unsigned size;
  };
  static const Same kSame[7] = {
      {NVML_GPU_INSTANCE_PROFILE_1_SLICE, 19, 1, 7, {0, 1, 2, 3, 4, 5, 6}, 1},
      {NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1, 20, 1, 1, {0, 1, 2, 3, 4, 5, 6}, 1},
      {NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2, 15, 1, 4, {0, 2, 4, 6}, 2},
      {NVML_GPU_INSTANCE_PROFILE_2_SLICE, 14, 2, 3, {0, 2, 4}, 2},
      {NVML_GPU_INSTANCE_PROFILE_3_SLICE, 9, 3, 2, {0, 4}, 4},
      {NVML_GPU_INSTANCE_PROFILE_4_SLICE, 5, 4, 1, {0}, 4},
      {NVML_GPU_INSTANCE_PROFILE_7_SLICE, 0, 7, 1, {0}, 8},
  };
  std::vector<ProfileRow> list;
  for (int i = 0; i < 7; ++i) {
    const Same& same = kSame[i];
    list.push_back({board.names[i], same.number, same.id, same.slices, same.instances, board.multiprocessors[i],
                    board.memory_gib[i], board.copy_engines[i], board.media[i], same.starts, same.size});
  }
  return list;
}

std::vector<Board> make_boards() {
  std::vector<Board> list;
  list.push_back(
      {"a30",
       "NVIDIA A30",
       0x20B7,
       24576,
       4,
       {{"1g.6gb", NVML_GPU_INSTANCE_PROFILE_1_SLICE, 14, 1, 4, 14, 5.81, 1, {0, 0, 0, 0}, {0, 1, 2, 3}, 1},
        {"1g.6gb+me", NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1, 21, 1, 1, 14, 5.81, 1, {1, 0, 1, 1}, {0, 1, 2, 3}, 1},
        {"2g.12gb", NVML_GPU_INSTANCE_PROFILE_2_SLICE, 5, 2, 2, 28, 11.69, 2, {2, 0, 0, 0}, {0, 2}, 2},
        {"2g.12gb+me", NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1, 6, 2, 1, 28, 11.69, 2, {2, 0, 1, 1}, {0, 2}, 2},
        {"4g.24gb", NVML_GPU_INSTANCE_PROFILE_4_SLICE, 0, 4, 1, 56, 23.44, 4, {4, 0, 1, 1}, {0}, 4}}});

  constexpr Engines kAmpere[7] = {{0, 0, 0, 0}, {1, 0, 1, 1}, {1, 0, 0, 0}, {1, 0, 0, 0},
                                  {2, 0, 0, 0}, {2, 0, 0, 0}, {5, 0, 1, 1}};
  SevenSlices a100{{"1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"},
                   {14, 14, 14, 28, 42, 56, 98},
                   {4.75, 4.75, 9.62, 9.62, 19.5, 19.5, 39.25},
                   {1, 1, 1, 2, 3, 4, 7},
                   {}};
  std::ranges::copy(kAmpere, a100.media);
  list.push_back({"a100-40gb", "NVIDIA A100-SXM4-40GB", 0x20B0, 40960, 7, rows(a100)});
  SevenSlices a100_80{{"1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
                      {14, 14, 14, 28, 42, 56, 98},
                      {9.5, 9.5, 19.5, 19.5, 39.25, 39.25, 78.75},
                      {1, 1, 1, 2, 3, 4, 7},
                      {}};
  std::ranges::copy(kAmpere, a100_80.media);
  list.push_back({"a100-80gb", "NVIDIA A100-SXM4-80GB", 0x20B2, 81920, 7, rows(a100_80)});

  constexpr Engines kHopper[7] = {{1, 0, 1, 0}, {1, 0, 1, 1}, {1, 0, 1, 0}, {2, 0, 2, 0},
                                  {3, 0, 3, 0}, {4, 0, 4, 0}, {7, 0, 7, 1}};
  SevenSlices h100{{"1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
                   {16, 16, 26, 32, 60, 64, 132},
                   {9.75, 9.75, 19.62, 19.62, 39.5, 39.5, 79.25},
                   {1, 1, 1, 2, 3, 4, 8},
                   {}};
  std::ranges::copy(kHopper, h100.media);
  list.push_back({"h100-80gb", "NVIDIA H100 80GB HBM3", 0x2330, 81559, 7, rows(h100)});
  SevenSlices nvl{{"1g.12gb", "1g.12gb+me", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"},
                  {16, 16, 26, 32, 60, 64, 132},
                  {10.75, 10.75, 21.62, 21.62, 46.38, 46.38, 93.12},
                  {1, 1, 1, 2, 3, 4, 8},
                  {}};
  std::ranges::copy(kHopper, nvl.media);
  list.push_back({"h100-94gb", "NVIDIA H100 NVL", 0x2321, 95830, 7, rows(nvl)});
  SevenSlices h200{{"1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"},
                   {16, 16, 26, 32, 60, 64, 132},
                   {16.0, 16.0, 32.25, 32.25, 69.5, 69.5, 139.75},
                   {1, 1, 1, 2, 3, 4, 8},
                   {}};
  std::ranges::copy(kHopper, h200.media);
  list.push_back({"h200-141gb", "NVIDIA H200", 0x2335, 143771, 7, rows(h200)});

  // Twelve memory units, three to a compute slice.
  const std::vector<unsigned> quarters{0, 3, 6, 9};
  const std::vector<unsigned> halves{0, 6};
  list.push_back(
      {"rtx-pro-6000",
       "NVIDIA RTX PRO 6000 Blackwell Server Edition",
       0x2BB5,
       97887,
       4,
       {{"1g.24gb", NVML_GPU_INSTANCE_PROFILE_1_SLICE, 14, 1, 4, 46, 23.62, 1, {1, 1, 1, 0}, quarters, 3},
        {"1g.24gb+me", NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1, 21, 1, 1, 46, 23.62, 1, {1, 1, 1, 1}, quarters, 3},
        {"1g.24gb+gfx", NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX, 47, 1, 4, 46, 23.62, 1, {1, 1, 1, 0}, quarters, 3},
        {"1g.24gb+me.all", NVML_GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME, 65, 1, 1, 46, 23.62, 1, {4, 4, 4, 1}, quarters, 3},
        {"1g.24gb-me", NVML_GPU_INSTANCE_PROFILE_1_SLICE_NO_ME, 67, 1, 4, 46, 23.62, 1, {0, 0, 0, 0}, quarters, 3},
        {"2g.48gb", NVML_GPU_INSTANCE_PROFILE_2_SLICE, 5, 2, 2, 94, 47.38, 2, {2, 2, 2, 0}, halves, 6},
        {"2g.48gb+gfx", NVML_GPU_INSTANCE_PROFILE_2_SLICE_GFX, 35, 2, 2, 94, 47.38, 2, {2, 2, 2, 0}, halves, 6},
        {"2g.48gb+me.all", NVML_GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME, 64, 2, 1, 94, 47.38, 2, {4, 4, 4, 1}, halves, 6},
        {"2g.48gb-me", NVML_GPU_INSTANCE_PROFILE_2_SLICE_NO_ME, 66, 2, 2, 94, 47.38, 2, {0, 0, 0, 0}, halves, 6},
        {"4g.96gb", NVML_GPU_INSTANCE_PROFILE_4_SLICE, 0, 4, 1, 188, 95.0, 4, {4, 4, 4, 1}, {0}, 12},
        {"4g.96gb+gfx", NVML_GPU_INSTANCE_PROFILE_4_SLICE_GFX, 32, 4, 1, 188, 95.0, 4, {4, 4, 4, 1}, {0}, 12}}});
  return list;
}

}  // namespace

const ProfileRow* Board::with_id(unsigned id) const {
  const auto found = std::ranges::find(profiles, id, &ProfileRow::id);
  return found == profiles.end() ? nullptr : &*found;
}

const ProfileRow* Board::with_number(unsigned number) const {
  const auto found = std::ranges::find(profiles, number, &ProfileRow::number);
  return found == profiles.end() ? nullptr : &*found;
}

const ProfileRow& Board::whole() const { return *with_id(0); }

const std::vector<Board>& boards() {
  static const std::vector<Board> list = make_boards();
  return list;
}

const Board* find_board(const std::string& type) {
  const auto found = std::ranges::find(boards(), type, &Board::type);
  return found == boards().end() ? nullptr : &*found;
}

}  // namespace fake_nvml
