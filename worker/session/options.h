// The worker's command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/session/credentials.h"

namespace ropelab::session {

struct WorkerOptions {
  ServerAddress server;
  std::vector<std::string> models;
  std::string device = "cpu";
  std::string metrics = "127.0.0.1:0";
  int threads = 0;           // 0: from the affinity mask
  int64_t memory_limit = 0;  // 0: four fifths of what the machine or the control group has
  std::string id;
  std::vector<std::string> labels;  // "key=value"
  std::string cache_dir;
  std::string token_file;
};

// Either options, or the process ends now: --help, --version and wrong usage were answered on stdout or
// stderr.
struct ParsedCommandLine {
  WorkerOptions options;
  bool run = false;
  int exit_code = 0;
};
ParsedCommandLine ParseCommandLine(int argc, char** argv);

}  // namespace ropelab::session
