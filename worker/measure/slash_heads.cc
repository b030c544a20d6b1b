#include "worker/measure/slash_heads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/decoder.h"

namespace ropelab::measure {
namespace {

constexpr int64_t kNumbersPerPiece = 65536;  // doubles: half of what a reading may hold
constexpr int64_t kLargestMap = 4096;

std::vector<std::vector<int64_t>> RemovalsOf(const v1::SlashProfile& request) {
  std::vector<std::vector<int64_t>> removals;
  for (const v1::PairList& list : request.removals()) {
    removals.emplace_back(list.pairs().begin(), list.pairs().end());
  }
  return removals;
}

// Heads of the layer that has the most.
size_t MostHeads(const std::vector<engine::OffsetHead>& heads) {
  std::map<int64_t, size_t> counts;
  size_t most = 0;
  for (const engine::OffsetHead& head : heads) most = std::max(most, ++counts[head.layer]);
  return most;
}

void AddTo(const std::vector<double>& values, std::vector<double>& sums) {
  sums.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
}

}  // namespace

absl::StatusOr<std::vector<engine::OffsetHead>> ReadHeads(const v1::SlashProfile& request,
                                                          const formats::ModelConfig& config) {
  std::vector<engine::OffsetHead> heads;
  for (const v1::MeasuredHead& head : request.heads()) {
    const std::string name = absl::StrCat("L", head.layer(), "H", head.head());
    if (head.layer() < 0 || head.layer() >= config.layers || head.head() < 0 ||
        head.head() >= config.query_heads) {
      return absl::InvalidArgumentError(absl::StrCat("head ", name, " is not in the model: it has ",
                                                     config.layers, " layers of ", config.query_heads,
                                                     " heads, both from 0"));
    }
    if (!heads.empty() && std::pair(heads.back().layer, heads.back().head) >=
                              std::pair<int64_t, int64_t>(head.layer(), head.head())) {
      return absl::InvalidArgumentError(
          absl::StrCat("head ", name, " is out of order: heads ascend by layer and head, each once"));
    }
    const bool within = head.offset() >= request.first_offset() && head.offset() <= request.last_offset();
    if (request.removals_size() > 0 && !(head.has_offset() && within)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "head ", name, " has ", head.has_offset() ? absl::StrCat("offset ", head.offset()) : "no offset",
          ": under removals it needs one of ", request.first_offset(), "..", request.last_offset()));
    }
    heads.push_back({head.layer(), head.head(), head.offset()});
  }
  return heads;
}

absl::Status CheckHeadWork(const v1::SlashProfile& request, const std::vector<TokenIds>& prompts) {
  if (request.map_size() < 0 || request.map_size() > kLargestMap) {
    return absl::InvalidArgumentError(absl::StrCat("map_size is ", request.map_size(), "; a map has 1 to ",
                                                   kLargestMap, " cells a side, 0 says no maps"));
  }
  if (request.heads_size() == 0 && (request.map_size() > 0 || request.removals_size() > 0)) {
    return absl::InvalidArgumentError("maps and removals are taken of named heads, and none is named");
  }
  for (const TokenIds& ids : prompts) {
    if (request.map_size() > 0 && ids.size() != prompts.front().size()) {
      return absl::InvalidArgumentError(absl::StrCat("maps need prompts of one length, and these have ",
                                                     prompts.front().size(), " and ", ids.size(), " tokens"));
    }
  }
  return absl::OkStatus();
}

HeadProfiler::HeadProfiler(const model::LoadedModel& model, const v1::SlashProfile& request,
                           const SlashScoring& scoring, std::vector<engine::OffsetHead> heads)
    : model_(model),
      request_(request),
      scoring_(scoring),
      heads_(std::move(heads)),
      removals_(model.config, heads_, RemovalsOf(request), scoring.range, engine::kBlockRows) {}

absl::Status HeadProfiler::StartPrompt(int64_t tokens) {
  tokens_ = tokens;
  ++prompts_;
  if (request_.map_size() > 0) {
    if (maps_ == nullptr) {
      maps_ =
          std::make_unique<Maps>(Maps{engine::MapSums({tokens, request_.map_size()}, MostHeads(heads_)), {}});
      maps_->totals.resize(heads_.size());
    }
    StartMaps(0);
  }
  return removals_.StartPrompt(tokens, model_.device);
}

void HeadProfiler::StartMaps(int64_t layer) {
  std::vector<int64_t> named;
  for (const engine::OffsetHead& head : heads_) {
    if (head.layer == layer) named.push_back(head.head);
  }
  maps_->sums.Start(std::move(named));
}

void HeadProfiler::Projected(const engine::ProjectedRows& rows) {
  removals_.Projected(rows);
}

