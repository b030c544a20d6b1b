#include "server/api/rpc_status.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/service/own_words.h"
#include "server/store/errors.h"

namespace ropelab::api {
namespace {

constexpr char kProblemsPayload[] = "ropelab.v1.ValidateResponse";
constexpr size_t kStatusBytes = 2000;
constexpr size_t kDetailBytes = 2500;  // base64 makes a third more of it

// Cuts at a character's start, so that UTF-8 stays whole.
std::string Cut(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) {
    return text;
  }
  size_t end = bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return absl::StrCat(text.substr(0, end), "...");
}

std::string Line(const v1::FieldProblem& problem) {
  const std::string value =
      problem.value().empty() ? "" : absl::StrCat(" value \"", Cut(problem.value(), 200), "\":");
  return absl::StrCat(problem.field(), ":", value, " ", problem.remedy());
}

}  // namespace

absl::Status ProblemsStatus(const std::vector<v1::FieldProblem>& problems) {
  std::string message;
  size_t told = 0;
  for (const v1::FieldProblem& problem : problems) {
    const std::string line = Line(problem);
    if (told > 0 && message.size() + line.size() > kStatusBytes - 100) {
      break;
    }
    absl::StrAppend(&message, told > 0 ? "\n" : "", line);
    ++told;
  }
  if (told < problems.size()) {
    absl::StrAppend(&message, "\n... and ", problems.size() - told, " more; `ropelab validate` shows all");
  }
  v1::ValidateResponse details;
  for (const v1::FieldProblem& problem : problems) {
    *details.add_problems() = problem;
    if (details.ByteSizeLong() > kDetailBytes) {
      v1::FieldProblem& last = *details.mutable_problems()->rbegin();
      const int more = static_cast<int>(problems.size()) - details.problems_size() + 1;
      last.Clear();
      last.set_field("...");
      last.set_remedy(absl::StrCat(more, " more; `ropelab validate` shows all"));
      break;
    }
  }
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kProblemsPayload, absl::Cord(details.SerializeAsString()));
  return status;
}

absl::Status ForWorker(const absl::Status& status) {
  return store::IsStoreTrouble(status) ? absl::Status(status.code(), status.message()) : status;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) {
    return grpc::Status::OK;
  }
  std::string details;
  if (const auto payload = status.GetPayload(kProblemsPayload); payload.has_value()) {
    details = std::string(*payload);
  }
  std::string message(status.message().data(), status.message().size());
  if (store::IsStoreTrouble(status)) {
    return grpc::Status(grpc::StatusCode::INTERNAL,
                        Cut(absl::StrCat("the server cannot read or write its data: ", message,
                                         "; see its disk and its log, then try again"),
                            kStatusBytes));
  }
  if (absl::IsUnavailable(status)) {
    details = kFromServer;
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), Cut(message, kStatusBytes), details);
}

}  // namespace ropelab::api
