#include <algorithm>
#include <exception>
#include <filesystem>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/families.h"
#include "worker/model/loaded_model.h"
#include "worker/model/tensor_reader.h"
#include "worker/model/weight_slots.h"

namespace ropelab::model {
namespace {

using Progress = absl::FunctionRef<void(int64_t done, int64_t total)>;

absl::Status CheckDtype(at::ScalarType dtype) {
  if (dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("dtype ", c10::toString(dtype),
                                                 " is not computed with; use float32, bfloat16 or float16"));
}

absl::Status CheckMemory(const std::string& directory, int64_t bytes, int64_t limit) {
  if (limit <= 0 || bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrFormat("%s: the weights need %d bytes (%.2f GiB), the worker may use %d (%.2f GiB); raise the "
                      "worker's memory limit or use a "
                      "16-bit dtype",
                      directory, bytes, static_cast<double>(bytes) / (1 << 30), limit,
                      static_cast<double>(limit) / (1 << 30)));
}

// Some tools keep only lm_head of the two tied names.
formats::WeightNames NamesIn(const formats::Checkpoint& checkpoint, const formats::ModelConfig& config,
                             formats::WeightNames names) {
  if (config.tied_embeddings && checkpoint.Find(names.embedding) == nullptr &&
      checkpoint.Find(names.lm_head) != nullptr) {
    names.embedding = names.lm_head;
  }
  return names;
}

absl::Status ReadWeights(const std::shared_ptr<const formats::Checkpoint>& checkpoint,
                         const std::vector<WeightSlot>& slots, LoadedModel* model, Progress progress) {
  int64_t total = 0;
  for (const WeightSlot& slot : slots)
    total += static_cast<int64_t>(checkpoint->Find(slot.name)->bytes.size());
  int64_t done = 0;
  progress(done, total);
  for (const WeightSlot& slot : slots) {
    const formats::TensorEntry& entry = *checkpoint->Find(slot.name);
    const std::string where =
        absl::StrCat((std::filesystem::path(model->directory) / entry.file).string(), ": tensor ", slot.name);
    ROPELAB_ASSIGN_OR_RETURN(*slot.place, ReadTensor(entry, checkpoint, model->dtype, model->device, where));
    done += static_cast<int64_t>(entry.bytes.size());
    progress(done, total);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> Load(const std::string& directory, at::ScalarType dtype,
                                                        at::Device device, int64_t memory_limit,
                                                        Progress progress) {
  ROPELAB_RETURN_IF_ERROR(CheckDtype(dtype));
  auto model = std::make_shared<LoadedModel>();
  model->directory = directory;
  model->dtype = dtype;
  model->device = device;
  ROPELAB_ASSIGN_OR_RETURN(model->config, formats::ReadConfig(directory));
  const formats::Family* family = formats::FindFamily(model->config.family);
  ROPELAB_ASSIGN_OR_RETURN(formats::Checkpoint opened, formats::Checkpoint::Open(directory));
  const auto checkpoint = std::make_shared<const formats::Checkpoint>(std::move(opened));
  const formats::WeightNames names = NamesIn(*checkpoint, model->config, family->names);
  const std::vector<WeightSlot> slots = WeightSlots(model->config, names, &model->weights);
  ROPELAB_RETURN_IF_ERROR(CheckTensors(*checkpoint, directory, model->config, names, slots));
  model->bytes = SlotBytes(slots, dtype);
  ROPELAB_RETURN_IF_ERROR(CheckMemory(directory, model->bytes, memory_limit));
  ROPELAB_RETURN_IF_ERROR(ReadWeights(checkpoint, slots, model.get(), progress));
  if (model->config.tied_embeddings) model->weights.lm_head = model->weights.embedding;
  model->inv_freq = formats::InverseFrequencies(model->config);
  return model;
}

}  // namespace

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
