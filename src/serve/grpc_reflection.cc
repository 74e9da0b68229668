// The reflection service: which services there are, and the descriptions of their files, as Protobuf's own pool of
// compiled files has them. Everything here is the same for every caller and known to everybody who has the source.

#ifdef TANGRAM_WITH_GRPC

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <array>
#include <set>
#include <string>

#include "health.pb.h"
#include "inference.pb.h"
#include "reflection.pb.h"
#include "reflection_v1alpha.pb.h"
#include "serve/grpc_methods.h"

namespace tangram::serve {
namespace {

namespace reflection = grpc::reflection::v1;
using google::protobuf::FileDescriptor;

// The first message of each file: a reference to it makes the linker keep the file and Protobuf know it.
const std::array<const FileDescriptor*, 4>& served_files() {
  static const std::array<const FileDescriptor*, 4> kFiles{
      inference::ModelInferRequest::descriptor()->file(), grpc::health::v1::HealthCheckRequest::descriptor()->file(),
      reflection::ServerReflectionRequest::descriptor()->file(),
      grpc::reflection::v1alpha::ServerReflectionRequest::descriptor()->file()};
  return kFiles;
}

void refuse_reflection(reflection::ServerReflectionResponse& response, GrpcCode code, const std::string& why) {
  response.mutable_error_response()->set_error_code(static_cast<int>(code));
  response.mutable_error_response()->set_error_message(why);
}

// The file, which has everything that it imports in itself.
void describe_file(const FileDescriptor* file, const std::string& asked,
                   reflection::ServerReflectionResponse& response) {
  if (file == nullptr) return refuse_reflection(response, GrpcCode::not_found, "'" + asked + "' is not found");
  google::protobuf::FileDescriptorProto description;
  file->CopyTo(&description);
  *response.mutable_file_descriptor_response()->add_file_descriptor_proto() = description.SerializeAsString();
}

// The served file that declares the symbol: a service, a method, a message, a field or an enumeration. Only these files
// are searched, not the whole pool, which also has what other parts of the program were built with.
const FileDescriptor* file_of_symbol(const std::string& symbol) {
  const FileDescriptor* found = google::protobuf::DescriptorPool::generated_pool()->FindFileContainingSymbol(symbol);
  for (const FileDescriptor* file : served_files()) {
    if (file == found) return file;
  }
  return nullptr;
}

const FileDescriptor* file_of_name(const std::string& name) {
  for (const FileDescriptor* file : served_files()) {
    if (file->name() == name) return file;
  }
  return nullptr;
}

}  // namespace

std::optional<std::string> answer_reflection(std::string_view question) {
  reflection::ServerReflectionRequest request;
  if (!request.ParseFromArray(question.data(), static_cast<int>(question.size()))) return std::nullopt;
  reflection::ServerReflectionResponse response;
  response.set_valid_host(request.host());
  using Asked = reflection::ServerReflectionRequest;
  switch (request.message_request_case()) {
    case Asked::kFileByFilename:
      describe_file(file_of_name(request.file_by_filename()), request.file_by_filename(), response);
      break;
    case Asked::kFileContainingSymbol:
      describe_file(file_of_symbol(request.file_containing_symbol()), request.file_containing_symbol(), response);
      break;
    case Asked::kListServices:
      for (const FileDescriptor* file : served_files()) {
        for (int i = 0; i < file->service_count(); ++i) {
          response.mutable_list_services_response()->add_service()->set_name(file->service(i)->full_name());
        }
      }
      break;
    // proto3 has no extensions.
    case Asked::kFileContainingExtension:
    case Asked::kAllExtensionNumbersOfType:
      refuse_reflection(response, GrpcCode::not_found, "there are no extensions");
      break;
    default: refuse_reflection(response, GrpcCode::invalid_argument, "the request asks for nothing"); break;
  }
  *response.mutable_original_request() = std::move(request);
  return response.SerializeAsString();
}

}  // namespace tangram::serve

#endif
