// Where a measurement gets the documents of a corpus from.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ropelab::measure {

class Texts {
 public:
  virtual ~Texts() = default;
  // A document's bytes as they were registered: a file's text, or a line's JSON object. `corpus` is the
  // SHA-256, hex, of the registered content. May take as long as the network does; called from the measuring
  // thread only. FAILED_PRECONDITION: the corpus or document is gone or damaged, for every worker;
  // CANCELLED: stop at once.
  virtual absl::StatusOr<std::string> Document(const std::string& corpus, int64_t document) = 0;
};

// The text of a document: all of it when `text_field` is empty, else that field of its JSON object.
// INVALID_ARGUMENT names corpus, document and field.
absl::StatusOr<std::string> DocumentText(Texts& texts, const std::string& corpus, int64_t document,
                                         const std::string& text_field);

// "document 17 of corpus 0123456789abcdef"
std::string DocumentName(const std::string& corpus, int64_t document);

}  // namespace ropelab::measure
