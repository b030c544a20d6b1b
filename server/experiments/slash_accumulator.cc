#include "server/experiments/slash_accumulator.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace ropelab::experiments {

SlashAccumulator::SlashAccumulator(const ModelFacts& model, const MeasuredRange& range)
    : range_(range),
      layers_(model.config.layers()),
      heads_(model.config.query_heads()),
      offsets_(range.last - range.first + 1),
      cells_(static_cast<size_t>(layers_ * heads_ * offsets_)) {
  for (int64_t layer = 0; layer < layers_; ++layer) {
    windows_.push_back(WindowOf(model, layer));
  }
}

size_t SlashAccumulator::Index(int64_t layer, int64_t head, int64_t offset) const {
  return static_cast<size_t>((layer * heads_ + head) * offsets_ + offset - range_.first);
}

bool SlashAccumulator::Reachable(int64_t layer, int64_t offset) const {
  const int64_t window = windows_[static_cast<size_t>(layer)];
  return window == 0 || offset < window;
}

const statistics::Moments& SlashAccumulator::At(int64_t layer, int64_t head, int64_t offset) const {
  return cells_[Index(layer, head, offset)];
}

absl::Status SlashAccumulator::Add(const v1::SlashBlock& block) {
  const int64_t last = block.first_offset() + block.offsets() - 1;
  const bool within = block.layer() >= 0 && block.layer() < layers_ && block.first_head() >= 0 &&
                      block.heads() >= 0 && block.first_head() <= heads_ - block.heads() &&
                      block.offsets() >= 0 && block.first_offset() >= range_.first && last <= range_.last;
  if (!within) {
    return absl::InternalError(absl::StrCat("a slash block of layer ", block.layer(), ", heads from ",
                                            block.first_head(), ", offsets ", block.first_offset(), " to ",
                                            last, " lies outside what was asked for"));
  }
  const int64_t scores = block.heads() * block.offsets();
  if (block.mean_size() != scores || block.m2_size() != scores) {
    return absl::InternalError(absl::StrCat("a slash block of ", scores, " scores carries ",
                                            block.mean_size(), " means and ", block.m2_size(),
                                            " sums of squares"));
  }
  for (int64_t i = 0; i < scores; ++i) {
    const int64_t head = block.first_head() + i / block.offsets();
    const int64_t offset = block.first_offset() + i % block.offsets();
    const int index = static_cast<int>(i);
    if (!Reachable(block.layer(), offset)) {
      continue;
    }
    if (!std::isfinite(block.mean(index)) || !std::isfinite(block.m2(index))) {
      return absl::DataLossError(
          absl::StrCat("the slash score of L", block.layer(), "H", head, " at offset ", offset,
                       " is not a finite number; the checkpoint's weights may hold NaN"));
    }
    statistics::Merge({block.prompts(), block.mean(index), block.m2(index)},
                      cells_[Index(block.layer(), head, offset)]);
  }
  return absl::OkStatus();
}

absl::Status SlashAccumulator::CheckComplete(int64_t prompts) const {
  for (int64_t layer = 0; layer < layers_; ++layer) {
    for (int64_t head = 0; head < heads_; ++head) {
      for (int64_t offset = range_.first; offset <= range_.last; ++offset) {
        const int64_t n = At(layer, head, offset).n;
        if (Reachable(layer, offset) && n != prompts) {
          return absl::InternalError(absl::StrCat("L", layer, "H", head, " at offset ", offset,
                                                  " was measured on ", n, " prompts, not ", prompts));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace ropelab::experiments
