#include "worker/tools/tools.h"

#include <array>
#include <cstdio>
#include <exception>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "worker/tools/commands.h"

namespace ropelab::tools {
namespace {

struct Tool {
  std::string_view name;
  int (*run)(int argc, char** argv);
};

constexpr std::array kTools = {
    Tool{"inspect", RunInspect},   Tool{"plant", RunPlant},   Tool{"numerics", RunNumerics},
    Tool{"tokenize", RunTokenize}, Tool{"verify", RunVerify},
};

const Tool* Find(std::string_view name) {
  for (const Tool& tool : kTools) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

}  // namespace

bool IsToolCommand(const std::string& argument) {
  return !argument.empty() && argument.front() != '-';
}

int RunTool(int argc, char** argv) {
  const Tool* tool = argc > 1 ? Find(argv[1]) : nullptr;
  if (tool == nullptr) {
    std::string names;
    for (const Tool& known : kTools)
      absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(known.name));
    std::fprintf(stderr,
                 "ropelab-worker: there is no command \"%s\"; commands: %s; without one it serves a server "
                 "(--server HOST:PORT --models DIR)\n",
                 argc > 1 ? argv[1] : "", names.c_str());
    return kUsage;
  }
  try {
    return tool->run(argc - 1, argv + 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ropelab-worker %s: %s\n", argv[1], error.what());
    return kFailed;
  }
}

}  // namespace ropelab::tools
