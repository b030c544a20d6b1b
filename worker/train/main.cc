// ropelab-train: a small llama model that finds needles, trained from a recipe.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "common/logging.h"
#include "common/version.h"
#include "spdlog/spdlog.h"
#include "worker/engine/blas_advice.h"
#include "worker/engine/numerics.h"
#include "worker/session/threads.h"
#include "worker/train/recipe.h"
#include "worker/train/training_loop.h"

namespace ropelab {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

int Refuse(const absl::Status& status) {
  std::fprintf(stderr, "ropelab-train: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? kUsage : kFailed;
}

int Main(int argc, char** argv) {
  CLI::App app{
      "Trains a llama model that finds needles in a haystack, from a recipe, and writes it as Hugging Face\n"
      "publishes one: OUT/NAME with config.json, tokenizer.json and model.safetensors, checkpoints along "
      "the\n"
      "way in OUT/checkpoints. Started again, it goes on where it was ended, to the same bytes.\n"
      "Example: ropelab-train --recipe models/needle-tiny/recipe.json --out /tmp/trained",
      "ropelab-train"};
  std::string recipe_path;
  train::TrainingOptions options;
  int threads = session::AvailableCpus();
  int64_t stop_after = 0;
  app.add_option("--recipe", recipe_path, "recipe.json: shape, seed, steps, rates, curriculum")->required();
  app.add_option("--out", options.out, "directory of what is written")->required();
  app.add_option("--threads", threads, "threads that compute; bits depend on their number")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--stop-after", stop_after, "end after so many steps in all; left out: at the recipe's end")
      ->check(CLI::PositiveNumber);
  app.set_version_flag("--version", Build());
  CLI11_PARSE(app, argc, argv);
  if (stop_after > 0) options.stop_after = stop_after;

  session::UseThreads(threads);
  InitializeLogging();
  if (const std::string advice = engine::BlasAdvice(); !advice.empty()) spdlog::warn("{}", advice);
  const auto recipe = train::ReadRecipe(recipe_path);
  if (!recipe.ok()) return Refuse(recipe.status());
  const auto numerics = engine::ComputeNumericsClass("cpu", threads);
  if (!numerics.ok()) return Refuse(numerics.status());
  options.threads = threads;
  options.numerics = numerics->hash;
  const auto steps = train::Train(*recipe, options, [&](const train::TrainingProgress& at) {
    spdlog::info(
        "step {} of {}: {} tokens, loss {:.3f} on text, {:.3f} on answers; {:.1f} % of needles; {:.0f} steps "
        "a "
        "minute, {:.0f} minutes left",
        at.step, recipe->steps, at.length, at.text_loss, at.answer_loss, 100 * at.accuracy,
        at.steps_per_minute, static_cast<double>(recipe->steps - at.step) / at.steps_per_minute);
  });
  if (!steps.ok()) return Refuse(steps.status());
  if (*steps < recipe->steps) {
    spdlog::info("stopped after step {} of {}; start it again to go on", *steps, recipe->steps);
    return kDone;
  }
  std::printf("%s/%s\n", options.out.c_str(), recipe->name.c_str());
  return kDone;
}

// Before the constructors of libtorch, which would otherwise run twice.
__attribute__((section(".preinit_array"), used)) void (*const reexecute)(int, char**,
                                                                         char**) = session::ReexecuteTuned;

}  // namespace
}  // namespace ropelab

int main(int argc, char** argv) {
  return ropelab::Main(argc, argv);
}
