// Reads the few messages of an ONNX file that describe its inputs and outputs, and steps over its weights.
#include "engines/onnx/onnx_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "engines/onnx/ort_api.h"
#include "engines/onnx/protobuf.h"

namespace tangram::engines {
namespace {

namespace fs = std::filesystem;

// The fields that are read; the numbers are those of onnx.proto, version 1.
namespace field {
constexpr int kModelGraph = 7;
constexpr int kGraphConstant = 5;
constexpr int kGraphInput = 11;
constexpr int kGraphOutput = 12;
constexpr int kTensorName = 8;
constexpr int kTensorExternal = 13;
constexpr int kEntryKey = 1;
constexpr int kEntryValue = 2;
constexpr int kInfoName = 1;
constexpr int kInfoType = 2;
constexpr int kTypeTensor = 1;
constexpr int kTensorElement = 1;
constexpr int kTensorShape = 2;
constexpr int kShapeAxis = 1;
constexpr int kAxisLength = 1;
constexpr int kAxisName = 2;
}  // namespace field

// Calls `each` with every field. False if the text is no message.
template <typename Each>
bool walk(std::string_view text, Each&& each) {
  ProtoReader reader(text);
  while (const auto found = reader.next()) each(*found);
  return !reader.damaged();
}

// A constant: its name, and the file that holds its numbers if they are not in this one.
struct Constant {
  std::string_view name;
  std::string file;
};

bool read_constant(std::string_view text, Constant& constant) {
  bool good = true;
  good &= walk(text, [&](const ProtoField& f) {
    if (f.number == field::kTensorName) constant.name = f.bytes;
    if (f.number != field::kTensorExternal) return;
    std::string_view key;
    std::string_view value;
    good &= walk(f.bytes, [&](const ProtoField& entry) {
      if (entry.number == field::kEntryKey) key = entry.bytes;
      if (entry.number == field::kEntryValue) value = entry.bytes;
    });
    if (key == "location") constant.file = std::string(value);
  });
  return good;
}

bool read_axis(std::string_view text, OnnxTensor::Axis& axis) {
  return walk(text, [&](const ProtoField& f) {
    if (f.number == field::kAxisLength && !f.has_bytes)
      axis.length = std::max<std::int64_t>(-1, static_cast<std::int64_t>(f.value));
    if (f.number == field::kAxisName && f.has_bytes) axis.name = std::string(f.bytes);
  });
}

bool read_tensor_type(std::string_view text, OnnxTensor& tensor) {
  bool good = true;
  good &= walk(text, [&](const ProtoField& f) {
    if (f.number == field::kTensorElement && f.value <= 64) tensor.element_type = static_cast<int>(f.value);
    if (f.number != field::kTensorShape) return;
    tensor.has_shape = true;
    good &= walk(f.bytes, [&](const ProtoField& axis) {
      if (axis.number == field::kShapeAxis) good &= read_axis(axis.bytes, tensor.axes.emplace_back());
    });
  });
  return good;
}

bool read_info(std::string_view text, OnnxTensor& tensor) {
  bool good = true;
  good &= walk(text, [&](const ProtoField& f) {
    if (f.number == field::kInfoName) tensor.name = std::string(f.bytes);
    if (f.number != field::kInfoType) return;
    good &= walk(f.bytes, [&](const ProtoField& kind) {
      if (kind.number == field::kTypeTensor) good &= read_tensor_type(kind.bytes, tensor);
    });
  });
  return good;
}

bool read_graph(std::string_view text, OnnxFile& file) {
  bool good = true;
  std::set<std::string_view> constants;
  std::set<std::string> external;
  good &= walk(text, [&](const ProtoField& f) {
    if (f.number == field::kGraphInput) good &= read_info(f.bytes, file.inputs.emplace_back());
    if (f.number == field::kGraphOutput) good &= read_info(f.bytes, file.outputs.emplace_back());
    if (f.number != field::kGraphConstant) return;
    Constant constant;
    good &= read_constant(f.bytes, constant);
    constants.insert(constant.name);
    if (!constant.file.empty()) external.insert(std::move(constant.file));
  });
  // Old files list constants as inputs, too, which a caller may replace and need not give.
  std::erase_if(file.inputs, [&](const OnnxTensor& input) { return constants.contains(input.name); });
  file.external.assign(external.begin(), external.end());
  return good;
}

std::optional<Datatype> datatype_of(int element_type) {
  switch (element_type) {
    case ort::kBool: return Datatype::boolean;
    case ort::kUint8: return Datatype::uint8;
    case ort::kUint16: return Datatype::uint16;
    case ort::kUint32: return Datatype::uint32;
    case ort::kUint64: return Datatype::uint64;
    case ort::kInt8: return Datatype::int8;
    case ort::kInt16: return Datatype::int16;
    case ort::kInt32: return Datatype::int32;
    case ort::kInt64: return Datatype::int64;
    case ort::kFloat16: return Datatype::fp16;
    case ort::kBfloat16: return Datatype::bf16;
    case ort::kFloat: return Datatype::fp32;
    case ort::kDouble: return Datatype::fp64;
    default: return std::nullopt;
  }
}

Result<TensorSpec> spec_of(const OnnxTensor& tensor, const char* kind) {
  const auto datatype = datatype_of(tensor.element_type);
  if (!datatype) {
    return invalid_input(fmt::format("{} {}: {}", kind, tensor.name,
                                     tensor.element_type == ort::kString
                                         ? "text cannot be sent to ONNX models; put the tokenizer in front of the model"
                                     : tensor.element_type == 0
                                         ? "it is no tensor; export the model with tensors alone"
                                         : fmt::format("element type {} cannot be sent", tensor.element_type)));
  }
  if (!tensor.has_shape || tensor.axes.empty()) {
    return invalid_input(
        fmt::format("{} {}: it has no axes in the file; export the model with a dynamic first axis for the batch", kind,
                    tensor.name));
  }
  if (tensor.axes[0].length > 0) {
    return invalid_input(fmt::format(
        "{} {}: its first axis is fixed at {}, so the model cannot take batches; export it with a dynamic first axis",
        kind, tensor.name, tensor.axes[0].length));
  }
  TensorSpec spec{.name = tensor.name, .datatype = *datatype, .shape = {}};
  for (std::size_t i = 1; i < tensor.axes.size(); ++i) {
    spec.shape.push_back(tensor.axes[i].length > 0 ? tensor.axes[i].length : kVariableAxis);
  }
  if (std::ranges::count(spec.shape, kVariableAxis) > 1) {
    return invalid_input(fmt::format(
        "{} {}: several of its axes vary beside the batch, and an input has one size; export the model with fixed axes "
        "but for one",
        kind, tensor.name));
  }
  return spec;
}

// A file that is mapped, not read: weights are many times larger than what is looked at.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat about{};
    if (descriptor < 0 || fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode)) {
      const std::string reason = descriptor < 0 ? std::strerror(errno) : "not a file";
      if (descriptor >= 0) ::close(descriptor);
      return Error{ErrorCode::not_found, fmt::format("{}: {}", path, reason)};
    }
    MappedFile file;
    file.size_ = static_cast<std::size_t>(about.st_size);
    if (file.size_ > 0) {
      void* data = mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
      file.data_ = data == MAP_FAILED ? nullptr : data;
    }
    ::close(descriptor);
    if (file.data_ == nullptr && file.size_ > 0) {
      return Error{ErrorCode::exhausted, fmt::format("{}: cannot be mapped", path)};
    }
    return file;
  }
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (data_ != nullptr) munmap(data_, size_);
  }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }

 private:
  MappedFile() = default;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace

