#include "worker/train/train_state.h"

#include <ATen/ATen.h>

#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/safetensors_writer.h"

namespace ropelab::train {
namespace {

constexpr char kProgress[] = "state.numbers";  // step, stage, tokens
constexpr char kCurve[] = "state.curve";
constexpr char kCheckpoints[] = "state.checkpoints";
constexpr char kRecipe[] = "state.recipe";
constexpr size_t kCount = 3;

// Every tensor of the state that is computed with, by name.
std::vector<std::pair<std::string, at::Tensor>> Tensors(const TrainableModel& model, const AdamW& optimizer) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  const auto& parameters = model.Parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    tensors.emplace_back("weight." + parameters[i].first, parameters[i].second.detach());
    tensors.emplace_back("first." + parameters[i].first, optimizer.first()[i]);
    tensors.emplace_back("second." + parameters[i].first, optimizer.second()[i]);
  }
  return tensors;
}

formats::NamedTensor Text(const char* name, const std::string& text) {
  return {name, "U8", {static_cast<int64_t>(text.size())}, text};
}

absl::StatusOr<std::string_view> BytesOf(const formats::Checkpoint& file, const std::string& directory,
                                         const std::string& name, std::string_view dtype) {
  const formats::TensorEntry* entry = file.Find(name);
  if (entry == nullptr || entry->dtype != dtype) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory, ": holds no ", std::string(dtype), " tensor ", name,
                     ", so it is no state of this recipe; remove the folder to begin again"));
  }
  return entry->bytes;
}

}  // namespace

absl::Status SaveState(const std::string& directory, const Recipe& recipe, const TrainState& state,
                       const TrainableModel& model, const AdamW& optimizer) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(directory, ": cannot be made: ", error.message()));
  }
  const int64_t numbers[kCount] = {state.step, state.stage, state.tokens};
  std::vector<formats::NamedTensor> file;
  file.push_back(
      {kProgress, "I64", {kCount}, std::string(reinterpret_cast<const char*>(numbers), sizeof numbers)});
  file.push_back(Text(kCurve, state.curve));
  file.push_back(Text(kCheckpoints, state.checkpoints));
  file.push_back(Text(kRecipe, recipe.text));
  for (const auto& [name, tensor] : Tensors(model, optimizer)) {
    formats::NamedTensor entry{name, "F32", tensor.sizes().vec(), ""};
    entry.bytes.assign(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
    file.push_back(std::move(entry));
  }
  return formats::WriteSafetensors((std::filesystem::path(directory) / "model.safetensors").string(), file);
}

absl::StatusOr<TrainState> LoadState(const std::string& directory, const Recipe& recipe,
                                     const TrainableModel& model, const AdamW& optimizer) {
  const std::filesystem::path path = std::filesystem::path(directory) / "model.safetensors";
  if (!std::filesystem::exists(path))
    return absl::NotFoundError(absl::StrCat(path.string(), ": no such file"));
  ROPELAB_ASSIGN_OR_RETURN(const formats::Checkpoint file, formats::Checkpoint::Open(directory));
  ROPELAB_ASSIGN_OR_RETURN(const std::string_view made_with, BytesOf(file, directory, kRecipe, "U8"));
  if (made_with != recipe.text) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory, ": was made with another recipe; remove the folder to begin again"));
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::string_view numbers, BytesOf(file, directory, kProgress, "I64"));
  ROPELAB_ASSIGN_OR_RETURN(const std::string_view curve, BytesOf(file, directory, kCurve, "U8"));
  ROPELAB_ASSIGN_OR_RETURN(const std::string_view checkpoints, BytesOf(file, directory, kCheckpoints, "U8"));
  int64_t values[kCount] = {};
  if (numbers.size() != sizeof values) {
    return absl::InvalidArgumentError(absl::StrCat(directory, ": ", kProgress, " has ", numbers.size(),
                                                   " bytes; a state has ", sizeof values));
  }
  std::memcpy(values, numbers.data(), sizeof values);
  for (const auto& [name, tensor] : Tensors(model, optimizer)) {
    ROPELAB_ASSIGN_OR_RETURN(const std::string_view bytes, BytesOf(file, directory, name, "F32"));
    if (bytes.size() != tensor.nbytes()) {
      return absl::FailedPreconditionError(absl::StrCat(directory, ": ", name, " has ", bytes.size(),
                                                        " bytes, where the recipe's shape has ",
                                                        tensor.nbytes()));
    }
    std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  }
  return TrainState{values[0], values[1], values[2], std::string(curve), std::string(checkpoints)};
}

}  // namespace ropelab::train
