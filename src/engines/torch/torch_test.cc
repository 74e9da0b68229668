#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/rng.h"
#include "engines/torch_library.h"

namespace tangram::engines {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string bytes_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Tensors of one batch and the room that they take.
struct Tensors {
  Tensors(const Signature& signature, const BatchJob& job) {
    const auto add = [&](const TensorSpec& spec, std::vector<std::span<std::byte>>& to) {
      room.emplace_back(static_cast<std::size_t>(*bytes_of(spec, job.size) * job.samples));
      to.emplace_back(room.back());
    };
    room.reserve(signature.inputs.size() + signature.outputs.size());
    for (const auto& spec : signature.inputs) add(spec, memory.inputs);
    for (const auto& spec : signature.outputs) add(spec, memory.outputs);
  }
  std::vector<std::vector<std::byte>> room;
  BatchMemory memory;
};

// A folder with every model that a test asks for, made once.
class Torch : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::temp_directory_path() / ("tangram-torch-test-" + std::to_string(getpid()));
    fs::create_directory(folder_);
    for (const char* name : {"text-encoder", "image-classifier"}) {
      const auto written =
          (*load_torch_library())->write_model(*find_example_model(name), 1, folder_ / (std::string(name) + ".pt"));
      ASSERT_TRUE(written) << written.error().message;
    }
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  static ModelSpec spec_of(std::string_view name) {
    return {.service = ServiceId(0),
            .name = "service",
            .network = std::string(name),
            .path = folder_ / name,
            .signature = signature_of(*find_example_model(name)),
            .shapes = {{.batch = 2, .size = 8}}};
  }
  static std::unique_ptr<BatchEngine> loaded(const ModelSpec& spec) {
    auto engine = *make_batch_engine("torch", {});
    const auto done = engine->load(std::span(&spec, 1));
    EXPECT_TRUE(done) << done.error().message;
    return engine;
  }
  static std::string load_error(const ModelSpec& spec) {
    const auto engine = *make_batch_engine("torch", {});
    const auto done = engine->load(std::span(&spec, 1));
    return done ? "" : done.error().message;
  }

  static fs::path folder_;
};
fs::path Torch::folder_;

// One text in place `row` of a batch whose other rows and padding hold whatever `rng` draws.
std::vector<float> encode(BatchEngine& engine, const Signature& signature, const std::vector<std::int64_t>& text,
                          BatchJob job, std::int32_t row, Rng rng) {
  Tensors tensors(signature, job);
  auto* ids = reinterpret_cast<std::int64_t*>(tensors.room[0].data());
  auto* mask = reinterpret_cast<std::int64_t*>(tensors.room[1].data());
  for (std::int64_t i = 0; i < job.samples * job.size; ++i) {
    ids[i] = rng.integer(0, 8191);
    mask[i] = 1;
  }
  for (std::int64_t i = 0; i < job.size; ++i) {
    const bool real = i < static_cast<std::int64_t>(text.size());
    if (real) ids[row * job.size + i] = text[static_cast<std::size_t>(i)];
    mask[row * job.size + i] = real ? 1 : 0;
  }
  const auto ran = engine.run(job, tensors.memory);
  EXPECT_TRUE(ran) << ran.error().message;
  const auto* answers = reinterpret_cast<const float*>(tensors.room[2].data());
  return {answers + row * 192, answers + (row + 1) * 192};
}

std::vector<std::int64_t> some_text(std::int64_t length, Rng rng) {
  std::vector<std::int64_t> text;
  for (std::int64_t i = 0; i < length; ++i) text.push_back(rng.integer(1, 8191));
  return text;
}

