// The result tables of a slash detection: slash_scores, slash_heads, statistics.
#pragma once

#include <memory>
#include <string>

#include "server/experiments/slash_groups.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {

class SlashTables {
 public:
  // `detection` is resolved and outlives it.
  SlashTables(const v1::SlashDetection& detection, const std::string& numerics_class);
  ~SlashTables();

  // Groups in the order of (label, dtype, seed): sorting millions of rows afterwards would move every one of
  // them. The last range of a group is that of the control.
  void Add(const DetectionGroup& group);
  // For rows of the caller's own.
  TableBuilder& statistics();
  Results Finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Sorts by (label, dtype, seed).
void SortGroups(std::vector<DetectionGroup>& groups);

}  // namespace ropelab::experiments
