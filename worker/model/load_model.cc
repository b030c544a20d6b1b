#include <chrono>
#include <exception>
#include <filesystem>
#include <new>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "spdlog/spdlog.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/families.h"
#include "worker/formats/mapped_pages.h"
#include "worker/model/check_headers.h"
#include "worker/model/int8_weights.h"
#include "worker/model/loaded_model.h"
#include "worker/model/tensor_reader.h"
#include "worker/model/weight_slots.h"

namespace ropelab::model {
namespace {

using Progress = absl::FunctionRef<void(int64_t done, int64_t total)>;

absl::Status CheckDtype(at::ScalarType dtype) {
  if (dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf || dtype == kInt8Weights) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "dtype ", c10::toString(dtype), " is not computed with; use float32, bfloat16, float16 or int8"));
}

absl::Status CheckMemory(const std::string& directory, int64_t bytes, int64_t limit, at::ScalarType dtype) {
  if (limit <= 0 || bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%s: the weights need %d bytes (%.2f GiB) in %s, %d (%.2f GiB) may be used; raise --memory-limit%s",
      directory, bytes, static_cast<double>(bytes) / (1 << 30), c10::toString(dtype), limit,
      static_cast<double>(limit) / (1 << 30), dtype == at::kFloat ? " or use a 16-bit dtype or int8" : ""));
}

// What CheckHeaders leaves of a tied matrix that is stored under both names: its bytes.
absl::Status CheckTiedBytes(const formats::Checkpoint& checkpoint, const std::string& directory,
                            const formats::ModelConfig& config, const formats::WeightNames& names) {
  const formats::TensorEntry* embedding = checkpoint.Find(names.embedding);
  const formats::TensorEntry* output = checkpoint.Find(names.lm_head);
  if (!config.tied_embeddings || output == nullptr || embedding == output) return absl::OkStatus();
  bool equal = true;
  for (size_t at = 0; equal && at < output->bytes.size(); at += formats::kMappedChunk) {
    const std::string_view left = embedding->bytes.substr(at, formats::kMappedChunk);
    const std::string_view right = output->bytes.substr(at, formats::kMappedChunk);
    equal = left == right;
    formats::GiveBackPages(left);
    formats::GiveBackPages(right);
  }
  return equal ? absl::OkStatus() : TiedNamesDiffer(directory, *embedding, *output);
}

absl::Status ReadSlot(const WeightSlot& slot, const formats::TensorEntry& entry,
                      const std::shared_ptr<const formats::Checkpoint>& checkpoint, at::ScalarType dtype,
                      const LoadedModel& model) {
  const std::string where =
      absl::StrCat((std::filesystem::path(model.directory) / entry.file).string(), ": tensor ", slot.name);
  if (dtype != kInt8Weights || slot.scale == nullptr) {
    ROPELAB_ASSIGN_OR_RETURN(*slot.place, ReadTensor(entry, checkpoint, model.dtype, model.device, where));
    return absl::OkStatus();
  }
  ROPELAB_ASSIGN_OR_RETURN(const Int8Rows rows, ReadInt8(entry, where));
  *slot.place = rows.values.to(model.device);
  *slot.scale = rows.scale.to(model.device);
  return absl::OkStatus();
}

absl::Status ReadWeights(const std::shared_ptr<const formats::Checkpoint>& checkpoint,
                         const std::vector<WeightSlot>& slots, at::ScalarType dtype, LoadedModel* model,
                         Progress progress) {
  int64_t total = 0;
  for (const WeightSlot& slot : slots)
    total += static_cast<int64_t>(checkpoint->Find(slot.name)->bytes.size());
  int64_t done = 0;
  const auto began = Clock::Real().Monotonic();
  progress(done, total);
  for (const WeightSlot& slot : slots) {
    const formats::TensorEntry& entry = *checkpoint->Find(slot.name);
    ROPELAB_RETURN_IF_ERROR(ReadSlot(slot, entry, checkpoint, dtype, *model));
    done += static_cast<int64_t>(entry.bytes.size());
    progress(done, total);
  }
  const double seconds = std::chrono::duration<double>(Clock::Real().Monotonic() - began).count();
  spdlog::info("{}: {} bytes of weights read in {:.3f} s", model->directory, total, seconds);
  return absl::OkStatus();
}

// What headers tell: the model without its weights, and where each weight will go.
struct Opened {
  std::shared_ptr<LoadedModel> model = std::make_shared<LoadedModel>();
  std::shared_ptr<const formats::Checkpoint> checkpoint;
  formats::WeightNames names;
  std::vector<WeightSlot> slots;  // within model->weights
};

absl::StatusOr<Opened> OpenModel(const std::string& directory, at::ScalarType dtype) {
  ROPELAB_RETURN_IF_ERROR(CheckDtype(dtype));
  Opened opened;
  LoadedModel& model = *opened.model;
  model.directory = directory;
  model.dtype = dtype == kInt8Weights ? at::kFloat : dtype;
  ROPELAB_ASSIGN_OR_RETURN(model.config, formats::ReadConfig(directory));
  ROPELAB_ASSIGN_OR_RETURN(formats::Checkpoint checkpoint, formats::Checkpoint::Open(directory));
  opened.checkpoint = std::make_shared<const formats::Checkpoint>(std::move(checkpoint));
  ROPELAB_RETURN_IF_ERROR(CheckHeaders(*opened.checkpoint, directory, model.config));
  opened.names = StoredNames(*opened.checkpoint, model.config);
  opened.slots = WeightSlots(model.config, opened.names, &model.weights);
  model.bytes = SlotBytes(opened.slots, dtype);
  return opened;
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> Load(const std::string& directory, at::ScalarType dtype,
                                                        at::Device device, int64_t memory_limit,
                                                        Progress progress) {
  ROPELAB_ASSIGN_OR_RETURN(const Opened opened, OpenModel(directory, dtype));
  LoadedModel& model = *opened.model;
  model.device = device;
  ROPELAB_RETURN_IF_ERROR(CheckMemory(directory, model.bytes, memory_limit, dtype));
  ROPELAB_RETURN_IF_ERROR(CheckTiedBytes(*opened.checkpoint, directory, model.config, opened.names));
  ROPELAB_RETURN_IF_ERROR(ReadWeights(opened.checkpoint, opened.slots, dtype, &model, progress));
  if (model.config.tied_embeddings) model.weights.lm_head = model.weights.embedding;
  model.inv_freq = formats::InverseFrequencies(model.config);
  return opened.model;
}

}  // namespace

absl::StatusOr<int64_t> ModelBytes(const std::string& directory, at::ScalarType dtype) {
  ROPELAB_ASSIGN_OR_RETURN(const Opened opened, OpenModel(directory, dtype));
  return opened.model->bytes;
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> LoadModel(const std::string& directory,
                                                             at::ScalarType dtype, at::Device device,
                                                             int64_t memory_limit, Progress progress) {
  try {
    return Load(directory, dtype, device, memory_limit, progress);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(directory, ": out of memory while loading the weights"));
  } catch (const c10::Error& error) {
    return absl::ResourceExhaustedError(absl::StrCat(directory, ": the weights cannot be placed on ",
                                                     device.str(), ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(directory, ": loading failed: ", error.what()));
  }
}

}  // namespace ropelab::model