Result<OnnxFile> parse_onnx(std::string_view text) {
  OnnxFile file;
  bool graph = false;
  bool good = true;
  good &= walk(text, [&](const ProtoField& f) {
    if (f.number != field::kModelGraph || !f.has_bytes) return;
    graph = true;
    good &= read_graph(f.bytes, file);
  });
  if (!good || !graph || file.outputs.empty()) return invalid_input("not an ONNX model");
  return file;
}

Result<OnnxFile> read_onnx(const std::string& path) {
  TANGRAM_TRY(const auto mapped, MappedFile::open(path));
  auto file = parse_onnx(mapped.text());
  if (!file) return Error{file.error().code, fmt::format("{}: {}", path, file.error().message)};
  return file;
}

std::uint64_t onnx_bytes(const std::string& path) {
  std::error_code error;
  std::uint64_t bytes = fs::file_size(path, error);
  if (error) return 0;
  const auto file = read_onnx(path);
  if (!file) return 0;
  for (const auto& name : file->external) {
    const auto more = fs::file_size(fs::path(path).parent_path() / name, error);
    if (error) return 0;
    bytes += more;
  }
  return bytes;
}

Result<Signature> signature_of(const OnnxFile& file) {
  Signature signature;
  for (const auto& input : file.inputs) {
    TANGRAM_TRY(auto spec, spec_of(input, "input"));
    spec.mask = spec.name == "attention_mask";
    signature.inputs.push_back(std::move(spec));
  }
  for (const auto& output : file.outputs) {
    TANGRAM_TRY(auto spec, spec_of(output, "output"));
    signature.outputs.push_back(std::move(spec));
  }
  return signature;
}

std::vector<std::string> variable_axes(const OnnxFile& file) {
  std::vector<std::string> names;
  for (const auto* tensors : {&file.inputs, &file.outputs}) {
    for (const auto& tensor : *tensors) {
      for (std::size_t i = 1; i < tensor.axes.size(); ++i) {
        const auto& axis = tensor.axes[i];
        if (axis.length > 0) continue;
        const std::string name = axis.name.empty() ? fmt::format("{}[{}]", tensor.name, i) : axis.name;
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    }
  }
  return names;
}

}  // namespace tangram::engines
