#include "worker/measure/slash_scoring.h"

#include "absl/strings/str_cat.h"

namespace ropelab::measure {

absl::StatusOr<SlashScoring> ReadScoring(const v1::SlashProfile& request) {
  SlashScoring scoring;
  scoring.range = {request.first_offset(), request.last_offset(), request.skip_first(),
                   request.rows() == v1::Rows::COMMON};
  scoring.definition = request.denominator() == v1::Denominator::DEFINITION;
  if (request.first_offset() < 0 || request.last_offset() < request.first_offset()) {
    return absl::InvalidArgumentError(absl::StrCat("offsets ", request.first_offset(), "..",
                                                   request.last_offset(),
                                                   " are no range: 0 <= first <= last"));
  }
  if (request.skip_first() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("skip_first is ", request.skip_first(), "; it cannot be negative"));
  }
  if (scoring.range.common_rows && scoring.definition) {
    return absl::InvalidArgumentError(
        "rows COMMON and denominator DEFINITION do not go together; choose KEPT");
  }
  return scoring;
}

absl::Status CheckOffsets(const SlashScoring& scoring, const std::vector<TokenIds>& prompts,
                          int64_t first_sample) {
  for (size_t s = 0; s < prompts.size(); ++s) {
    const int64_t n = static_cast<int64_t>(prompts[s].size());
    if (scoring.Denominator(n, scoring.range.last_offset) < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("sample ", first_sample + static_cast<int64_t>(s), " has ", n, " tokens: offset ",
                       scoring.range.last_offset, " with skip_first ", scoring.range.skip_first,
                       " leaves no row to average; the largest offset is ",
                       scoring.definition ? n - 1 : n - 1 - scoring.range.skip_first));
    }
  }
  return absl::OkStatus();
}

void SlashMoments::Add(const std::vector<double>& values, int64_t n) {
  mean.resize(values.size());
  m2.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double delta = values[i] - mean[i];
    mean[i] += delta / static_cast<double>(n);
    m2[i] += delta * (values[i] - mean[i]);
  }
}

}  // namespace ropelab::measure
