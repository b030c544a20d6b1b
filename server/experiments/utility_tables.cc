#include "server/experiments/utility_tables.h"

#include <utility>

namespace ropelab::experiments {
namespace {

constexpr int64_t kUtilitiesWholeInSql = 200000;  // rows

}  // namespace

UtilitiesTable::UtilitiesTable(std::string numerics_class)
    : numerics_class_(std::move(numerics_class)),
      table_("utilities", WithLeadingColumns({{"checkpoint", v1::Column::TEXT, true},
                                              {"layer", v1::Column::INTEGER, true},
                                              {"head", v1::Column::INTEGER, true},
                                              {"dim", v1::Column::INTEGER, true},
                                              {"utility", v1::Column::REAL, false}})) {}

void UtilitiesTable::Add(const std::string& label, const std::string& dtype,
                         const std::optional<std::string>& checkpoint, const Utilities& utilities) {
  const auto add = [&](int64_t layer, int64_t head, std::optional<int64_t> dim, double utility) {
    table_.Text(label).Text(dtype).Text(numerics_class_).Text(checkpoint);
    table_.Integer(layer).Integer(head).Integer(dim).Real(utility);
  };
  for (int64_t layer = 0; layer < utilities.layers(); ++layer) {
    for (int64_t head = 0; head < utilities.heads(); ++head) {
      add(layer, head, std::nullopt, utilities.OfHead(layer, head));
      table_.KeepLastRowInSql();
      for (int64_t dim = 0; dim < utilities.head_dim(); ++dim) {
        add(layer, head, dim, utilities.OfDim(layer, head, dim));
      }
    }
  }
}

Table UtilitiesTable::Finish() {
  return table_.Finish(table_.rows() <= kUtilitiesWholeInSql);
}

void AddMeanPerDim(const std::string& label, const std::string& dtype, const std::string& numerics_class,
                   const Utilities& utilities, TableBuilder& series) {
  const std::vector<double> means = utilities.MeanPerDim();
  for (size_t dim = 0; dim < means.size(); ++dim) {
    series.Text(label).Text(dtype).Text(numerics_class).Text("utility_per_dim");
    series.Real(static_cast<double>(dim)).Real(means[dim]);
  }
}

}  // namespace ropelab::experiments
