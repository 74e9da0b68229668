// `tangram token`: makes, lists and revokes the tokens with which nodes join a gateway.
//
// The verb works on the folder that the gateway uses (--node-state), so a running gateway sees every change: it reads
// the file at each join, and once a second whether a token was revoked.

#include <fmt/format.h>

#include <chrono>

#include "base/text.h"
#include "cli/program.h"
#include "formats/access_file.h"
#include "node/identity.h"
#include "node/tokens.h"
#include "report/table.h"

namespace tangram::cli {
namespace token_verb {
namespace {

constexpr std::int64_t kTtlMax = 366 * 86'400;

struct Options {
  std::string action;
  std::string id;
  std::string state;
  std::string ttl = "1h";
  std::string note;
};

std::int64_t wall_s() { return std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1); }

// "90s", "30m", "1h", "7d" in seconds.
Result<std::int64_t> parse_ttl(const std::string& text) {
  const auto unit = text.empty() ? std::string::npos : std::string_view("smhd").find(text.back());
  const auto number = text::parse_integer(std::string_view(text).substr(0, text.empty() ? 0 : text.size() - 1));
  constexpr std::int64_t kSeconds[] = {1, 60, 3'600, 86'400};
  if (unit == std::string::npos || !number || *number < 1 || *number > kTtlMax / kSeconds[unit]) {
    return Error{ErrorCode::invalid, fmt::format("--ttl {}: expected a time of at most a year, such as 30m, 1h or 7d", text)};
  }
  return *number * kSeconds[unit];
}

Result<ExitCode> create(Session& session, const Options& options) {
  TANGRAM_TRY(const auto ttl, parse_ttl(options.ttl));
  constexpr std::size_t kNoteMax = 200;
  if (options.note.size() > kNoteMax || options.note.find('\n') != std::string::npos) {
    return session.fail({ErrorCode::invalid, fmt::format("--note: expected one line of at most {} bytes", kNoteMax)});
  }
  const std::string folder = node::nodes_folder(options.state);
  TANGRAM_RETURN_IF_ERROR(node::make_private_folder(folder));
  // Of the gateway; whoever comes first, it or this verb, makes it.
  TANGRAM_TRY(const auto identity, node::open_identity(folder + "/gateway.pem", "tangram-gateway"));
  TANGRAM_TRY(const auto made, node::TokenStore(folder).create(identity.fingerprint, wall_s(), ttl, options.note));
  if (session.structured()) {
    session.print_value({{"token", made.text},
                         {"id", made.token.id},
                         {"expires", formats::write_instant(made.token.expires_s)},
                         {"gateway", identity.fingerprint}});
    return ExitCode::done;
  }
  session.print(made.text + "\n");
  session.note(fmt::format("This is the join token {}, good until {}. It is shown only once. On each machine:\n\n"
                           "  tangram node --join GATEWAY:PORT --token-file FILE\n",
                           made.token.id, formats::write_instant(made.token.expires_s)));
  return ExitCode::done;
}

Result<ExitCode> list(Session& session, const Options& options) {
  TANGRAM_TRY(const auto file, node::TokenStore(node::nodes_folder(options.state)).list());
  const std::int64_t now = wall_s();
  const auto state_of = [&](const node::Token& token) {
    return token.revoked ? "revoked" : token.expires_s <= now ? "expired" : "valid";
  };
  const auto nodes_of = [&](const node::Token& token) {
    std::vector<std::string> names;
    for (const auto& node : file.nodes) {
      if (node.token == token.id) names.push_back(node.name);
    }
    return names;
  };
  if (session.structured()) {
    auto tokens = report::Json::array();
    for (const auto& token : file.tokens) {
      tokens.push_back({{"id", token.id},
                        {"state", state_of(token)},
                        {"created", formats::write_instant(token.created_s)},
                        {"expires", formats::write_instant(token.expires_s)},
                        {"note", token.note},
                        {"nodes", nodes_of(token)}});
    }
    session.print_value({{"tokens", tokens}});
    return ExitCode::done;
  }
  if (file.tokens.empty()) {
    session.print("no join tokens; `tangram token create` makes one\n");
    return ExitCode::done;
  }
  report::Table table({{.title = "TOKEN"}, {.title = "STATE"}, {.title = "EXPIRES"}, {.title = "NODES"}, {.title = "NOTE"}});
  for (const auto& token : file.tokens) {
    std::string nodes;
    for (const auto& name : nodes_of(token)) nodes += (nodes.empty() ? "" : " ") + name;
    table.add({token.id, state_of(token), formats::write_instant(token.expires_s), nodes, token.note});
  }
  session.print(table.render(session.terminal));
  return ExitCode::done;
}

Result<ExitCode> revoke(Session& session, const Options& options) {
  if (options.id.empty()) return session.fail({ErrorCode::invalid, "expected the token: tangram token revoke ID"});
  TANGRAM_TRY(const bool found, node::TokenStore(node::nodes_folder(options.state)).revoke(options.id));
  if (!found) {
    return session.fail({ErrorCode::not_found,
                         fmt::format("there is no join token {}; `tangram token list` shows all", options.id)});
  }
  if (session.structured()) {
    session.print_value({{"revoked", options.id}});
  } else {
    session.print(fmt::format("revoked {}; its nodes are disconnected within two seconds\n", options.id));
  }
  return ExitCode::done;
}

}  // namespace
}  // namespace token_verb

void add_token(Program& program) {
  using namespace token_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "token",
       .group = "Serve",
       .summary = "make, list and revoke the tokens with which nodes join",
       .description =
           "`create` makes a join token and prints it once; it also says which gateway it is for, so that a node gives "
           "it to no other. The gateway keeps a digest. A node that has joined is known by its certificate and may "
           "join again after its token has expired. `revoke ID` ends that for every node that came in with the token. "
           "Run it on the gateway's machine, with the folder that `tangram serve --node-state` has.",
       .examples = {{"tangram token create --ttl 1h > token", "Make a token for the next hour."},
                    {"tangram token list", "Show the tokens and the nodes that came in with each."},
                    {"tangram token revoke n0a1b2c3d", "Let its nodes in no more."}}},
      [options](Session& session) -> Result<ExitCode> {
        if (options->action == "create") return create(session, *options);
        return options->action == "list" ? list(session, *options) : revoke(session, *options);
      });
  program.one_of(verb.add_option("ACTION", options->action, "create, list or revoke.")->required(),
                 {"create", "list", "revoke"});
  verb.add_option("ID", options->id, "The token to revoke.");
  verb.add_option("--ttl", options->ttl, "How long the token lets nodes in: 30m, 1h, 7d.")->type_name("TIME");
  verb.add_option("--note", options->note, "What the token is for, shown by `list`.")->type_name("TEXT");
  program.offers_files(
      verb.add_option("--state", options->state,
                      "The folder of the gateway's identity, tokens and nodes; default: `nodes` in $TANGRAM_STATE, "
                      "/var/lib/tangram or ~/.local/state/tangram.")
          ->type_name("DIR"));
}

}  // namespace tangram::cli
