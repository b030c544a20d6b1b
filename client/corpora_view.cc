#include "client/corpora_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/human.h"
#include "client/text_table.h"

namespace ropelab::client {
namespace {

using Align = TextTable::Align;

constexpr size_t kShownHash = 12;
constexpr double kSecondsOfARate = 0.5;  // before, it says nothing

}  // namespace

std::string RenderCorpora(const v1::ListCorporaResponse& response, int64_t now) {
  if (response.corpora().empty()) {
    return "no corpora: register one with ropelab corpora add NAME PATH\n";
  }
  TextTable table({{"NAME"},
                   {"KIND"},
                   {"DOCUMENTS", Align::kRight},
                   {"SIZE", Align::kRight},
                   {"SHA-256"},
                   {"WHERE"},
                   {"REGISTERED"},
                   {"TEXT FIELDS"}});
  std::string problems;
  for (const v1::Corpus& corpus : response.corpora()) {
    table.AddRow({corpus.name(), corpus.kind(), absl::StrCat(corpus.documents()), HumanBytes(corpus.bytes()),
                  corpus.sha256().substr(0, kShownHash), corpus.place(),
                  HumanAgo(now, corpus.registered_microseconds()),
                  Shortened(absl::StrJoin(corpus.text_fields(), ", "), 40)});
    if (!corpus.problem().empty()) {
      absl::StrAppend(&problems, Printable(corpus.name()), "@", corpus.sha256().substr(0, kShownHash),
                      " cannot be read: ", Printable(corpus.problem()), "\n");
    }
  }
  return table.Render() + problems;
}

std::string RenderCorpus(const v1::Corpus& corpus) {
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"name", corpus.name()},
      {"kind", corpus.kind()},
      {"documents", absl::StrCat(corpus.documents())},
      {"bytes", absl::StrCat(corpus.bytes())},
      {"sha256", corpus.sha256()},
      {"where", corpus.place()},
      {"registered", HumanStamp(corpus.registered_microseconds())}};
  if (!corpus.text_fields().empty()) {
    pairs.emplace_back("text fields", Shortened(absl::StrJoin(corpus.text_fields(), ", "), 200));
  }
  if (!corpus.problem().empty()) {
    pairs.emplace_back("problem", corpus.problem());
  }
  return RenderPairs(pairs);
}

std::string RenderUpload(const std::string& name, int64_t sent, int64_t total, double seconds) {
  // A file that grows while it is read has more than was counted.
  const double share =
      std::min(1.0, static_cast<double>(sent) / static_cast<double>(std::max<int64_t>(total, 1)));
  std::string line = absl::StrCat(Printable(name), "  ", HumanBytes(sent), " of ", HumanBytes(total),
                                  absl::StrFormat("  %.0f%%", share * 100));
  if (seconds >= kSecondsOfARate && sent > 0) {
    const double rate = static_cast<double>(sent) / seconds;
    absl::StrAppend(&line, "  ", HumanBytes(static_cast<int64_t>(rate)), "/s  ",
                    HumanSeconds(static_cast<double>(std::max<int64_t>(total - sent, 0)) / rate), " left");
  }
  return line;
}

}  // namespace ropelab::client
