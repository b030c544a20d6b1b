#include <filesystem>
#include <functional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/commands.h"
#include "client/experiment_view.h"
#include "client/human.h"
#include "client/json_view.h"
#include "client/output_file.h"
#include "client/slice_format.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace ropelab::client {
namespace {

// A table is read from disk and sent as fast as it is taken.
constexpr std::chrono::milliseconds kSilence{60000};

using Sink = std::function<absl::Status(const std::string&)>;

absl::Status BrokenByServer(const Session& session, const std::string& message) {
  return FromServer(grpc::Status(grpc::StatusCode::DATA_LOSS, message), session.connection.server());
}

absl::Status WriteTable(Session& session, const std::string& format, const Sink& sink) {
  ROPELAB_ASSIGN_OR_RETURN(RowFilter filter, RowFilter::Parse(session.options.conditions));
  ROPELAB_ASSIGN_OR_RETURN(const std::unique_ptr<SliceWriter> writer,
                           MakeSliceWriter(format, std::move(filter)));
  v1::ResultsRequest request;
  request.set_id(session.options.id);
  request.set_table(session.options.table);
  const auto stream = session.connection.Open(&Connection::Stub::AsyncResults, request);
  v1::TableSlice slice;
  while (stream->Next(&slice, kSilence)) {
    const absl::StatusOr<std::string> text = writer->Add(std::move(slice));
    slice.Clear();
    if (absl::IsInvalidArgument(text.status())) {
      return text.status();
    }
    if (!text.ok()) {
      return BrokenByServer(session, std::string(text.status().message()));
    }
    ROPELAB_RETURN_IF_ERROR(sink(*text));
  }
  ROPELAB_RETURN_IF_ERROR(stream->status());
  return sink(writer->Finish());
}

// What a file's name promises to hold; one without an ending promises nothing. Errors: an ending that no
// table is written as.
absl::StatusOr<std::string> FormatOfFile(const std::string& path) {
  std::string ending = std::filesystem::path(path).extension();
  absl::AsciiStrToLower(&ending);
  if (ending.empty() || ending == ".txt") {
    return "table";
  }
  if (ending == ".csv" || ending == ".jsonl") {
    return ending.substr(1);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "-o ", path, ": no table is written as ", ending,
      ending == ".json" ? ": say .jsonl, which holds one JSON object a line, .csv, or .txt for people"
                        : ": say .csv, .jsonl, which holds one JSON object a line, or .txt for people",
      "; or give --format csv, jsonl or table"));
}

absl::Status PrintTable(Session& session) {
  const Options& options = session.options;
  std::string format = !options.format.empty() ? options.format : options.json ? "jsonl" : "";
  if (format.empty()) {
    ROPELAB_ASSIGN_OR_RETURN(format, FormatOfFile(options.output_path));
  }
  if (options.json && format != "jsonl") {
    return absl::InvalidArgumentError(
        absl::StrCat("--json and --format ", format, " ask for two formats: leave one out"));
  }
  if (options.output_path.empty()) {
    return WriteTable(session, format, [&](const std::string& text) {
      session.console.out << text;
      return session.console.out.good()
                 ? absl::OkStatus()
                 : absl::InvalidArgumentError("standard output cannot be written: is the disk full?");
    });
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(options.output_path));
  ROPELAB_RETURN_IF_ERROR(
      WriteTable(session, format, [&](const std::string& text) { return file->Write(text); }));
  return file->Commit();
}

absl::Status FetchArtifact(Session& session) {
  const Options& options = session.options;
  v1::ArtifactRequest request;
  request.set_id(options.id);
  request.set_name(options.artifact);
  ROPELAB_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(options.output_path));
  const auto stream = session.connection.Open(&Connection::Stub::AsyncArtifact, request);
  std::string sha256;
  int64_t total = -1;
  Sha256 hash;
  v1::ArtifactData piece;
  while (stream->Next(&piece, kSilence)) {
    if (total < 0) {
      total = piece.total_bytes();
      sha256 = piece.sha256();
    }
    hash.Update(piece.data());
    ROPELAB_RETURN_IF_ERROR(file->Write(piece.data()));
  }
  ROPELAB_RETURN_IF_ERROR(stream->status());
  const std::string received = hash.FinishHex();
  if (file->bytes() != total || received != sha256) {
    return BrokenByServer(session, absl::StrCat("the artifact ", options.artifact, " arrived as ",
                                                file->bytes(), " bytes with SHA-256 ", received, ", not ",
                                                total, " bytes with ", sha256, ": fetch it again"));
  }
  ROPELAB_RETURN_IF_ERROR(file->Commit());
  session.console.err << options.output_path << ": " << HumanBytes(total) << ", SHA-256 " << sha256 << "\n";
  return absl::OkStatus();
}

absl::Status ListTablesAndArtifacts(Session& session) {
  const Options& options = session.options;
  if (!options.output_path.empty()) {
    return absl::InvalidArgumentError("-o needs --table NAME or --artifact NAME to say what to write");
  }
  v1::ListResultsRequest request;
  request.set_id(options.id);
  v1::ListResultsResponse response;
  ROPELAB_RETURN_IF_ERROR(session.connection.Call(&Connection::Stub::ListResults, request, &response));
  if (options.json) {
    session.console.out << JsonText(ToJson(response));
  } else if (response.tables().empty() && response.artifacts().empty()) {
    v1::GetRequest get;
    get.set_id(options.id);
    v1::Experiment experiment;
    ROPELAB_RETURN_IF_ERROR(session.connection.Call(&Connection::Stub::Get, get, &experiment));
    session.console.out << RenderNoResults(experiment);
  } else {
    session.console.out << RenderResultsList(response);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExitCode> RunResults(Session& session) {
  absl::Status status = !session.options.artifact.empty() ? FetchArtifact(session)
                        : !session.options.table.empty()  ? PrintTable(session)
                                                          : ListTablesAndArtifacts(session);
  if (!status.ok()) {
    return status;
  }
  return ExitCode::kDone;
}

}  // namespace ropelab::client
