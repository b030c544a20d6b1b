// Byte-pair merging of one word.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/formats/tokenizer/bpe_model.h"
#include "worker/formats/tokenizer/symbols.h"

namespace ropelab::formats {

// Merges neighbours in `symbols` in place until no pair of them has a merge: the lowest rank first, the
// leftmost of equals. O(n log n); one object a thread, whose buffers are kept.
class Merger {
 public:
  void Run(const BpeModel& model, std::vector<Symbol>& symbols);

 private:
  void RunShort(const BpeModel& model, std::vector<Symbol>& symbols);
  void RunLong(const BpeModel& model, std::vector<Symbol>& symbols);

  std::vector<Merge> pairs_;  // pairs_[k]: the merge of symbol k with the next one
  std::vector<uint32_t> previous_, next_;
  std::vector<uint64_t> heap_;
};

}  // namespace ropelab::formats
