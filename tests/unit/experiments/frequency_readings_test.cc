#include "frequency_fakes.h"

namespace ropelab::experiments {
namespace {

using testing::HasSubstr;

TEST(FrequencyReadings, FrequenciesThatDependOnTheLengthAreNamed) {
  const auto results =
      RunAll(Frequency(), [](int64_t stage, int64_t task, std::vector<v1::Reading>& readings) {
        if (stage == 1 && task == 1) {
          readings[0].mutable_head_frequencies()->set_theta(3, 0.2);
        }
      });
  EXPECT_EQ(results.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(results.status().message()), HasSubstr("give prompts of one length"));
}

TEST(FrequencyReadings, ReadingsThatAreNotThoseOfThePlanAreRefused) {
  using Readings = std::vector<v1::Reading>;
  struct Wrong {
    const char* what;
    Change change;
    absl::StatusCode code;
    const char* said;
  };
  const auto internal = absl::StatusCode::kInternal;
  const auto at = [](int64_t stage, int64_t task, std::function<void(Readings&)> change) -> Change {
    return [=](int64_t s, int64_t t, Readings& readings) {
      if (s == stage && t == task) {
        change(readings);
      }
    };
  };
  // Stage 1: profiles 0 and 1, scores 2 and 3; a head's profile has two pieces of a heat map behind it.
  const std::vector<Wrong> wrongs = {
      {"a head missing", at(1, 1, [](Readings& r) { r.erase(r.begin()); }), internal,
       "L0H2 of model toy, seed 42 was profiled on 8 prompts, not 10"},
      {"a piece missing", at(1, 0, [](Readings& r) { r.erase(r.begin() + 2); }), internal,
       "row 64 of the heat map of L0H2 of model toy, seed 42 has pair 6 of 2 prompts, not 10"},
      {"a piece that is too short",
       at(1, 0, [](Readings& r) { r[1].mutable_heat_map_piece()->mutable_inp()->RemoveLast(); }), internal,
       "has a piece that does not fit"},
      {"a row that nobody asked for",
       at(1, 0, [](Readings& r) { r[1].mutable_heat_map_piece()->set_row(5); }), internal,
       "row 6 of the heat map"},
      {"a head that nobody asked for",
       at(1, 0, [](Readings& r) { r[0].mutable_head_frequencies()->set_head(0); }), internal, "nobody asked"},
      {"a pair missing",
       at(1, 0, [](Readings& r) { r[0].mutable_head_frequencies()->mutable_mean_inp()->RemoveLast(); }),
       internal, "do not hold 8 pairs"},
      {"a number that is none",
       at(1, 0, [](Readings& r) { r[0].mutable_head_frequencies()->set_mean_inp(2, kNone); }),
       absl::StatusCode::kDataLoss, "a mean of L0H2"},
      {"a score missing", at(1, 3, [](Readings& r) { r.pop_back(); }), internal,
       "removal 2 of L1H3 of model toy, seed 42 was scored on 8 prompts, not 10"},
      {"a score at another offset",
       at(1, 2, [](Readings& r) { r[1].mutable_slash_block()->set_first_offset(3); }), internal,
       "removal 1 of L0H2"},
      {"a removal that nobody asked for",
       at(1, 2, [](Readings& r) { r[1].mutable_slash_block()->set_removal(3); }), internal,
       "removal 3 of L0H2"},
      {"another kind", at(1, 0, [](Readings& r) { r[0].mutable_slash_block(); }), internal,
       "task 0 gave a reading that is no part of its measurement"},
      {"a fit missing", at(2, 1, [](Readings& r) { r.pop_back(); }), internal,
       "L1H3 of model toy, seed 42 was fitted on 9 prompts, not 10"},
      {"a fit twice", at(2, 0, [](Readings& r) { r.insert(r.begin(), r.front()); }), internal,
       "the fit of sample 0 was given where sample 1 is due"},
      {"another kind among fits", at(2, 1, [](Readings& r) { r[0].mutable_slash_block(); }), internal,
       "task 1 gave a reading that is no part of its measurement"},
  };
  for (const Wrong& wrong : wrongs) {
    const auto results = RunAll(Frequency("removals { pairs: [1] }"), wrong.change);
    EXPECT_EQ(results.status().code(), wrong.code) << wrong.what << ": " << results.status();
    EXPECT_THAT(std::string(results.status().message()), HasSubstr(wrong.said)) << wrong.what;
  }
}

}  // namespace
}  // namespace ropelab::experiments
