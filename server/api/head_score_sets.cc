#include "server/api/head_score_sets.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "server/experiments/head_set_imported.h"
#include "server/store/head_scores.h"
#include "server/store/models.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

constexpr char kAnonymous[] = "anonymous";
constexpr size_t kNameBytes = 200;
// What counts are shown for; the published files' own range.
constexpr double kShownThresholds[] = {0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5};

absl::StatusOr<std::vector<store::HeadScoreRow>> Rows(store::Store& store) {
  std::vector<store::HeadScoreRow> rows;
  ROPELAB_RETURN_IF_ERROR(store.Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(rows, store::ListHeadScores(db));
    return absl::OkStatus();
  }));
  return rows;
}

absl::Status ReadContent(store::Store& store, store::HeadScoreRow& row) {
  return store.Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(row.content, store::HeadScoreContent(db, row.name, row.sha256));
    return absl::OkStatus();
  });
}

// Reads the row's content, too.
absl::StatusOr<experiments::ImportedScores> ScoresOf(store::Store& store, store::HeadScoreRow& row) {
  ROPELAB_RETURN_IF_ERROR(ReadContent(store, row));
  absl::StatusOr<std::vector<experiments::ImportedScores::Head>> heads =
      experiments::ParseHeadScores(row.content);
  if (!heads.ok()) {
    return absl::DataLossError(
        absl::StrCat("head scores ", row.name, "@", row.sha256,
                     " cannot be read any more: restore a backup: ", std::string(heads.status().message())));
  }
  return experiments::ImportedScores{row.name, row.sha256, *std::move(heads)};
}

v1::HeadScoreSet Describe(const store::HeadScoreRow& row, const experiments::ImportedScores& scores) {
  v1::HeadScoreSet shown;
  shown.set_name(row.name);
  shown.set_sha256(row.sha256);
  shown.set_owner(row.owner);
  shown.set_registered_microseconds(row.registered_us);
  shown.set_bytes(static_cast<int64_t>(row.content.size()));
  shown.set_heads(static_cast<int64_t>(scores.heads.size()));
  for (const experiments::ImportedScores::Head& head : scores.heads) {
    shown.set_scores(shown.scores() + head.scores);
    shown.set_largest_layer(std::max(shown.largest_layer(), head.layer));
    shown.set_largest_head(std::max(shown.largest_head(), head.head));
  }
  return shown;
}

}  // namespace

absl::StatusOr<std::vector<experiments::ImportedScores>> ReadHeadScores(
    store::Store& store, const std::vector<std::string>& wanted) {
  std::set<std::string> names;
  for (const std::string& one : wanted) {
    names.insert(one.substr(0, one.find('@')));
  }
  ROPELAB_ASSIGN_OR_RETURN(std::vector<store::HeadScoreRow> rows, Rows(store));
  std::vector<experiments::ImportedScores> all;
  for (store::HeadScoreRow& row : rows) {
    if (names.count(row.name) == 0) {
      all.push_back({row.name, row.sha256, {}});
      continue;
    }
    ROPELAB_ASSIGN_OR_RETURN(experiments::ImportedScores scores, ScoresOf(store, row));
    all.push_back(std::move(scores));
    row.content.clear();
  }
  return all;
}

absl::Status ImportHeadScores(const ServiceContext& context, const v1::ImportHeadScoresRequest& request,
                              v1::ImportHeadScoresResponse& response) {
  ROPELAB_RETURN_IF_ERROR(experiments::CheckHeadScoresName(request.name()));
  if (request.user().size() > kNameBytes || !IsPlainText(request.user())) {
    return absl::InvalidArgumentError(absl::StrCat("user: \"", Printable(request.user(), kNameBytes),
                                                   "\": a name of at most ", kNameBytes,
                                                   " bytes without control characters is needed"));
  }
  const absl::StatusOr<std::vector<experiments::ImportedScores::Head>> heads =
      experiments::ParseHeadScores(request.content());
  if (!heads.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the file for head scores ", request.name(), ": ",
                                                   std::string(heads.status().message())));
  }
  store::HeadScoreRow row;
  row.name = request.name();
  row.sha256 = Sha256Hex(request.content());
  row.owner = request.user().empty() ? kAnonymous : request.user();
  row.registered_us = context.clock->WallMicroseconds();
  row.content = request.content();
  bool known = false;
  ROPELAB_RETURN_IF_ERROR(context.store->WriteAndWait([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(known, store::RegisterHeadScores(db, row));
    return known ? absl::OkStatus()
                 : store::RecordAudit(db, row.owner, "heads import", absl::StrCat(row.name, "@", row.sha256),
                                      row.registered_us);
  }));
  ROPELAB_ASSIGN_OR_RETURN(const FoundHeadScores found,
                           FindRegistered(context, absl::StrCat(row.name, "@", row.sha256)));
  *response.mutable_set() = found.described;
  response.set_already_registered(known);
  spdlog::info("head scores {}@{} {} by {}: {} heads", row.name, row.sha256,
               known ? "sent again" : "registered", row.owner, found.described.heads());
  return absl::OkStatus();
}

absl::Status ListHeadScores(const ServiceContext& context, const v1::ListHeadScoresRequest&,
                            v1::ListHeadScoresResponse& response) {
  ROPELAB_ASSIGN_OR_RETURN(std::vector<store::HeadScoreRow> rows, Rows(*context.store));
  for (store::HeadScoreRow& row : rows) {
    ROPELAB_ASSIGN_OR_RETURN(const experiments::ImportedScores scores, ScoresOf(*context.store, row));
    *response.add_sets() = Describe(row, scores);
    row.content.clear();
  }
  return absl::OkStatus();
}

absl::StatusOr<FoundHeadScores> FindRegistered(const ServiceContext& context, const std::string& name) {
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<experiments::ImportedScores> known,
                           ReadHeadScores(*context.store, {name}));
  const absl::StatusOr<experiments::ImportedScores> found = experiments::FindHeadScores(known, name);
  if (!found.ok()) {
    return absl::Status(found.status().code(), absl::StrCat("head scores \"", Printable(name, kNameBytes),
                                                            "\": ", std::string(found.status().message())));
  }
  ROPELAB_ASSIGN_OR_RETURN(std::vector<store::HeadScoreRow> rows, Rows(*context.store));
  for (store::HeadScoreRow& row : rows) {
    if (row.name == found->name && row.sha256 == found->sha256) {
      ROPELAB_RETURN_IF_ERROR(ReadContent(*context.store, row));
      return FoundHeadScores{*found, Describe(row, *found)};
    }
  }
  return absl::InternalError(absl::StrCat("head scores ", name, " have no row"));
}

absl::Status GetHeadScores(const ServiceContext& context, const v1::GetHeadScoresRequest& request,
                           v1::GetHeadScoresResponse& response) {
  ROPELAB_ASSIGN_OR_RETURN(const FoundHeadScores found, FindRegistered(context, request.name()));
  *response.mutable_set() = found.described;
  for (const double threshold : kShownThresholds) {
    v1::HeadScoreCount& count = *response.add_counts();
    count.set_threshold(threshold);
    count.set_heads(experiments::HeadsAt(found.scores, threshold));
  }
  for (const size_t i : experiments::RankedHeads(found.scores)) {
    const experiments::ImportedScores::Head& head = found.scores.heads[i];
    v1::HeadScoreMean& shown = *response.add_heads();
    shown.set_layer(head.layer);
    shown.set_head(head.head);
    shown.set_mean(head.mean);
    shown.set_scores(head.scores);
  }
  return absl::OkStatus();
}

}  // namespace ropelab::api