// 30,522 words and 512 places of 256 are 7,944,704; each of the 4 layers has 12 * 256^2 + 13 * 256 = 789,760; 512 at
// the end.
TEST(ExampleModels, LargeEncoderHasMoreThanTenMillionParameters) {
  EXPECT_EQ(parameters_of(*find_example_model("text-encoder-large")), 7'944'704 + 4 * 789'760 + 512);
}

TEST_F(Torch, MakesTheSameBytesOfASeed) {
  const auto* library = *load_torch_library();
  const auto write = [&](std::uint64_t seed) {
    const fs::path path = folder_ / "again.pt";
    EXPECT_TRUE(library->write_model(*find_example_model("image-classifier"), seed, path));
    return bytes_of_file(path);
  };
  const std::string first = write(7);
  EXPECT_GT(first.size(), 4 * 50'000u);
  EXPECT_TRUE(first == write(7));
  EXPECT_FALSE(first == write(8));
}

// Every number of the model is a 32-bit one, and little else is in the file.
TEST_F(Torch, FileHoldsAsManyNumbersAsAreToldOfTheModel) {
  for (const char* name : {"text-encoder", "image-classifier"}) {
    const auto size = static_cast<double>(fs::file_size(folder_ / (std::string(name) + ".pt")));
    const auto numbers = static_cast<double>(4 * parameters_of(*find_example_model(name)));
    EXPECT_GT(size, numbers);
    EXPECT_LT(size, numbers + 64e3);
  }
}

// Images have one size, so nothing is padded, and each is convolved by itself: whoever shares the batch changes no bit.
TEST_F(Torch, ImageGetsTheBytesThatItWouldGetAlone) {
  const ModelSpec spec = spec_of("image-classifier");
  const auto engine = loaded(spec);
  Rng rng(1);
  for (const std::int32_t batch : {2, 3, 8, 17}) {
    Tensors together(spec.signature, {.samples = batch});
    for (auto& byte : together.room[0]) byte = static_cast<std::byte>(rng.below(256));
    ASSERT_TRUE(engine->run({.service = ServiceId(0), .samples = batch}, together.memory));
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch); ++i) {
      Tensors alone(spec.signature, {});
      std::memcpy(alone.room[0].data(), together.room[0].data() + i * alone.room[0].size(), alone.room[0].size());
      ASSERT_TRUE(engine->run({.service = ServiceId(0)}, alone.memory));
      EXPECT_EQ(
          std::memcmp(alone.room[1].data(), together.room[1].data() + i * alone.room[1].size(), alone.room[1].size()),
          0)
          << "image " << i << " of " << batch;
    }
  }
}

// In a batch of one shape, an answer depends on its own tokens alone: padding has weight zero, and rows do not meet.
TEST_F(Torch, TextGetsTheSameBytesWhateverStandsInThePaddingAndInOtherRows) {
  const ModelSpec spec = spec_of("text-encoder");
  const auto engine = loaded(spec);
  for (const std::int64_t length : {1, 5, 16, 31}) {
    const auto text = some_text(length, Rng(3));
    const BatchJob job{.service = ServiceId(0), .samples = 4, .size = 32};
    const auto answer = encode(*engine, spec.signature, text, job, 2, Rng(10));
    EXPECT_EQ(answer, encode(*engine, spec.signature, text, job, 2, Rng(11))) << length;
    EXPECT_NE(answer, encode(*engine, spec.signature, some_text(length, Rng(4)), job, 2, Rng(10))) << length;
  }
}

// Alone and unpadded the matrices have another shape, and a BLAS adds up the products of another shape in another
// order: numbers of about 1 differ in their last two of 24 bits. 1e-5 is 80 such steps; another text differs by 0.1 and
// more.
TEST_F(Torch, TextPaddedAndBatchedDiffersFromAloneByRoundingOnly) {
  const ModelSpec spec = spec_of("text-encoder");
  const auto engine = loaded(spec);
  for (const std::int64_t length : {1, 3, 12, 17, 64}) {
    const auto text = some_text(length, Rng(5));
    const auto alone = encode(*engine, spec.signature, text, {.service = ServiceId(0), .size = length}, 0, Rng(1));
    for (const std::int32_t batch : {1, 4, 8}) {
      const BatchJob job{.service = ServiceId(0), .samples = batch, .size = 80};
      const auto padded = encode(*engine, spec.signature, text, job, batch - 1, Rng(2));
      double largest = 0;
      for (std::size_t i = 0; i < alone.size(); ++i)
        largest = std::max(largest, double{std::abs(alone[i] - padded[i])});
      EXPECT_LT(largest, 1e-5) << length << " in a batch of " << batch;
    }
  }
}

