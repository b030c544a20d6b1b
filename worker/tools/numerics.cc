// `ropelab-worker numerics`: the numerics class and what it is made of.
#include "worker/engine/numerics.h"

#include <cstdio>

#include "nlohmann/json.hpp"
#include "worker/engine/blas_advice.h"
#include "worker/engine/threads.h"
#include "worker/tools/commands.h"

namespace ropelab::tools {

int RunNumerics(int argc, char** argv) {
  CLI::App app{
      "Prints the numerics class of this machine: results are equal bit for bit between workers of one "
      "class.\n"
      "Example: ropelab-worker numerics --threads 2",
      "ropelab-worker numerics"};
  std::string device = "cpu";
  int threads = engine::AvailableThreads();
  bool json = false;
  app.add_option("--device", device, "cpu or cuda:N")->capture_default_str();
  app.add_option("--threads", threads, "threads that compute")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", json, "one JSON object");
  if (const auto over = ParseCommandLine(app, argc, argv)) return *over;

  engine::SetThreads(threads);
  const auto numerics = engine::ComputeNumericsClass(device, threads);
  if (!numerics.ok()) return Fail("numerics", numerics.status());
  if (const std::string advice = engine::BlasAdvice(); !advice.empty()) {
    std::fprintf(stderr, "ropelab-worker numerics: %s\n", advice.c_str());
  }
  if (json) {
    const nlohmann::json object = {{"hash", numerics->hash}, {"ingredients", numerics->ingredients}};
    std::printf("%s\n", object.dump().c_str());
  } else {
    std::printf("%s\n", numerics->hash.c_str());
    for (const std::string& line : numerics->ingredients) std::printf("  %s\n", line.c_str());
  }
  return kDone;
}

}  // namespace ropelab::tools
