// A submission as a client that is not ours may send it: any bytes that protobuf takes for the message.
#include <string>

#include "common/printable.h"
#include "common/service/canonical_hash.h"
#include "ropelab/v1/experiment_service.pb.h"
#include "server/experiments/strict_walk.h"
#include "tests/fuzz/temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace ropelab;
  v1::Submission submission;
  if (!submission.ParseFromArray(bytes, static_cast<int>(size))) return 0;
  experiments::Problems problems;
  experiments::StrictWalk(submission, "", "", problems);
  for (const v1::FieldProblem& problem : problems.problems()) {
    // Problems travel back to the client: they must be text, whatever was sent.
    ROPELAB_FUZZ_CHECK(IsUtf8(problem.field()) && IsUtf8(problem.value()) && IsUtf8(problem.remedy()));
  }
  if (!problems.empty()) return 0;
  v1::Submission again;
  ROPELAB_FUZZ_CHECK(again.ParseFromString(submission.SerializeAsString()));
  ROPELAB_FUZZ_CHECK(CanonicalHash(again) == CanonicalHash(submission));
  return 0;
}
