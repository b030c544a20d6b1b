// A submission as a client that is not ours may send it: any bytes that protobuf takes for the message.
#include "tests/fuzz/spec_check.h"
#include "tests/fuzz/temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  ropelab::v1::Submission submission;
  if (submission.ParseFromArray(bytes, static_cast<int>(size))) ropelab::fuzz::CheckSubmission(submission);
  return 0;
}
