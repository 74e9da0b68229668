// `tangram key`: makes keys for the access file, and checks which tenant a key belongs to.
//
// A key is shown once and stored nowhere. The access file holds a salted digest, so a leaked access file gives no key
// away.

#include <fmt/format.h>

#include <chrono>

#include "cli/inputs.h"
#include "cli/program.h"
#include "cli/server_options.h"
#include "formats/access_file.h"
#include "serve/access.h"

namespace tangram::cli {
namespace key_verb {
namespace {

struct Options {
  std::string action;
  std::string access;
  std::string tenant = "NAME";
  std::string role = "client";
  std::string expires;
  std::string token_file;
};

// Expiry is a date in UTC, hence the wall clock.
std::int64_t now_s() { return std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1); }

// The key goes to standard output and the entry for the access file to standard error, so that `tangram key make > key`
// leaves a file with only the key.
ExitCode make(Session& session, const Options& options) {
  serve::NewKey made = serve::make_key();
  if (!options.expires.empty()) {
    made.kept.expires_s = formats::parse_instant(options.expires);
    // A day in the past is most often a wrong year; the key would be rejected from the start.
    if (!made.kept.expires_s || *made.kept.expires_s <= now_s()) {
      return session.fail(
          {ErrorCode::invalid,
           fmt::format("--expires {}: expected a date in the future, such as 2027-01-31 or 2027-01-31T12:30:00Z",
                       options.expires)});
    }
  }
  if (session.structured()) {
    report::Json value{{"key", made.text}, {"id", made.kept.id}, {"hash", formats::write_key_hash(made.kept)}};
    if (made.kept.expires_s) value["expires"] = formats::write_instant(*made.kept.expires_s);
    session.print_value(value);
    return ExitCode::done;
  }
  // The entry is written by the writer of the access file, so it can be pasted as it is.
  formats::AccessTenant tenant;
  tenant.name = options.tenant;
  tenant.role = options.role == "admin"    ? formats::AccessRole::admin
                : options.role == "viewer" ? formats::AccessRole::viewer
                                           : formats::AccessRole::client;
  tenant.keys.push_back(made.kept);
  session.print(made.text + "\n");
  session.note("This is the key. It is shown only once: give it to the client. Add this entry to the access file:\n\n" +
               formats::write_access({{tenant}}));
  return ExitCode::done;
}

// Uses the server's own code to identify the key, so the answer here is the answer there. `answer_is_no` if no tenant
// has the key or it has expired.
Result<ExitCode> check(Session& session, const Options& options) {
  if (options.access.empty()) {
    return session.fail({ErrorCode::invalid, "expected the access file: tangram key check FILE --token-file FILE"});
  }
  TANGRAM_TRY(const auto source, read_source(options.access));
  TANGRAM_TRY(const auto parsed, formats::parse_access(source));
  CallerOptions caller;
  caller.token_file = options.token_file;
  TANGRAM_TRY(const auto key, caller.key());
  if (key.empty()) return session.fail({ErrorCode::invalid, "expected a key: --token-file FILE, or TANGRAM_TOKEN"});
  // The key is passed as an API key; the server treats it like a bearer token.
  serve::Access access;
  access.set(parsed);
  std::string why;
  const auto table = access.table();
  const serve::TenantRule* tenant =
      table->identify({.authorization = {}, .api_key = key, .certificate_names = {}}, now_s(), why);
  if (session.structured()) {
    session.print_value(tenant == nullptr ? report::Json{{"tenant", nullptr}, {"reason", why}}
                                          : report::Json{{"tenant", tenant->said.name}});
  } else {
    session.print(tenant == nullptr ? why + "\n" : fmt::format("the key belongs to tenant {}\n", tenant->said.name));
  }
  return tenant == nullptr ? ExitCode::answer_is_no : ExitCode::done;
}

}  // namespace
}  // namespace key_verb

void add_key(Program& program) {
  using namespace key_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "key",
       .group = "Serve",
       .summary = "make and check the keys of clients",
       .description =
           "`make` creates a key of 256 random bits and prints it once. On standard error it prints the entry for "
           "the file of `tangram serve --access`; the entry holds a salted digest of the key, never the key. `check "
           "FILE` prints the tenant to which a key belongs. Exit code 1: no tenant, or the key has expired.",
       .examples = {{"tangram key make --tenant search --expires 2030-01-01",
                     "Make a key, and the entry for access.yaml."},
                    {"tangram key check DIR/access.yaml --token-file DIR/key", "Print the tenant of a key."}}},
      [options](Session& session) {
        return options->action == "make" ? make(session, *options) : check(session, *options);
      });
  program.one_of(verb.add_option("ACTION", options->action, "make or check.")->required(), {"make", "check"});
  program.offers_files(verb.add_option("FILE", options->access, "The access file to search."));
  verb.add_option("--tenant", options->tenant, "The tenant of the entry.")->type_name("NAME");
  program.one_of(verb.add_option("--role", options->role,
                                 "What the key permits: inference; inference and monitoring; or everything.")
                     ->type_name("R"),
                 {"client", "viewer", "admin"});
  verb.add_option("--expires", options->expires, "When the key expires, in UTC.")->type_name("DATE");
  program.offers_files(
      verb.add_option("--token-file", options->token_file, "The key to check. TANGRAM_TOKEN can hold it instead.")
          ->type_name("FILE"));
}

}  // namespace tangram::cli
