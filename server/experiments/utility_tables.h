// The tables that hold utilities: per head and dimension, and the mean per dimension.
#pragma once

#include <optional>
#include <string>

#include "server/experiments/table_builder.h"
#include "server/experiments/utilities.h"

namespace ropelab::experiments {

// The table `utilities`: a row per layer, head and dimension, and one per head whose `dim` is empty: its
// mean. SQL holds those of heads, and the others where the table is not too long.
class UtilitiesTable {
 public:
  explicit UtilitiesTable(std::string numerics_class);
  // `label` of the model and `dtype` as tables write them.
  void Add(const std::string& label, const std::string& dtype, const std::optional<std::string>& checkpoint,
           const Utilities& utilities);
  Table Finish();

 private:
  const std::string numerics_class_;
  TableBuilder table_;
};

// Adds rows of the table `series` (leading columns, name, x, y): name "utility_per_dim", x the storage index,
// y the mean over all heads. Where rotate-half puts the slow pairs' two halves shows as it is.
void AddMeanPerDim(const std::string& label, const std::string& dtype, const std::string& numerics_class,
                   const Utilities& utilities, TableBuilder& series);

}  // namespace ropelab::experiments
