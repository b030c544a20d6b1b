// A spec as a person may write it, text format or JSON: the client's parser, the server's strict walk and the
// hash. What was read must read the same when it is printed and read again.
#include <google/protobuf/text_format.h>

#include <string>

#include "client/spec_file.h"
#include "common/service/canonical_hash.h"
#include "server/experiments/strict_walk.h"
#include "tests/fuzz/temporary_folder.h"

namespace ropelab {
namespace {

const google::protobuf::Message& Inside(const v1::Submission& submission) {
  if (submission.has_study()) return submission.study();
  return submission.experiment();
}

void CheckSubmission(const v1::Submission& submission) {
  experiments::Problems problems;
  experiments::StrictWalk(submission, "", "", problems);
  for (const v1::FieldProblem& problem : problems.problems()) ROPELAB_FUZZ_CHECK(!problem.remedy().empty());
  // Nothing that is wrong with it stops here: only what the walk passes has a hash and a printed form.
  if (!problems.empty()) return;
  const std::string hash = CanonicalHash(submission);

  v1::Submission binary;
  ROPELAB_FUZZ_CHECK(binary.ParseFromString(submission.SerializeAsString()));
  ROPELAB_FUZZ_CHECK(CanonicalHash(binary) == hash);

  std::string text;
  ROPELAB_FUZZ_CHECK(google::protobuf::TextFormat::PrintToString(Inside(submission), &text));
  const auto again = client::ParseSpec("again.textproto", text);
  if (text.empty()) return;  // an empty spec, which a file may not be
  ROPELAB_FUZZ_CHECK(again.ok());
  // A study without experiments prints as an experiment's fields.
  if (again->has_study() == submission.has_study()) ROPELAB_FUZZ_CHECK(CanonicalHash(*again) == hash);
}

}  // namespace
}  // namespace ropelab

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto submission = ropelab::client::ParseSpec("fuzz", std::string(ropelab::fuzz::Text(bytes, size)));
  if (submission.ok()) ropelab::CheckSubmission(*submission);
  return 0;
}
