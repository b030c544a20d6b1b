// `ropelab-worker inspect`: tensors of one short prompt, for comparison with another implementation.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/decoder.h"
#include "worker/engine/tensor_recorder.h"
#include "worker/engine/threads.h"
#include "worker/formats/safetensors_writer.h"
#include "worker/measure/measurement.h"
#include "worker/measure/tensor_file.h"
#include "worker/model/loaded_model.h"
#include "worker/tools/commands.h"
#include "worker/tools/inspect_request.h"

namespace ropelab::tools {
namespace {

struct InspectFlags {
  std::string model, token_ids, token_ids_file, spec, out;
  std::string dump = "logits";
  std::string dtype;  // empty: the spec's, else float32
  std::string device = "cpu";
  int threads = engine::AvailableThreads();
  int64_t block_rows = engine::kBlockRows;
};

// Takes the one file that an inspection gives.
class FileRecorder : public measure::Recorder {
 public:
  absl::Status Emit(v1::Reading, std::vector<measure::ArtifactBytes> artifacts) override {
    for (measure::ArtifactBytes& artifact : artifacts) bytes_ = std::move(artifact.bytes);
    return absl::OkStatus();
  }
  absl::Status Progress(double, double) override { return absl::OkStatus(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

struct Request {
  v1::Measurement measurement;
  at::ScalarType dtype = at::kFloat;
};

absl::StatusOr<at::ScalarType> TorchType(const std::string& name) {
  if (name == "int8") return model::kInt8Weights;  // no dtype of a checkpoint
  ROPELAB_ASSIGN_OR_RETURN(const formats::Dtype dtype, ReadDtype(name));
  switch (dtype) {
    case formats::Dtype::kFloat32:
      return at::kFloat;
    case formats::Dtype::kBFloat16:
      return at::kBFloat16;
    case formats::Dtype::kFloat16:
      return at::kHalf;
  }
  return absl::InternalError("a dtype without a tensor type");
}

// What the spec says of the dtype counts where no flag does.
absl::StatusOr<at::ScalarType> ChooseDtype(const std::string& flag, const v1::ExperimentSpec& spec) {
  if (!flag.empty()) return TorchType(flag);
  switch (spec.dtype()) {
    case v1::Dtype::BFLOAT16:
      return at::kBFloat16;
    case v1::Dtype::FLOAT16:
      return at::kHalf;
    case v1::Dtype::INT8:
      return model::kInt8Weights;
    default:
      return at::kFloat;
  }
}

// Everything that a mistake in the command line or the spec can spoil.
absl::StatusOr<Request> ReadRequest(const InspectFlags& flags) {
  Request request;
  v1::InspectionTensors& inspection = *request.measurement.mutable_inspection();
  v1::ExperimentSpec spec;
  if (flags.spec.empty()) {
    std::string text = flags.token_ids;
    if (!flags.token_ids_file.empty()) {
      ROPELAB_ASSIGN_OR_RETURN(text, ReadWholeFile(flags.token_ids_file));
    }
    ROPELAB_ASSIGN_OR_RETURN(*inspection.mutable_token_ids(), ReadTokenIds(text));
    for (const std::string& name : ReadNames(flags.dump)) inspection.add_dump(name);
  } else {
    ROPELAB_ASSIGN_OR_RETURN(spec, ReadInspectionSpec(flags.spec));
    *inspection.mutable_token_ids() = spec.inspection().token_ids();
    *inspection.mutable_dump() = spec.inspection().dump();
    *inspection.mutable_interventions() = spec.inspection().interventions();
  }
  ROPELAB_RETURN_IF_ERROR(engine::CheckTensorNames({inspection.dump().begin(), inspection.dump().end()}));
  ROPELAB_ASSIGN_OR_RETURN(request.dtype, ChooseDtype(flags.dtype, spec));
  return request;
}

// Measurements have one block size, since it decides bits. Another one shows that blocks change nothing else.
absl::Status InspectInBlocks(const InspectFlags& flags, const Request& request,
                             const model::LoadedModel& model) {
  const v1::InspectionTensors& inspection = request.measurement.inspection();
  if (inspection.interventions_size() > 0) {
    return absl::InvalidArgumentError("--block-rows takes no spec with interventions");
  }
  const std::vector<int32_t> ids(inspection.token_ids().ids().begin(), inspection.token_ids().ids().end());
  engine::ForwardOptions options;
  options.block_rows =
      flags.block_rows > 0 ? flags.block_rows : std::max<int64_t>(static_cast<int64_t>(ids.size()), 1);
  try {
    ROPELAB_ASSIGN_OR_RETURN(
        const auto tensors,
        engine::InspectPrompt(model, ids, {inspection.dump().begin(), inspection.dump().end()}, options));
    return formats::WriteFileAtomically(flags.out, measure::TensorFile(tensors, engine::TensorNames()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("--block-rows ", flags.block_rows, ": ", error.what()));
  }
}

absl::Status Inspect(const InspectFlags& flags, const Request& request) {
  ROPELAB_ASSIGN_OR_RETURN(const at::Device device, model::ParseDevice(flags.device));
  ROPELAB_ASSIGN_OR_RETURN(const auto loaded,
                           model::LoadModel(flags.model, request.dtype, device, 0, [](int64_t, int64_t) {}));
  if (flags.block_rows != engine::kBlockRows) return InspectInBlocks(flags, request, *loaded);
  FileRecorder recorder;
  ROPELAB_RETURN_IF_ERROR(measure::Measure(request.measurement, loaded.get(), {}, recorder).status());
  return formats::WriteFileAtomically(flags.out, recorder.bytes());
}

}  // namespace

int RunInspect(int argc, char** argv) {
  CLI::App app{
      "Runs one short prompt and writes named tensors to a safetensors file.\n"
      "Tensors: input_ids [T] int64; logits [T,V]; attn_probs [L,H,T,T]; q_pre [L,H,T,D], k_pre [L,G,T,D] "
      "(after bias and\n"
      "q/k norm, before RoPE); q_rot, k_rot (after RoPE); hidden [L+1,T,d] (input of each block, then the "
      "last block's\n"
      "output before the final norm); inv_freq [D/2]. They are written in --dtype (int8: float32), "
      "inv_freq always in float32.\n"
      "Example: ropelab-worker inspect --model build/quickstart/models/planted --token-ids \"1,403,407\" "
      "--dump "
      "logits,attn_probs \\\n"
      "           --out tensors.safetensors",
      "ropelab-worker inspect"};
  InspectFlags flags;
  app.add_option("--model", flags.model, "the model's directory: the one with config.json")->required();
  app.add_option("--out", flags.out, "the file to write")->required();
  auto* ids = app.add_option("--token-ids", flags.token_ids, "the prompt, as in \"1,2,3\"");
  auto* file = app.add_option("--token-ids-file", flags.token_ids_file, "a file of token ids")->excludes(ids);
  auto* dump = app.add_option("--dump", flags.dump, "names of the tensors above, separated by commas")
                   ->capture_default_str();
  app.add_option("--spec", flags.spec,
                 "an ExperimentSpec with an inspection, text format or .json, instead of the ids and names")
      ->excludes(ids)
      ->excludes(file)
      ->excludes(dump);
  app.add_option("--dtype", flags.dtype, "float32 (default), bfloat16, float16 or int8");
  app.add_option("--device", flags.device, "cpu or cuda:N")->capture_default_str();
  app.add_option("--threads", flags.threads, "threads that compute")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  // For tests: rows per block of attention, 0 for the whole prompt. An empty group hides it.
  app.add_option("--block-rows", flags.block_rows)->check(CLI::Range(0, 1 << 20))->group("");
  if (const auto over = ParseCommandLine(app, argc, argv)) return *over;
  if (flags.spec.empty() && flags.token_ids.empty() && flags.token_ids_file.empty()) {
    return Fail("inspect",
                absl::InvalidArgumentError(
                    "give the prompt: --token-ids, --token-ids-file or --spec; --help shows how"),
                kUsage);
  }
  const auto request = ReadRequest(flags);
  if (!request.ok()) return Fail("inspect", request.status(), kUsage);
  engine::SetThreads(flags.threads);
  if (const absl::Status status = Inspect(flags, *request); !status.ok()) return Fail("inspect", status);
  std::printf("wrote %s\n", flags.out.c_str());
  return kDone;
}

}  // namespace ropelab::tools
