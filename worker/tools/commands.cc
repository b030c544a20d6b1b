#include "worker/tools/commands.h"

#include <cstdio>

#include "absl/strings/str_cat.h"

namespace ropelab::tools {

std::optional<int> ParseCommandLine(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return kDone;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "ropelab-worker %s: %s; --help shows the flags\n", argv[0], error.what());
    return kUsage;
  }
}

int Fail(const std::string& command, const absl::Status& status, int code) {
  std::fprintf(stderr, "ropelab-worker %s: %s\n", command.c_str(), std::string(status.message()).c_str());
  return code;
}

absl::StatusOr<formats::Dtype> ReadDtype(const std::string& name) {
  if (name == "float32") return formats::Dtype::kFloat32;
  if (name == "bfloat16") return formats::Dtype::kBFloat16;
  if (name == "float16") return formats::Dtype::kFloat16;
  return absl::InvalidArgumentError(
      absl::StrCat("--dtype ", name, " is not a dtype; choose float32, bfloat16 or float16"));
}

}  // namespace ropelab::tools