void HeadProfiler::Probabilities(const engine::ProbabilityBlock& block) {
  if (maps_ != nullptr) maps_->sums.Add(block);
}

absl::Status HeadProfiler::LayerDone(int64_t layer, absl::FunctionRef<absl::Status(double share)> done) {
  if (maps_ != nullptr) {
    size_t place = 0;
    for (size_t h = 0; h < heads_.size(); ++h) {
      if (heads_[h].layer != layer) continue;
      const engine::MapSums::Map map = maps_->sums.Take(place++);
      AddTo(map.cells, maps_->totals[h].cells);
      AddTo(map.diagonals, maps_->totals[h].diagonals);
    }
    StartMaps(layer + 1);
  }
  ROPELAB_RETURN_IF_ERROR(removals_.FinishLayer(layer, done));
  if (layer + 1 == model_.config.layers) AddScores();
  return absl::OkStatus();
}

void HeadProfiler::AddScores() {
  std::vector<double> scores = removals_.sums();
  for (size_t i = 0; i < scores.size(); ++i) {
    scores[i] /= static_cast<double>(scoring_.Denominator(tokens_, heads_[i % heads_.size()].offset));
  }
  moments_.Add(scores, prompts_);
}

absl::Status HeadProfiler::EmitAll(Recorder& recorder) const {
  for (size_t i = 0; i < moments_.mean.size(); ++i) {
    const engine::OffsetHead& head = heads_[i % heads_.size()];
    v1::Reading reading;
    v1::SlashBlock& block = *reading.mutable_slash_block();
    block.set_layer(static_cast<int32_t>(head.layer));
    block.set_first_head(static_cast<int32_t>(head.head));
    block.set_heads(1);
    block.set_first_offset(head.offset);
    block.set_offsets(1);
    block.set_prompts(prompts_);
    block.add_mean(moments_.mean[i]);
    block.add_m2(moments_.m2[i]);
    block.set_removal(static_cast<int32_t>(i / heads_.size() + 1));
    ROPELAB_RETURN_IF_ERROR(recorder.Emit(std::move(reading), {}));
  }
  for (size_t h = 0; maps_ != nullptr && h < heads_.size(); ++h) {
    ROPELAB_RETURN_IF_ERROR(EmitMap(heads_[h], maps_->totals[h], recorder));
  }
  return absl::OkStatus();
}

absl::Status HeadProfiler::EmitMap(const engine::OffsetHead& head, const engine::MapSums::Map& total,
                                   Recorder& recorder) const {
  const auto emit = [&](const std::vector<double>& sums, bool cells) -> absl::Status {
    const int64_t count = static_cast<int64_t>(sums.size());
    for (int64_t first = 0; first < count; first += kNumbersPerPiece) {
      v1::Reading reading;
      v1::MapBlock& block = *reading.mutable_map_block();
      block.set_layer(static_cast<int32_t>(head.layer));
      block.set_head(static_cast<int32_t>(head.head));
      block.set_prompts(prompts_);
      block.set_size(maps_->sums.grid().cells());
      cells ? block.set_first_cell(first) : block.set_first_offset(first);
      auto& to = cells ? *block.mutable_cells() : *block.mutable_diagonals();
      for (int64_t i = first; i < std::min(first + kNumbersPerPiece, count); ++i) {
        to.Add(sums[i] / static_cast<double>(prompts_));
      }
      ROPELAB_RETURN_IF_ERROR(recorder.Emit(std::move(reading), {}));
    }
    return absl::OkStatus();
  };
  ROPELAB_RETURN_IF_ERROR(emit(total.cells, true));
  return emit(total.diagonals, false);
}

int64_t HeadProfiler::Bytes(const v1::SlashProfile& request, const model::LoadedModel& model,
                            int64_t tokens) {
  const absl::StatusOr<std::vector<engine::OffsetHead>> heads = ReadHeads(request, model.config);
  if (!heads.ok() || heads->empty()) return 0;
  int64_t bytes = 0;
  if (request.removals_size() > 0) {
    bytes +=
        engine::RemovalScores::Bytes(model.config, *heads, tokens, engine::kBlockRows, at::get_num_threads());
    bytes += 4 * static_cast<int64_t>(sizeof(double)) * request.removals_size() * request.heads_size();
  }
  if (request.map_size() > 0) {
    const int64_t cells = std::min<int64_t>(std::min(request.map_size(), kLargestMap), tokens);
    const int64_t maps = engine::kStrips * static_cast<int64_t>(MostHeads(*heads)) + request.heads_size() + 2;
    bytes += maps * (cells * cells + tokens) * static_cast<int64_t>(sizeof(double));
  }
  return bytes;
}

}  // namespace ropelab::measure
