#include "client/heads_view.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/human.h"
#include "client/text_table.h"

namespace ropelab::client {
namespace {

using Align = TextTable::Align;

constexpr size_t kShownHash = 12;
constexpr int kShownHeads = 20;

std::string Place(int64_t layer, int64_t head) {
  return absl::StrCat("L", layer, "H", head);
}

// "3-11", as files of head scores write it, as all other output does.
std::string PlaceOf(const std::string& key) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(key, absl::MaxSplits('-', 1));
  return absl::StrCat("L", parts.first, "H", parts.second);
}

}  // namespace

std::string RenderHeadScoreSets(const v1::ListHeadScoresResponse& response, int64_t now) {
  if (response.sets().empty()) {
    return "no head scores: register some with ropelab heads import NAME FILE\n";
  }
  TextTable table({{"NAME"},
                   {"HEADS", Align::kRight},
                   {"SCORES", Align::kRight},
                   {"LAST LAYER", Align::kRight},
                   {"LAST HEAD", Align::kRight},
                   {"SHA-256"},
                   {"OWNER"},
                   {"REGISTERED"}});
  for (const v1::HeadScoreSet& set : response.sets()) {
    table.AddRow({set.name(), absl::StrCat(set.heads()), absl::StrCat(set.scores()),
                  absl::StrCat(set.largest_layer()), absl::StrCat(set.largest_head()),
                  set.sha256().substr(0, kShownHash), set.owner(),
                  HumanAgo(now, set.registered_microseconds())});
  }
  return table.Render();
}

std::string RenderHeadScoreSet(const v1::HeadScoreSet& set) {
  return RenderPairs({{"name", set.name()},
                      {"heads", absl::StrCat(set.heads(), ", up to layer ", set.largest_layer(), " and head ",
                                             set.largest_head(), " (from 0)")},
                      {"scores", absl::StrCat(set.scores())},
                      {"bytes", absl::StrCat(set.bytes())},
                      {"sha256", set.sha256()},
                      {"owner", set.owner()},
                      {"registered", HumanStamp(set.registered_microseconds())}});
}

std::string RenderHeadScores(const v1::GetHeadScoresResponse& response) {
  TextTable counts({{"THRESHOLD", Align::kRight}, {"HEADS", Align::kRight}, {"SHARE", Align::kRight}});
  const auto all = static_cast<double>(std::max<int64_t>(response.set().heads(), 1));
  for (const v1::HeadScoreCount& count : response.counts()) {
    counts.AddRow({absl::StrFormat("%.2f", count.threshold()), absl::StrCat(count.heads()),
                   absl::StrFormat("%.1f%%", 100 * static_cast<double>(count.heads()) / all)});
  }
  TextTable heads({{"HEAD"}, {"MEAN SCORE", Align::kRight}, {"SCORES", Align::kRight}});
  const int shown = std::min(response.heads_size(), kShownHeads);
  for (int i = 0; i < shown; ++i) {
    const v1::HeadScoreMean& head = response.heads(i);
    heads.AddRow({Place(head.layer(), head.head()), absl::StrFormat("%.4f", head.mean()),
                  absl::StrCat(head.scores())});
  }
  std::string text =
      absl::StrCat(RenderHeadScoreSet(response.set()), "\n", counts.Render(), "\n", heads.Render());
  if (shown < response.heads_size()) {
    absl::StrAppend(&text, "and ", response.heads_size() - shown, " more: --json shows all\n");
  }
  return text;
}

std::string RenderHeadScoreOverlap(const v1::OverlapHeadScoresResponse& response) {
  TextTable table({{"MODEL"},
                   {"SEED", Align::kRight},
                   {"METRIC"},
                   {"TOP", Align::kRight},
                   {"SHARED", Align::kRight},
                   {"JACCARD", Align::kRight},
                   {"SHARED HEADS"}});
  for (const v1::HeadScoreOverlap& overlap : response.overlaps()) {
    std::vector<std::string> places;
    for (const std::string& key : overlap.heads()) places.push_back(PlaceOf(key));
    table.AddRow({overlap.model(), absl::StrCat(overlap.seed()), overlap.metric(),
                  absl::StrCat(overlap.top()), absl::StrCat(overlap.shared()),
                  overlap.has_jaccard() ? absl::StrFormat("%.3f", overlap.jaccard()) : "",
                  Shortened(absl::StrJoin(places, " "), 60)});
  }
  return table.Render();
}

}  // namespace ropelab::client
