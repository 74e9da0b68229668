#include "doors.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace tangram::doors {
namespace {

struct Room {
  std::string_view name;
  bool quiet;
  std::string_view sees;  // The rooms directly to the left; what those see is seen too.
};

// base <- core <- {formats, learn, plan, train} <- sched <- control <- sim <- lab <- report <- experiments <- cli, and
// control <- serve <- cli. Loud rooms may see host. The tool that runs the whole, cli, may use every room.
constexpr std::array kRooms{
    Room{"base", true, ""},
    Room{"host", false, "base"},
    Room{"core", true, "base"},
    Room{"learn", true, "core"},
    Room{"plan", true, "core"},
    Room{"train", true, "core"},
    Room{"formats", true, "core"},
    Room{"sched", true, "formats learn plan train"},
    Room{"control", true, "sched"},
    Room{"sim", true, "control"},
    Room{"lab", true, "sim"},
    Room{"report", true, "lab"},
    Room{"experiments", true, "report"},
    Room{"client", false, "core formats host"},
    Room{"engines", false, "core client"},  // The remote engine is a client of another server.
    Room{"adapters", false, "core client host"},  // Kubernetes' API server is asked over HTTP.
    Room{"recut", false, "formats plan adapters host"},
    Room{"worker", false, "engines adapters host"},  // Adapters: a worker confines itself to the cores of its slice.
    Room{"measure", false, "engines adapters learn worker"},
    Room{"node", false, "worker client engines adapters recut host"},
    // Node: the gateway speaks its protocol, as it speaks the worker's.
    Room{"serve", false, "control engines adapters client worker node recut host"},
    Room{"cli", false, "experiments serve measure"},
};

// Headers that bring a clock, a thread, a lock, a file, a socket, a log or the environment.
constexpr std::string_view kLoudHeaders =
    "thread mutex shared_mutex condition_variable future atomic stop_token semaphore latch barrier "
    "fstream iostream ostream istream syncstream filesystem cstdio stdio.h ctime time.h csignal signal.h "
    "unistd.h fcntl.h pthread.h sched.h dlfcn.h dirent.h poll.h netdb.h syslog.h random locale execution "
    "sys/ netinet/ arpa/ linux/ spdlog/ glog/ boost/ asio uv.h curl/ grpc fmt/os.h fmt/ostream.h ";

// Words that do the same without a header of their own. A word that ends in `(` is a call.
constexpr std::string_view kLoudWords =
    "::now( system_clock steady_clock high_resolution_clock utc_clock clock_gettime( gettimeofday( clock( "
    "time( localtime( getenv( secure_getenv( setenv( putenv( environ fopen( freopen( printf( fprintf( "
    "puts( perror( fmt::print( std::cout std::cerr std::clog std::system( thread_local std::rand( srand( "
    "random_device mt19937 mt19937_64 default_random_engine uniform_int_distribution "
    "uniform_real_distribution normal_distribution lognormal_distribution exponential_distribution "
    "poisson_distribution gamma_distribution discrete_distribution bernoulli_distribution ";

// Orders that follow addresses or a hash of the standard library: they differ from run to run or build to build.
constexpr std::string_view kUnstableOrders = "std::hash<std::string std::less<void* std::unordered_multimap ";

const Room* find_room(std::string_view name) {
  const auto* const found = std::ranges::find(kRooms, name, &Room::name);
  return found == kRooms.end() ? nullptr : found;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool is_word_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The same text with comments blanked and, where asked, the insides of literals too. Line ends stay, so that line
// numbers stay.
std::string blank(std::string_view text, bool literals) {
  std::string result(text);
  std::size_t i = 0;
  const auto wipe = [&](std::size_t from, std::size_t to) {
    for (std::size_t k = from; k < to && k < result.size(); ++k) {
      if (result[k] != '\n') result[k] = ' ';
    }
  };
  while (i < text.size()) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("//")) {
      const auto end = std::min(text.find('\n', i), text.size());
      wipe(i, end);
      i = end;
    } else if (rest.starts_with("/*")) {
      const auto close = text.find("*/", i + 2);
      const auto end = close == std::string_view::npos ? text.size() : close + 2;
      wipe(i, end);
      i = end;
    } else if (rest.starts_with("R\"") && (i == 0 || !is_word_letter(text[i - 1]))) {
      const auto open = std::min(text.find('(', i), text.size());
      const std::string mark = ")" + std::string(text.substr(i + 2, open - i - 2)) + "\"";
      const auto close = text.find(mark, open);
      const auto end = close == std::string_view::npos ? text.size() : close + mark.size();
      if (literals) wipe(open + 1, end - mark.size());
      i = end;
    } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !is_word_letter(text[i - 1])))) {
      // A quote behind a digit separates digits (1'000) and begins nothing.
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != text[i] && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      if (literals) wipe(i + 1, end);
      i = std::min(end + 1, text.size());
    } else {
      ++i;
    }
  }
  return result;
}

// `#include "room/x.h"` and `#include <x>`, with the line they stand on.
struct Include {
  std::string_view path;
  bool quoted;
};

