// The commands of `ropelab`, in one table: name, words, options, action.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/connection.h"
#include "client/console.h"
#include "client/watch.h"

namespace CLI {
class App;
}

namespace ropelab::client {

// The values of every option; a command reads its own.
struct Options {
  std::string server = "127.0.0.1:7400";
  bool server_given = false;
  std::string token_file;
  bool json = false;

  std::string id;
  std::string spec_path;
  std::vector<std::string> assignments;
  bool wait = false;
  std::string user, state, kind, model, tag;
  std::string table;
  std::vector<std::string> conditions;  // --where
  std::string format;                   // empty: table, or jsonl with --json
  std::string artifact;
  std::string output_path;
  std::string data_dir = "ropelab-data";
  std::string models_dir;
  bool corpus_add = false;  // `corpora add`, not `corpora`
  std::string corpus_name, corpus_path, corpus_kind;
  std::string heads_action;  // import, list, show or overlap; empty: list
  std::string heads_name, heads_file, heads_metric;
  int64_t heads_top = 0;  // 0: as many as the detection found
  Patience patience;
};

struct Session {
  const Options& options;
  Connection& connection;
  Console& console;
};

struct Command {
  const char* name;
  const char* summary;
  const char* example;
  void (*declare)(CLI::App* command, Options* options);
  absl::StatusOr<ExitCode> (*run)(Session& session);
};

std::span<const Command> Commands();

absl::StatusOr<ExitCode> RunSubmit(Session& session);
absl::StatusOr<ExitCode> RunValidate(Session& session);
absl::StatusOr<ExitCode> RunWatch(Session& session);
absl::StatusOr<ExitCode> RunList(Session& session);
absl::StatusOr<ExitCode> RunShow(Session& session);
absl::StatusOr<ExitCode> RunCancel(Session& session);
absl::StatusOr<ExitCode> RunResults(Session& session);
absl::StatusOr<ExitCode> RunProvenance(Session& session);
absl::StatusOr<ExitCode> RunModels(Session& session);
absl::StatusOr<ExitCode> RunWorkers(Session& session);
absl::StatusOr<ExitCode> RunCorpora(Session& session);
absl::StatusOr<ExitCode> RunHeads(Session& session);
absl::StatusOr<ExitCode> RunUp(Session& session);

// Follows `id` to its end and writes progress to `progress` (`width` columns; 0: not a terminal), summaries
// at the end. With `json`, one object per event instead. kDone only when every experiment is done.
absl::StatusOr<ExitCode> FollowToTheEnd(Session& session, const std::string& id, std::ostream& progress,
                                        int64_t width, bool json);

// The name that the system knows the caller by; what an open server takes as the owner.
std::string UserName();

}  // namespace ropelab::client
