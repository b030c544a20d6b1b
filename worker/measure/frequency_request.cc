#include "worker/measure/frequency_request.h"

#include <tuple>

#include "absl/strings/str_cat.h"
#include "worker/engine/removal_pairs.h"

namespace ropelab::measure {

std::string HeadName(const v1::MeasuredHead& head) {
  return absl::StrCat("L", head.layer(), "H", head.head());
}

absl::StatusOr<std::vector<engine::NamedHead>> ReadFrequencyHeads(const NamedHeads& heads,
                                                                  const formats::ModelConfig& config) {
  if (heads.empty() || heads.size() > kMostFrequencyHeads) {
    return absl::InvalidArgumentError(
        absl::StrCat("heads names ", heads.size(), " heads; a task takes 1 to ", kMostFrequencyHeads));
  }
  std::vector<engine::NamedHead> read;
  for (const v1::MeasuredHead& head : heads) {
    if (head.layer() < 0 || head.layer() >= config.layers || head.head() < 0 ||
        head.head() >= config.query_heads) {
      return absl::InvalidArgumentError(absl::StrCat("head ", HeadName(head), " is not in the model: it has ",
                                                     config.layers, " layers of ", config.query_heads,
                                                     " heads, both from 0"));
    }
    if (!read.empty() && std::tuple<int64_t, int64_t>(read.back().layer, read.back().head) >=
                             std::tuple<int64_t, int64_t>(head.layer(), head.head())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "head ", HeadName(head), " is out of order: heads ascend by layer and head, each once"));
    }
    read.push_back({head.layer(), head.head()});
  }
  return read;
}

absl::Status CheckOneFrequency(const std::vector<TokenIds>& prompts, const formats::ModelConfig& config) {
  if (!formats::FrequenciesDependOnLength(config)) return absl::OkStatus();
  for (const TokenIds& ids : prompts) {
    if (ids.size() == prompts.front().size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("prompts have ", prompts.front().size(), " and ", ids.size(),
                     " tokens, and this model's RoPE frequencies depend on the length: give prompts of one "
                     "length"));
  }
  return absl::OkStatus();
}

FrequencyPairs PairsOfPrompt(const formats::ModelConfig& config, int64_t tokens) {
  const std::vector<double> stored = formats::InverseFrequencies(config, tokens);
  FrequencyPairs pairs{engine::PairsByFrequency(stored), {}};
  for (const int64_t place : pairs.places) pairs.theta.push_back(stored[place]);
  return pairs;
}

}  // namespace ropelab::measure