std::optional<Include> parse_include(std::string_view line) {
  const auto skip_blanks = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  skip_blanks();
  if (!line.starts_with('#')) return std::nullopt;
  line.remove_prefix(1);
  skip_blanks();
  if (!line.starts_with("include")) return std::nullopt;
  line.remove_prefix(7);
  skip_blanks();
  if (line.empty() || (line[0] != '"' && line[0] != '<')) return std::nullopt;
  const bool quoted = line[0] == '"';
  const auto end = line.find(quoted ? '"' : '>', 1);
  if (end == std::string_view::npos) return std::nullopt;
  return Include{line.substr(1, end - 1), quoted};
}

bool is_loud(std::string_view header) {
  return std::ranges::any_of(words_of(kLoudHeaders), [&](std::string_view loud) {
    const bool family = loud.ends_with('/') || loud == "asio" || loud == "grpc";
    return family ? header.starts_with(loud) : header == loud;
  });
}

// True if `word` stands in `line` as a whole word: `time(` is not found in `run_time(`, nor `clock(` in `wall.clock(`.
bool has_word(std::string_view line, std::string_view word) {
  for (auto at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const char before = at == 0 ? ' ' : line[at - 1];
    const char after = at + word.size() < line.size() ? line[at + word.size()] : ' ';
    const bool starts = word.starts_with(':') || (!is_word_letter(before) && before != '.' && before != '>');
    const bool ends = !is_word_letter(word.back()) || !is_word_letter(after);
    if (starts && ends) return true;
  }
  return false;
}

struct File {
  std::string_view path;
  std::string_view room;
  bool test;   // Tests and fuzz targets may touch what they need to show a fact, but cross no door either.
  bool voice;  // base/check.cc is the one place of the quiet rooms that may speak: a check that failed.
};

// x_test.cc, x_fuzz.cc, and what only they include: x_test.h, test_x.h.
bool is_test(std::string_view path) {
  const auto slash = path.rfind('/');
  const auto name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return name.ends_with("_test.cc") || name.ends_with("_test.h") || name.ends_with("_fuzz.cc") ||
         name.starts_with("test_");
}

std::optional<File> file_of(std::string_view path) {
  constexpr std::string_view kSource = "src/";
  if (!path.starts_with(kSource)) return std::nullopt;
  const auto inside = path.substr(kSource.size());
  const auto room = inside.substr(0, inside.find('/'));
  return File{path, room, is_test(path), path == "src/base/check.cc"};
}

void check_door(const File& file, std::string_view header, std::vector<std::string>& messages) {
  const auto slash = header.find('/');
  const auto target = header.substr(0, slash);
  if (slash == std::string_view::npos || find_room(target) == nullptr) return;
  if (!may_see(file.room, target)) {
    messages.push_back(std::string(file.room) + " may not see " + std::string(target) + ": it includes \"" +
                       std::string(header) + "\"");
  } else if (target != file.room && header.substr(slash).starts_with("/detail/")) {
    messages.push_back("\"" + std::string(header) + "\" is a detail of " + std::string(target) + ", not its face");
  }
}

void check_line(const File& file, std::string_view line, std::string_view bare, std::vector<std::string>& messages) {
  const auto include = parse_include(line);
  if (include && include->quoted) check_door(file, include->path, messages);
  if (include && include->quoted && !file.test && is_test(include->path)) {
    messages.push_back("\"" + std::string(include->path) + "\" is for tests only");
  }
  if (!is_quiet(file.room) || file.test || file.voice) return;
  if (include) {
    if (is_loud(include->path)) {
      messages.push_back("a quiet room may not include <" + std::string(include->path) + ">");
    }
    return;
  }
  for (const auto word : words_of(kLoudWords)) {
    if (has_word(bare, word)) messages.push_back("a quiet room may not use " + std::string(word));
  }
  for (const auto word : words_of(kUnstableOrders)) {
    if (has_word(bare, word)) messages.push_back(std::string(word) + " gives an order that no seed repeats");
  }
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (true) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::vector<std::string_view> rooms() {
  std::vector<std::string_view> names;
  for (const auto& room : kRooms) names.push_back(room.name);
  return names;
}

bool is_quiet(std::string_view name) {
  const Room* room = find_room(name);
  return room != nullptr && room->quiet;
}

bool may_see(std::string_view from, std::string_view to) {
  if (from == to) return true;
  const Room* room = find_room(from);
  if (room == nullptr) return false;
  const auto direct = words_of(room->sees);
  return std::ranges::any_of(direct, [&](std::string_view left) { return may_see(left, to); });
}

std::vector<Finding> check_source(std::string_view path, std::string_view text) {
  const auto file = file_of(path);
  if (!file) return {};
  if (find_room(file->room) == nullptr) return {{std::string(path), "no room of this name is in the table"}};
  const std::string code = blank(text, false);
  const std::string bare = blank(text, true);
  const auto lines = lines_of(code);
  const auto bare_lines = lines_of(bare);
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::vector<std::string> messages;
    check_line(*file, lines[i], bare_lines[i], messages);
    for (auto& message : messages) {
      findings.push_back({std::string(path) + ":" + std::to_string(i + 1), std::move(message)});
    }
  }
  return findings;
}

}  // namespace tangram::doors
