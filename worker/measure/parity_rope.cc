#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/engine/rope.h"
#include "worker/measure/parity_checks.h"
#include "worker/measure/parity_frequencies.h"

namespace ropelab::measure {
namespace {

constexpr int64_t kPositions = 64;                   // looked at in each of the two tables
constexpr int64_t kLongestTable = int64_t{1} << 20;  // rows; longer contexts are looked at up to here

// Distance in units in the last place of fp32 at `exact`.
double Ulps(float value, long double exact) {
  const int exponent = std::max(std::ilogb(static_cast<double>(exact)), -126);
  const long double distance = std::fabs(static_cast<long double>(value) - exact);
  return distance == 0 ? 0 : static_cast<double>(std::ldexp(distance, 23 - exponent));
}

struct RopeFound {
  Worst table;       // ulp
  Worst fp32_angle;  // absolute
  double fp32_bound = 0;
};

// One table of `tokens` rows, at `positions`.
RopeFound CheckTable(const model::LoadedModel& model, int64_t tokens, const std::vector<int64_t>& positions) {
  const formats::ModelConfig& config = model.config;
  const auto table = engine::RotaryTable::OfPrompt(config, tokens, model.device);
  const std::vector<double> frequencies = formats::InverseFrequencies(config, tokens);
  const auto pairs = static_cast<int64_t>(frequencies.size());
  const double factor = config.rope_scaling.attention_factor;
  // (1, 0) turned is (cos, sin).
  const at::Tensor unit = at::cat({at::ones({1, 1, pairs}), at::zeros({1, 1, pairs})}, 2).to(model.device);
  RopeFound found;
  for (const int64_t position : positions) {
    const at::Tensor turned = table.RotateAt(unit, position).flatten().to(at::kCPU).contiguous();
    const float* row = turned.data_ptr<float>();
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const double frequency = frequencies[static_cast<size_t>(pair)];
      const long double angle = static_cast<long double>(position) * frequency;
      const float fp32_angle = static_cast<float>(position) * static_cast<float>(frequency);
      const std::string where = absl::StrCat("position ", position, ", pair ", pair + 1);
      const long double exact[] = {factor * std::cos(angle), factor * std::sin(angle)};
      const double fp32_way[] = {factor * std::cos(static_cast<double>(fp32_angle)),
                                 factor * std::sin(static_cast<double>(fp32_angle))};
      for (int part = 0; part < 2; ++part) {
        const float value = row[part * pairs + pair];
        found.table.See(Ulps(value, exact[part]), where);
        found.fp32_angle.See(std::fabs(value - fp32_way[part]), where);
      }
      // An fp32 angle is off by half a unit in its last place at most, and each side is rounded once.
      found.fp32_bound =
          std::max(found.fp32_bound, factor * (static_cast<double>(angle) * 0x1p-24 + 0x1p-23));
    }
  }
  return found;
}

}  // namespace

void CheckRope(const model::LoadedModel& model, FactList& facts) {
  const int64_t longest = std::min(model.config.max_positions, kLongestTable);
  const int64_t count = std::min(kPositions, longest);
  std::vector<int64_t> short_positions, long_positions;
  for (int64_t i = 0; i < count; ++i) {
    short_positions.push_back(i);
    long_positions.push_back(longest - 1 - i * (longest / count));
  }

  Worst formula;
  for (const int64_t tokens : {count, longest}) {
    const std::vector<double> fp32 = formats::InverseFrequencies(model.config, tokens);
    const std::vector<double> plain = PlainFrequencies(model.config, tokens);
    for (size_t pair = 0; pair < plain.size(); ++pair) {
      formula.See(std::fabs(fp32[pair] - plain[pair]) / plain[pair],
                  absl::StrCat("pair ", pair + 1, ", ", tokens, " tokens"));
    }
  }
  // A frequency is a power of theta with an exponent of 24 bits: its error is that times ln theta, below 35.
  facts.Bounded("rope_frequencies", formula, 1e-5, "relative");

  const RopeFound near = CheckTable(model, count, short_positions);
  const RopeFound far = CheckTable(model, longest, long_positions);
  // Rounded once: half a unit; the rest allows for double's own error.
  facts.Bounded("rope_table_short", near.table, 0.5001, "ulp");
  facts.Bounded("rope_table_long", far.table, 0.5001, "ulp");
  facts.Bounded("rope_fp32_angles_short", near.fp32_angle, near.fp32_bound, "absolute");
  facts.Bounded("rope_fp32_angles_long", far.fp32_angle, far.fp32_bound, "absolute");
}

}  // namespace ropelab::measure
