// A spec as a person may write it, text format or JSON. What was read must read the same when it is printed
// and read again.
#include <google/protobuf/text_format.h>

#include <string>

#include "client/spec_file.h"
#include "common/service/canonical_hash.h"
#include "tests/fuzz/spec_check.h"
#include "tests/fuzz/temporary_folder.h"

namespace ropelab {
namespace {

void CheckPrinted(const v1::Submission& submission) {
  std::string text;
  const google::protobuf::Message* inside = &submission.experiment();
  if (submission.has_study()) inside = &submission.study();
  ROPELAB_FUZZ_CHECK(google::protobuf::TextFormat::PrintToString(*inside, &text));
  if (text.empty()) return;  // an empty spec, which a file may not be
  const auto again = client::ParseSpec("again.textproto", text);
  ROPELAB_FUZZ_CHECK(again.ok());
  // A study without experiments prints as an experiment's fields.
  if (again->has_study() == submission.has_study())
    ROPELAB_FUZZ_CHECK(CanonicalHash(*again) == CanonicalHash(submission));
}

}  // namespace
}  // namespace ropelab

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace ropelab;
  const auto submission = client::ParseSpec("fuzz", std::string(fuzz::Text(bytes, size)));
  if (submission.ok() && fuzz::CheckSubmission(*submission)) CheckPrinted(*submission);
  return 0;
}
