#include "worker/formats/window_fields.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ropelab::formats {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 30;

std::vector<bool> SlidingLayers(ConfigFields& fields, size_t layers,
                                absl::FunctionRef<bool(int64_t layer)> slides) {
  std::vector<bool> sliding;
  if (!fields.Has("layer_types")) {
    for (size_t layer = 0; layer < layers; ++layer) sliding.push_back(slides(static_cast<int64_t>(layer)));
    return sliding;
  }
  for (const std::string& type : fields.Texts("layer_types", layers)) {
    if (type != "sliding_attention" && type != "full_attention") {
      fields.Refuse(absl::StrCat("layer_types[", sliding.size(), "]"), absl::StrCat("\"", type, "\""),
                    "it must be sliding_attention or full_attention");
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

}  // namespace

int64_t ReadWindow(ConfigFields& fields, int64_t missing) {
  if (!fields.Has("sliding_window")) return fields.Given("sliding_window") ? 0 : missing;
  return fields.Integer("sliding_window", 1, kMaxWindow, missing);
}

void FillWindows(ConfigFields& fields, ModelConfig& config, int64_t window,
                 absl::FunctionRef<bool(int64_t layer)> slides) {
  const std::vector<bool> sliding = SlidingLayers(fields, static_cast<size_t>(config.layers),
                                                  [&](int64_t layer) { return window > 0 && slides(layer); });
  config.sliding_window.clear();
  for (const bool slide : sliding) {
    if (slide && window == 0) {
      fields.Refuse(absl::StrCat("layer_types[", config.sliding_window.size(), "]"), "\"sliding_attention\"",
                    "but no window is in use; set sliding_window, and use_sliding_window where the family "
                    "has it, or say full_attention");
    }
    config.sliding_window.push_back(slide ? window : 0);
  }
}

void FillFixedWindows(ConfigFields& fields, ModelConfig& config, int64_t window, bool slides) {
  FillWindows(fields, config, window, [&](int64_t) { return slides; });
  for (size_t layer = 0; layer < config.sliding_window.size(); ++layer) {
    if ((config.sliding_window[layer] > 0) == (slides && window > 0)) continue;
    fields.Refuse(absl::StrCat("layer_types[", layer, "]"),
                  config.sliding_window[layer] > 0 ? "\"sliding_attention\"" : "\"full_attention\"",
                  absl::StrCat(config.family, " does not look at it and ",
                               slides && window > 0 ? "slides on every layer" : "slides on none",
                               "; give the checkpoint the model_type that it was made for"));
  }
}

}  // namespace ropelab::formats
