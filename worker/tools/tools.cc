#include "worker/tools/tools.h"

#include <cstdio>
#include <string_view>

namespace ropelab::tools {
namespace {

struct Tool {
  std::string_view name;
  int (*run)(int argc, char** argv);
};

constexpr int kUsage = 2;

const Tool* Find(std::string_view) { return nullptr; }

}  // namespace

bool IsToolCommand(const std::string& name) { return Find(name) != nullptr; }

int RunTool(int argc, char** argv) {
  const Tool* tool = argc > 1 ? Find(argv[1]) : nullptr;
  if (tool == nullptr) {
    std::fprintf(stderr, "ropelab-worker: no such command\n");
    return kUsage;
  }
  return tool->run(argc - 1, argv + 1);
}

}  // namespace ropelab::tools
