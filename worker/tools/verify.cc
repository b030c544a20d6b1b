// `ropelab-worker verify`: the parity gate of a checkpoint.
#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "spdlog/spdlog.h"
#include "worker/engine/threads.h"
#include "worker/formats/checkpoint.h"
#include "worker/measure/parity.h"
#include "worker/session/cache_dir.h"
#include "worker/session/verification.h"
#include "worker/tools/commands.h"

namespace ropelab::tools {
namespace {

struct VerifyFlags {
  measure::ParityOptions parity;
  std::string dtype = "float32";
  std::string cache_dir = session::DefaultCacheDir();
  int threads = engine::AvailableThreads();
  bool json = false;
};

struct Report {
  std::string weights_hash, config_hash;
  v1::Verification verification;
};

// "passed  rope_table_short    0.4999 of 0.5001 ulp   position 3, pair 1".
void PrintFact(const v1::VerifiedFact& fact) {
  const std::string bound = fact.bound() < 0 ? "" : absl::StrFormat(" of %.3g", fact.bound());
  std::printf("%-6s  %-24s %-22s %-10s  %s\n",
              !fact.passed()     ? "FAILED"
              : fact.bound() < 0 ? "told"
                                 : "passed",
              fact.name().c_str(), absl::StrFormat("%.3g%s", fact.value(), bound).c_str(),
              fact.unit().c_str(), fact.where().c_str());
  std::fflush(stdout);
}

absl::StatusOr<Report> Verify(const VerifyFlags& flags) {
  const std::string& directory = flags.parity.directory;
  ROPELAB_ASSIGN_OR_RETURN(const formats::ModelConfig config, formats::ReadConfig(directory));
  ROPELAB_ASSIGN_OR_RETURN(const std::string before, formats::DirectoryStamp(directory));
  Report report;
  report.config_hash = formats::ConfigHash(config);
  ROPELAB_ASSIGN_OR_RETURN(report.verification,
                           measure::VerifyParity(flags.parity, [&](const v1::VerifiedFact& fact) {
                             if (!flags.json) PrintFact(fact);
                           }));
  ROPELAB_ASSIGN_OR_RETURN(report.weights_hash, formats::WeightsHash(directory, flags.cache_dir,
                                                                     [](int64_t, int64_t) { return true; }));
  ROPELAB_ASSIGN_OR_RETURN(const std::string after, formats::DirectoryStamp(directory));
  if (before != after) {
    return absl::AbortedError(
        absl::StrCat(directory, ": changed while it was verified; verify it again when the copy is done"));
  }
  return report;
}

void PrintJson(const Report& report) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(report.verification, &text, options);
  nlohmann::json object = nlohmann::json::parse(text);
  object["weights_hash"] = report.weights_hash;
  object["config_hash"] = report.config_hash;
  std::printf("%s\n", object.dump().c_str());
}

int CountFailed(const v1::Verification& verification) {
  int failed = 0;
  for (const v1::VerifiedFact& fact : verification.facts()) failed += fact.passed() ? 0 : 1;
  return failed;
}

void AddFlags(CLI::App& app, VerifyFlags& flags) {
  app.add_option("--model", flags.parity.directory, "the model's directory: the one with config.json")
      ->required();
  app.add_option("--dtype", flags.dtype, "float32, bfloat16 or float16: what the checks compute in")
      ->capture_default_str();
  app.add_option("--device", flags.parity.device, "cpu or cuda:N")->capture_default_str();
  app.add_option("--tokens", flags.parity.prompt_tokens, "lengths of the prompts, drawn uniformly")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--cache-dir", flags.cache_dir, "where the report is kept: the worker's --cache-dir")
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "threads that compute")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", flags.json, "one JSON object");
}

}  // namespace

int RunVerify(int argc, char** argv) {
  CLI::App app{
      "Checks how a checkpoint is computed, where no other implementation is at hand: RoPE tables against "
      "exact ones,\n"
      "attention in blocks against plain attention in double, query heads against their KV heads, decoding "
      "against the\n"
      "whole prompt, 16-bit against fp32; and against expected*.safetensors where they lie beside it. Exit "
      "code 0 only\n"
      "if every fact is within its bound. The report is kept in --cache-dir, and workers with the same one "
      "send it to the\n"
      "server with the weights hash. Time and memory grow with the square of --tokens.\n"
      "Example: ropelab-worker verify --model models/llama-3.2-1b",
      "ropelab-worker verify"};
  VerifyFlags flags;
  AddFlags(app, flags);
  if (const auto over = ParseCommandLine(app, argc, argv)) return *over;
  const auto dtype = ReadDtype(flags.dtype);
  if (!dtype.ok()) return Fail("verify", dtype.status(), kUsage);
  flags.parity.dtype = *dtype == formats::Dtype::kBFloat16  ? at::kBFloat16
                       : *dtype == formats::Dtype::kFloat16 ? at::kHalf
                                                            : at::kFloat;
  spdlog::set_level(spdlog::level::warn);  // what the loader tells of each copy would stand between the facts
  engine::SetThreads(flags.threads);
  const auto report = Verify(flags);
  if (!report.ok()) return Fail("verify", report.status());
  const v1::Verification& verification = report->verification;
  if (flags.json) {
    PrintJson(*report);
  } else {
    const int failed = CountFailed(verification);
    std::printf("%s: %d of %d facts hold (engine %s, %s)\n", failed == 0 ? "passed" : "FAILED",
                verification.facts_size() - failed, verification.facts_size(),
                verification.engine_version().c_str(), verification.device().c_str());
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return Fail("verify", absl::UnavailableError("standard output cannot be written"));
  }
  const absl::Status written =
      session::WriteVerification(flags.cache_dir, report->weights_hash, report->config_hash, verification);
  if (!written.ok()) {
    // The facts stand; only workers will not know of them.
    std::fprintf(stderr, "ropelab-worker verify: the report is not kept: %s\n",
                 std::string(written.message()).c_str());
  }
  return verification.passed() ? kDone : kFailed;
}

}  // namespace ropelab::tools