// 256 texts of 512 tokens need 256 * 6 * 512 * 512 numbers for the weights of one layer's attention: 1.5 GiB.
TEST_F(Torch, SaysWhenMemoryDoesNotSufficeAndRunsSmallerBatchesThen) {
  const ModelSpec spec = spec_of("text-encoder");
  const auto engine = loaded(spec);
  const BatchJob large{.service = ServiceId(0), .samples = 256, .size = 512};
  Tensors tensors(spec.signature, large);
  Tensors small(spec.signature, {.size = 8});
  // OpenBLAS reserves its memory for good at the first product of large matrices, and insists on it.
  const BatchJob first{.service = ServiceId(0), .samples = 8, .size = 128};
  Tensors some(spec.signature, first);
  ASSERT_TRUE(engine->run(first, some.memory));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit tight = before;
  tight.rlim_cur = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + (std::size_t{256} << 20);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const auto ran = engine->run(large, tensors.memory);
  const auto after = engine->run({.service = ServiceId(0), .size = 8}, small.memory);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, ErrorCode::exhausted) << ran.error().message;
  EXPECT_THAT(ran.error().message, HasSubstr("service: out of memory"));
  EXPECT_TRUE(after) << after.error().message;
}

TEST_F(Torch, SaysWhatIsWrongWithAModel) {
  ModelSpec spec = spec_of("text-encoder");
  spec.path = folder_ / "nothing";
  EXPECT_THAT(load_error(spec), HasSubstr("nothing.pt"));
  spec = spec_of("text-encoder");
  spec.signature.inputs.pop_back();
  EXPECT_THAT(load_error(spec), HasSubstr("takes 2 inputs, but the services file declares 1"));
  spec = spec_of("text-encoder");
  spec.signature.outputs[0].datatype = Datatype::uint64;
  EXPECT_THAT(load_error(spec), HasSubstr("libtorch has no datatype UINT64"));
  spec.path.clear();
  EXPECT_THAT(load_error(spec), HasSubstr("needs the weights of text-encoder"));
}

// A word that the vocabulary of 8,192 does not have. What is told is the error, not the way there.
TEST_F(Torch, SaysInALineWhyABatchCannotBeRun) {
  const ModelSpec spec = spec_of("text-encoder");
  const auto engine = loaded(spec);
  const BatchJob job{.service = ServiceId(0), .samples = 1, .size = 8};
  Tensors tensors(spec.signature, job);
  reinterpret_cast<std::int64_t*>(tensors.room[0].data())[0] = 8192;
  const auto ran = engine->run(job, tensors.memory);
  ASSERT_FALSE(ran);
  EXPECT_THAT(ran.error().message, HasSubstr("service: index out of range"));
  EXPECT_EQ(ran.error().message.find('\n'), std::string::npos) << ran.error().message;
  EXPECT_LT(ran.error().message.size(), 200u);
}

TEST_F(Torch, SaysWhenTheAnswerHasAnotherShape) {
  ModelSpec spec = spec_of("text-encoder");
  spec.signature.outputs[0].shape = {64};
  const auto warm = loaded(spec)->warm_up();
  ASSERT_FALSE(warm);
  EXPECT_THAT(warm.error().message, HasSubstr("expected FP32 [1, 64], the model returned Float [1, 192]"));
}

// The file is removed after the first load: the second service of the same weights can only share the copy. It is freed
// with the last of them.
TEST_F(Torch, LoadsOneCopyForServicesWithTheSameWeights) {
  const fs::path file = folder_ / "shared.pt";
  fs::copy_file(folder_ / "image-classifier.pt", file);
  ModelSpec first = spec_of("image-classifier");
  first.path = folder_ / "shared";
  ModelSpec second = first;
  second.service = ServiceId(1);
  const auto engine = *make_batch_engine("torch", {});
  ASSERT_TRUE(engine->load({}));
  const auto bytes = engine->load_one(first);
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(*bytes, 4U * static_cast<std::uint64_t>(parameters_of(*find_example_model("image-classifier"))));
  fs::remove(file);
  ASSERT_TRUE(engine->load_one(second));
  engine->unload(first.service);
  ASSERT_TRUE(engine->warm_up(second.service));
  const BatchJob job{.service = first.service, .samples = 1, .size = 8};
  Tensors tensors(first.signature, job);
  EXPECT_FALSE(engine->run(job, tensors.memory)) << "it was unloaded";
  engine->unload(second.service);
  EXPECT_FALSE(engine->load_one(second)) << "neither copy nor file is there";
}

}  // namespace
}  // namespace tangram::engines
