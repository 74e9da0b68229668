// Answers as HTTP/1.1 writes them.
#pragma once

#include <string>
#include <string_view>

#include "base/time.h"
#include "host/content_coding.h"
#include "serve/gateway.h"
#include "serve/infer_json.h"

namespace tangram::serve {

// The properties of an answer that depend on its request alone.
struct AnswerForm {
  bool keep_alive = true;  // False: the connection is closed after it, and the answer says so.
  bool http_1_1 = true;
  bool head_only = false;                                        // The method was HEAD: the answer has no body.
  host::ContentCoding accepted = host::ContentCoding::identity;  // How the client takes its body.
  std::string_view fields = {};  // Further fields, each with its line end. They outlive the answer.
};

// Writes the answers of one thread. The date is formatted once a second, and most of a good answer's head with it.
class HttpAnswerWriter {
 public:
  explicit HttpAnswerWriter(TimePoint now) { renew_date(now); }

  // Ensures that answers have the right date from now on.
  void keep_date(TimePoint now) {
    if (now >= date_until_) renew_date(now);
  }
  void write(std::string& out, const AnswerForm& form, const Reply& reply) const {
    write(out, form, reply.status, reply.type, reply.headers, reply.body);
  }
  // The most memory that the answer of this call takes while it is written, and afterwards.
  static std::size_t room_for(const AnswerForm& form, const Call& call);
  // The answer to an inference request: its tensors, or the error.
  void write(std::string& out, const AnswerForm& form, const Call& call);
  // `extra` has further fields, each with its line end.
  void write(std::string& out, const AnswerForm& form, int status, std::string_view type, std::string_view extra,
             std::string_view body) const;

 private:
  // Formats the date, and sets date_until_ to the end of the second.
  void renew_date(TimePoint now);
  // The body as the client takes it: packed into `packed` where that makes it shorter.
  static std::string_view coded(const AnswerForm& form, std::string_view body, std::string& packed);
  // Status line and fields, up to the length and the line end behind it.
  void append_head(std::string& out, const AnswerForm& form, int status, std::string_view type,
                   std::size_t length) const;

  TimePoint date_until_;
  std::string date_;  // The end of a status line, the field Date, and the name of the next field.
  std::string good_;  // What a good answer with binary tensors begins with, up to its length.
  InferBody scratch_;
};

}  // namespace tangram::serve
