// The tools, one file each. argv[0] is the command's name.
#pragma once

#include <ATen/ATen.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/formats/model_config.h"

namespace ropelab::tools {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

int RunInspect(int argc, char** argv);
int RunPlant(int argc, char** argv);
int RunNumerics(int argc, char** argv);
int RunTokenize(int argc, char** argv);
int RunVerify(int argc, char** argv);

// Parses; a value when the command is over: kDone after --help, kUsage after a mistake, which was printed to
// stderr.
std::optional<int> ParseCommandLine(CLI::App& app, int argc, char** argv);

// "ropelab-worker inspect: message" to stderr; returns `code`.
int Fail(const std::string& command, const absl::Status& status, int code = kFailed);

// "float32", "bfloat16", "float16".
absl::StatusOr<formats::Dtype> ReadDtype(const std::string& name);

}  // namespace ropelab::tools
