// The table `needle_samples`.
#include "server/experiments/needles.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kWholeInSql = 262144;  // rows

TableBuilder& Lead(TableBuilder& table, const std::string& label, const std::string& dtype,
                   const std::string& numerics_class, uint64_t seed, const v1::NeedleSample& sample,
                   bool kept) {
  return table.Text(label)
      .Text(dtype)
      .Text(numerics_class)
      .Integer(static_cast<int64_t>(seed))
      .Integer(sample.context_length())
      .Real(sample.depth())
      .Integer(sample.index())
      .Boolean(kept);
}

}  // namespace

NeedleSamplesTable::NeedleSamplesTable()
    : table_("needle_samples", WithLeadingColumns({{"seed", v1::Column::INTEGER, true},
                                                   {"context_length", v1::Column::INTEGER, true},
                                                   {"depth", v1::Column::REAL, true},
                                                   {"sample", v1::Column::INTEGER, true},
                                                   {"kept", v1::Column::BOOLEAN, false},
                                                   {"tokens", v1::Column::INTEGER, false},
                                                   {"needle_first", v1::Column::INTEGER, false},
                                                   {"needle_last", v1::Column::INTEGER, false},
                                                   {"realised_depth", v1::Column::REAL, false},
                                                   {"words", v1::Column::INTEGER, false},
                                                   {"code", v1::Column::TEXT, false}})) {}

void NeedleSamplesTable::AddKept(const std::string& label, const std::string& dtype,
                                 const std::string& numerics_class, uint64_t seed,
                                 const v1::NeedleSample& sample, const v1::RealisedNeedle& realised) {
  Lead(table_, label, dtype, numerics_class, seed, sample, /*kept=*/true)
      .Integer(realised.tokens())
      .Integer(realised.needle().first())
      .Integer(realised.needle().last())
      .Real(realised.depth())
      .Integer(realised.words())
      .Text(realised.code_text());
}

Table NeedleSamplesTable::Finish() {
  return table_.Finish(/*whole_in_sql=*/table_.rows() <= kWholeInSql);
}

void NeedleSamplesTable::AddDropped(const std::string& label, const std::string& dtype,
                                    const std::string& numerics_class, uint64_t seed,
                                    const v1::NeedleSample& sample) {
  Lead(table_, label, dtype, numerics_class, seed, sample, /*kept=*/false)
      .Integer(std::nullopt)
      .Integer(std::nullopt)
      .Integer(std::nullopt)
      .Real(std::nullopt)
      .Integer(std::nullopt)
      .Text(std::nullopt);
}

}  // namespace ropelab::experiments
