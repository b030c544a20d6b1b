// `ropelab-worker plant`: writes a checkpoint whose slash heads are known (EXPERIMENTS.md 14).
#include "worker/formats/plant.h"

#include <charconv>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/tools/commands.h"

namespace ropelab::tools {
namespace {

// "LAYER:HEAD:OFFSET".
absl::StatusOr<formats::PlantedSlash> ReadSlash(const std::string& text) {
  formats::PlantedSlash slash;
  const char* at = text.data();
  const char* end = text.data() + text.size();
  for (int64_t* number : {&slash.layer, &slash.head, &slash.offset}) {
    const auto [rest, error] = std::from_chars(at, end, *number);
    const bool last = number == &slash.offset;
    if (error != std::errc() || (last ? rest != end : rest == end || *rest != ':')) {
      return absl::InvalidArgumentError(
          absl::StrCat("--slash ", text, " is not LAYER:HEAD:OFFSET, three numbers from 0, such as 0:3:700"));
    }
    at = rest + 1;
  }
  return slash;
}

}  // namespace

int RunPlant(int argc, char** argv) {
  CLI::App app{
      "Writes a llama checkpoint whose slash heads are known: every planted head attends OFFSET tokens back, "
      "the others\n"
      "attend uniformly. Prints what a detection will find.\n"
      "Example: ropelab-worker plant --out models/planted --layers 2 --heads 8 --kv-heads 8 --head-dim 64 "
      "--context 4096 \\\n"
      "           --slash 0:3:1 --slash 1:5:700",
      "ropelab-worker plant"};
  formats::PlantOptions options;
  std::string dtype = "float32";
  std::vector<std::string> slashes;
  app.add_option("--out", options.out, "directory of the checkpoint")->required();
  app.add_option("--layers", options.layers, "layers")->capture_default_str();
  app.add_option("--heads", options.heads, "query heads")->capture_default_str();
  app.add_option("--kv-heads", options.kv_heads, "key/value heads")->capture_default_str();
  app.add_option("--head-dim", options.head_dim, "dimension of a head, even")->capture_default_str();
  app.add_option("--vocab", options.vocab, "token ids")->capture_default_str();
  app.add_option("--context", options.context, "longest prompt in tokens")->capture_default_str();
  app.add_option("--dtype", dtype, "float32, bfloat16 or float16")->capture_default_str();
  app.add_option("--rope-theta", options.rope_theta, "base of the RoPE frequencies (rope_theta)")
      ->capture_default_str();
  app.add_option(
      "--strength", options.strength,
      "A of the planted logit, the sum over pairs of A cos(theta (i - j - offset)); left out: 1.05 times the "
      "least that gives exactly the planted heads");
  app.add_option("--threshold", options.kappa, "score that a detection will ask for; left out: 6 / context");
  app.add_option("--seed", options.seed, "of the embedding")->capture_default_str();
  app.add_option("--slash", slashes, "LAYER:HEAD:OFFSET of a planted head; again for more")->take_all();
  if (const auto over = ParseCommandLine(app, argc, argv)) return *over;

  const auto read = ReadDtype(dtype);
  if (!read.ok()) return Fail("plant", read.status(), kUsage);
  options.dtype = *read;
  for (const std::string& text : slashes) {
    const auto slash = ReadSlash(text);
    if (!slash.ok()) return Fail("plant", slash.status(), kUsage);
    options.slashes.push_back(*slash);
  }
  const auto report = formats::Plant(options);
  if (!report.ok()) {
    return Fail("plant", report.status(), absl::IsInvalidArgument(report.status()) ? kUsage : kFailed);
  }
  std::fputs(formats::DescribePlant(*report).c_str(), stdout);
  return kDone;
}

}  // namespace ropelab::tools
