// `ropelab-worker inspect`: tensors of one short prompt, for comparison with another implementation.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/tensor_recorder.h"
#include "worker/engine/threads.h"
#include "worker/formats/safetensors_writer.h"
#include "worker/measure/measurement.h"
#include "worker/model/loaded_model.h"
#include "worker/tools/commands.h"
#include "worker/tools/inspect_request.h"

namespace ropelab::tools {
namespace {

struct Flags {
  std::string model, token_ids, token_ids_file, dump, spec, out;
  std::string dtype;  // empty: the spec's, else float32
  std::string device = "cpu";
  int threads = engine::AvailableThreads();
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

absl::StatusOr<at::ScalarType> TorchType(formats::Dtype dtype) {
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

// The measurement, and into `dtype` the name that the spec gives where no flag did.
absl::StatusOr<v1::Measurement> ReadRequest(const Flags& flags, std::string& dtype) {
  v1::Measurement measurement;
  v1::InspectionTensors& inspection = *measurement.mutable_inspection();
  if (flags.spec.empty()) {
    std::string text = flags.token_ids;
    if (!flags.token_ids_file.empty()) {
      ROPELAB_ASSIGN_OR_RETURN(text, ReadWholeFile(flags.token_ids_file));
    }
    ROPELAB_ASSIGN_OR_RETURN(*inspection.mutable_token_ids(), ReadTokenIds(text));
    for (const std::string& name : ReadNames(flags.dump)) inspection.add_dump(name);
    return measurement;
  }
  ROPELAB_ASSIGN_OR_RETURN(const v1::ExperimentSpec spec, ReadInspectionSpec(flags.spec));
  *inspection.mutable_token_ids() = spec.inspection().token_ids();
  *inspection.mutable_dump() = spec.inspection().dump();
  *inspection.mutable_interventions() = spec.inspection().interventions();
  if (dtype.empty() && spec.has_dtype()) {
    if (spec.dtype() == v1::Dtype::BFLOAT16) dtype = "bfloat16";
    if (spec.dtype() == v1::Dtype::FLOAT16) dtype = "float16";
    if (spec.dtype() == v1::Dtype::INT8) {
      return absl::InvalidArgumentError(
          absl::StrCat(flags.spec, ": dtype INT8 is not built; use FLOAT32, BFLOAT16 or FLOAT16"));
    }
  }
  return measurement;
}

absl::Status Inspect(const Flags& flags) {
  std::string dtype_name = flags.dtype;
  ROPELAB_ASSIGN_OR_RETURN(const v1::Measurement measurement, ReadRequest(flags, dtype_name));
  ROPELAB_RETURN_IF_ERROR(engine::CheckTensorNames(
      {measurement.inspection().dump().begin(), measurement.inspection().dump().end()}));
  ROPELAB_ASSIGN_OR_RETURN(const formats::Dtype dtype,
                           ReadDtype(dtype_name.empty() ? "float32" : dtype_name));
  ROPELAB_ASSIGN_OR_RETURN(const at::ScalarType type, TorchType(dtype));
  ROPELAB_ASSIGN_OR_RETURN(const at::Device device, model::ParseDevice(flags.device));
  ROPELAB_ASSIGN_OR_RETURN(const auto loaded,
                           model::LoadModel(flags.model, type, device, 0, [](int64_t, int64_t) {}));
  FileRecorder recorder;
  ROPELAB_RETURN_IF_ERROR(measure::Measure(measurement, loaded.get(), {}, recorder).status());
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
      "output before the final norm); inv_freq [D/2]. They are written in --dtype, inv_freq always in "
      "float32.\n"
      "Example: ropelab-worker inspect --model models/stories260K --token-ids \"1,403,407\" --dump "
      "logits,attn_probs \\\n"
      "           --out tensors.safetensors",
      "ropelab-worker inspect"};
  Flags flags;
  app.add_option("--model", flags.model, "the checkpoint's directory")->required();
  app.add_option("--out", flags.out, "the file to write")->required();
  auto* ids = app.add_option("--token-ids", flags.token_ids, "\"1,2,3\"");
  auto* file = app.add_option("--token-ids-file", flags.token_ids_file, "a file of token ids")->excludes(ids);
  auto* dump = app.add_option("--dump", flags.dump, "names of tensors, separated by commas");
  app.add_option("--spec", flags.spec,
                 "an ExperimentSpec with an inspection, text format or .json, instead of the ids and names")
      ->excludes(ids)
      ->excludes(file)
      ->excludes(dump);
  app.add_option("--dtype", flags.dtype, "float32 (default), bfloat16 or float16");
  app.add_option("--device", flags.device, "cpu or cuda:N")->capture_default_str();
  app.add_option("--threads", flags.threads, "threads that compute")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  if (const auto over = ParseCommandLine(app, argc, argv)) return *over;
  if (flags.spec.empty() &&
      (flags.dump.empty() || (flags.token_ids.empty() && flags.token_ids_file.empty()))) {
    return Fail(
        "inspect",
        absl::InvalidArgumentError(
            "give --token-ids or --token-ids-file together with --dump, or --spec; --help shows how"));
  }
  engine::SetThreads(flags.threads);
  if (const absl::Status status = Inspect(flags); !status.ok()) return Fail("inspect", status);
  return kDone;
}

}  // namespace ropelab::tools
