#include "client/run.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands.h"
#include "client/connection.h"
#include "client/human.h"
#include "common/nearest_name.h"
#include "common/status_macros.h"
#include "common/version.h"

namespace ropelab::client {
namespace {

constexpr char kExitCodes[] =
    "Exit codes: 0 done, 1 the experiment failed or was cancelled, 2 usage, 3 server not reached, 4 "
    "refused.\n"
    "`ropelab COMMAND --help` explains a command.";

absl::StatusOr<std::string> FindToken(const Options& options) {
  if (!options.token_file.empty()) {
    std::ifstream file(options.token_file, std::ios::binary);
    std::string text(4096, '\0');
    if (!file || !(file.read(text.data(), static_cast<std::streamsize>(text.size())), file.eof())) {
      return absl::InvalidArgumentError(absl::StrCat("the token file ", options.token_file,
                                                     " cannot be read, or is larger than a token can be"));
    }
    text.resize(static_cast<size_t>(file.gcount()));
    return CleanToken(absl::StrCat("the token file ", options.token_file), text);
  }
  const char* token = std::getenv("ROPELAB_TOKEN");
  if (token == nullptr || *token == '\0') {
    return std::string();
  }
  return CleanToken("ROPELAB_TOKEN", token);
}

// " Is submit meant?" for a command or a flag that neither `app` nor those above it have; else empty.
std::string HintFor(const std::string& word, const CLI::App* app) {
  if (!absl::StartsWith(word, "-")) {
    std::vector<std::string> names;
    for (const CLI::App* command : app->get_subcommands(nullptr)) {
      names.push_back(command->get_name());
    }
    const std::string nearest = NearestName(word, names);
    return nearest.empty() ? "" : absl::StrCat(" Is \"", nearest, "\" meant?");
  }
  std::vector<std::string> flags;
  for (const CLI::App* level = app; level != nullptr; level = level->get_parent()) {
    for (const CLI::Option* option : level->get_options()) {
      flags.insert(flags.end(), option->get_lnames().begin(), option->get_lnames().end());
    }
  }
  const std::string typed = word.substr(0, word.find('='));
  const std::string nearest =
      NearestName(typed.substr(std::min(typed.find_first_not_of('-'), typed.size())), flags);
  return nearest.empty() ? "" : absl::StrCat(" Is --", nearest, " meant?");
}

// What was wrong with the command line, and where the right one is explained.
std::string RenderUsageError(const CLI::App& app, const CLI::ParseError& error,
                             const std::vector<std::string>& arguments) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  std::string command = "ropelab";
  const CLI::App* deepest = &app;
  for (std::vector<CLI::App*> level = given; !level.empty(); level = deepest->get_subcommands()) {
    deepest = level.front();
    absl::StrAppend(&command, " ", deepest->get_name());
  }
  const std::vector<std::string> left = app.remaining(true);
  // A flag that is not known is told before an argument that is missing.
  const bool is_extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) ||
                        std::any_of(left.begin(), left.end(),
                                    [](const std::string& word) { return absl::StartsWith(word, "-"); });
  std::vector<std::string> extras;
  if (is_extra) {  // in the order in which they were typed, which the parser does not keep
    std::copy_if(arguments.begin(), arguments.end(), std::back_inserter(extras),
                 [&](const std::string& word) { return std::count(left.begin(), left.end(), word) > 0; });
  }
  std::string what = error.what();
  if (!extras.empty() && given.empty() && !absl::StartsWith(extras.front(), "-")) {
    const std::string hint = HintFor(extras.front(), deepest);
    what = absl::StrCat("there is no command \"", Printable(extras.front()), "\"",
                        hint.empty() ? "; commands: " : absl::StrCat(".", hint, " Commands: "),
                        absl::StrJoin(Commands(), ", ", [](std::string* out, const Command& c) {
                          absl::StrAppend(out, c.name);
                        }));
  } else if (!extras.empty()) {
    const std::string hint = HintFor(extras.front(), deepest);
    what = absl::StrCat(Printable(absl::StrJoin(extras, " ")), ": not expected here", hint.empty() ? "" : ".",
                        hint);
  }
  return absl::StrCat(command, ": ", what, "\n`", command, " --help` shows what is possible.\n");
}

absl::StatusOr<ExitCode> RunCommand(const Command& command, const Options& options, Console& console) {
  ROPELAB_RETURN_IF_ERROR(CheckAddress(options.server));
  ROPELAB_ASSIGN_OR_RETURN(std::string token, FindToken(options));
  Connection connection(options.server, std::move(token));
  Session session{options, connection, console};
  return command.run(session);
}

}  // namespace

ExitCode Run(const std::vector<std::string>& arguments, Console& console) {
  Options options;
  CLI::App app("ropelab: experiments on the attention heads of RoPE language models", "ropelab");
  app.footer(kExitCodes);
  app.set_version_flag("--version", Build());
  app.fallthrough();             // the options of every command may stand behind it
  app.require_subcommand(0, 1);  // none at all is told below, in words
  auto* server = app.add_option("--server", options.server, "The server's address")
                     ->capture_default_str()
                     ->envname("ROPELAB_SERVER")
                     ->type_name("HOST:PORT");
  app.add_option("--token-file", options.token_file, "File with the token (else ROPELAB_TOKEN holds it)")
      ->type_name("FILE");
  app.add_flag("--json", options.json, "Print data as JSON");
  for (const Command& command : Commands()) {
    CLI::App* subcommand = app.add_subcommand(command.name, command.summary);
    subcommand->footer(absl::StrCat("Example:\n  ", command.example));
    command.declare(subcommand, &options);
  }

  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 takes them
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help and --version
      app.exit(error, console.out, console.err);
      return ExitCode::kDone;
    }
    console.err << RenderUsageError(app, error, arguments);
    return ExitCode::kUsage;
  }
  if (app.get_subcommands().empty()) {
    console.err << "ropelab: no command given\n" << app.help();
    return ExitCode::kUsage;
  }
  options.server_given = server->count() > 0;

  const std::string name = app.get_subcommands().front()->get_name();
  const auto commands = Commands();
  const auto command =
      std::find_if(commands.begin(), commands.end(), [&](const Command& c) { return name == c.name; });
  const absl::StatusOr<ExitCode> result = RunCommand(*command, options, console);
  console.out.flush();
  if (!result.ok()) {
    console.err << RenderError(result.status()) << std::flush;
    return ExitCodeOf(result.status());
  }
  if (!console.out) {
    console.err << "ropelab: standard output cannot be written: is the disk full?" << std::endl;
    return ExitCode::kUsage;
  }
  return *result;
}

}  // namespace ropelab::client
