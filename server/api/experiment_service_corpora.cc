#include "server/api/experiment_service_corpora.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"

namespace ropelab::api {
namespace {

constexpr size_t kProblemBytes = 2000;

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Calls `visit` with the name of every corpus that the message or a part of it names.
void ForEachCorpusName(const Message& message, const std::function<void(const std::string&)>& visit) {
  if (message.GetDescriptor() == v1::CorpusPrompts::descriptor()) {
    visit(static_cast<const v1::CorpusPrompts&>(message).name());
  } else if (message.GetDescriptor() == v1::HaystackCorpus::descriptor()) {
    visit(static_cast<const v1::HaystackCorpus&>(message).name());
  }
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> set;
  reflection->ListFields(message, &set);
  for (const FieldDescriptor* field : set) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    }
    if (!field->is_repeated()) {
      ForEachCorpusName(reflection->GetMessage(message, field), visit);
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      ForEachCorpusName(reflection->GetRepeatedMessage(message, field, i), visit);
    }
  }
}

}  // namespace

v1::Corpus DescribeCorpus(const store::CorpusRow& row, const store::CorpusFiles& files) {
  v1::Corpus shown;
  shown.set_name(row.name);
  shown.set_sha256(row.sha256);
  shown.set_kind(row.kind);
  shown.set_documents(row.documents);
  shown.set_bytes(row.bytes);
  shown.set_registered_microseconds(row.registered_us);
  shown.set_place(row.place);
  shown.set_problem(Printable(files.Problem(row), kProblemBytes));
  shown.mutable_text_fields()->Assign(row.text_fields.begin(), row.text_fields.end());
  return shown;
}

absl::Status ListCorpora(const ServiceContext& context, const v1::ListCorporaRequest&,
                         v1::ListCorporaResponse& response) {
  std::vector<store::CorpusRow> rows;
  ROPELAB_RETURN_IF_ERROR(context.store->Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(rows, store::ListCorpora(db));
    return absl::OkStatus();
  }));
  for (const store::CorpusRow& row : rows) {
    *response.add_corpora() = DescribeCorpus(row, context.store->corpora());
  }
  return absl::OkStatus();
}

absl::Status DescribeCorporaOf(store::Connection& db, const store::CorpusFiles& files,
                               const v1::ExperimentSpec& resolved, v1::Provenance& response) {
  std::vector<std::string> labels;
  ForEachCorpusName(resolved, [&](const std::string& label) {
    if (std::find(labels.begin(), labels.end(), label) == labels.end()) {
      labels.push_back(label);
    }
  });
  if (labels.empty()) {
    return absl::OkStatus();
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<store::CorpusRow> rows, store::ListCorpora(db));
  for (const std::string& label : labels) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const store::CorpusRow& known) {
      return absl::StrCat(known.name, "@", known.sha256) == label;
    });
    if (row != rows.end()) {
      *response.add_corpora() = DescribeCorpus(*row, files);
      continue;
    }
    const size_t at = label.find('@');
    v1::Corpus& shown = *response.add_corpora();
    shown.set_name(label.substr(0, at));
    shown.set_sha256(at == std::string::npos ? "" : label.substr(at + 1));
    shown.set_problem("it is not registered any more");
  }
  return absl::OkStatus();
}

absl::Status ReadCorpus(const ServiceContext& context, const v1::ReadCorpusRequest& request,
                        const std::function<absl::Status(v1::CorpusBytes)>& send) {
  std::vector<store::CorpusRow> rows;
  ROPELAB_RETURN_IF_ERROR(context.store->Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(rows, store::CorporaOfContent(db, request.corpus()));
    return absl::OkStatus();
  }));
  if (rows.empty()) {
    return absl::NotFoundError(absl::StrCat("no corpus has the SHA-256 \"", Printable(request.corpus(), 64),
                                            "\": register it again (ropelab corpora add NAME PATH)"));
  }
  // The same content may lie in several places: the first that can be opened will do.
  std::optional<store::CorpusReader> reader;
  absl::Status opened;
  for (const store::CorpusRow& row : rows) {
    absl::StatusOr<store::CorpusReader> found = context.store->corpora().Open(row, request.document());
    if (found.ok()) {
      reader.emplace(*std::move(found));
      break;
    }
    opened.Update(found.status());
  }
  if (!reader.has_value()) {
    return opened;
  }
  bool first = true;
  const auto describe = [&](v1::CorpusBytes& message) {
    if (std::exchange(first, false)) {
      message.set_total(reader->bytes());
    }
  };
  ROPELAB_ASSIGN_OR_RETURN(const std::string sha256,
                           reader->ForEachPiece([&](std::string piece) -> absl::Status {
                             context.metrics->CorpusRead(static_cast<double>(piece.size()));
                             v1::CorpusBytes message;
                             message.set_data(std::move(piece));
                             describe(message);
                             return send(std::move(message));
                           }));
  v1::CorpusBytes last;
  describe(last);
  last.set_sha256(sha256);
  return send(std::move(last));
}

}  // namespace ropelab::api
