#include "common/corpus_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ropelab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Cut {
  absl::Status status;
  std::vector<std::string> documents;
  std::vector<int64_t> offsets;
  std::vector<std::string> text_fields;
};

// Feeds `text` as one source in pieces of `piece` bytes.
Cut Split(bool jsonl, const std::string& text, size_t piece = 1 << 20) {
  Cut cut;
  CorpusSplitter splitter(jsonl);
  const auto visit = [&](const CorpusDocument& document) {
    cut.documents.emplace_back(document.bytes);
    cut.offsets.push_back(document.offset);
    return absl::OkStatus();
  };
  splitter.Begin("books");
  for (size_t at = 0; at < text.size() && cut.status.ok(); at += piece) {
    cut.status = splitter.Append(std::string_view(text).substr(at, piece), visit);
  }
  if (cut.status.ok()) cut.status = splitter.End(visit);
  cut.text_fields = splitter.text_fields();
  return cut;
}

TEST(CorpusText, CutsLinesAlikeHoweverTheyArrive) {
  const std::string text = "{\"a\":1}\r\n\n  \t\n{\"b\":\"\u00e9\"}\n{}";
  for (const size_t piece : {1, 2, 3, 7, 100}) {
    const Cut cut = Split(true, text, piece);
    ASSERT_TRUE(cut.status.ok()) << cut.status;
    EXPECT_THAT(cut.documents, ElementsAre("{\"a\":1}", "{\"b\":\"\u00e9\"}", "{}")) << piece;
    EXPECT_THAT(cut.offsets, ElementsAre(0, 14, 25)) << piece;
  }
}

TEST(CorpusText, ATextIsOneDocumentWithAllItsBytes) {
  const std::string text("\xEF\xBB\xBFone\n\0two\r\n", 12);
  EXPECT_THAT(Split(false, text, 5).documents, ElementsAre(text));
  EXPECT_THAT(Split(false, "").documents, ElementsAre(""));
}

TEST(CorpusText, AByteOrderMarkBeforeTheFirstLineIsDropped) {
  const Cut cut = Split(true, "\xEF\xBB\xBF{\"text\":\"x\"}\n");
  EXPECT_THAT(cut.documents, ElementsAre("{\"text\":\"x\"}"));
  EXPECT_THAT(cut.offsets, ElementsAre(3));
}

TEST(CorpusText, NamesTheFieldsOfTheFirstLineThatHoldTexts) {
  EXPECT_THAT(
      Split(true, "\n{\"text\":\"x\",\"id\":1,\"question\":\"y\",\"a\\u0007\":\"z\"}\n{\"other\":\"x\"}")
          .text_fields,
      ElementsAre("text", "question"));
}

TEST(CorpusText, RefusesALineThatIsNoObjectByItsNumber) {
  for (const std::string line : {"[1]", "{\"a\":", "\"x\"", "{} {}", "nul"}) {
    const absl::Status status = Split(true, "{}\n\n" + line + "\n{}").status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(status.message()), HasSubstr("books:3: is not a JSON object")) << line;
  }
}

TEST(CorpusText, RefusesBytesThatAreNotUtf8ByTheirPlace) {
  EXPECT_THAT(std::string(Split(false, "ab\xC3\xA9\xFFz").status.message()), HasSubstr("books: byte 4 "));
  // A surrogate, an overlong form, a character that is cut.
  for (const char* bad : {"\xED\xA0\x80", "\xC0\x80", "\xE2\x82"}) {
    EXPECT_THAT(std::string(Split(false, bad).status.message()), HasSubstr("byte 0 ")) << bad;
  }
  EXPECT_THAT(std::string(Split(true, "{}\n{\"a\":\"\xFF\"}").status.message()),
              HasSubstr("books:2: byte 6 "));
}

TEST(CorpusText, RefusesADocumentBeyondTheLimit) {
  const std::string most(kLargestDocument, 'a');
  EXPECT_TRUE(Split(false, most).status.ok());
  EXPECT_THAT(std::string(Split(false, most + "a").status.message()), HasSubstr("books: is larger than"));
  EXPECT_THAT(std::string(Split(true, "{}\n" + most + "a").status.message()),
              HasSubstr("books:2: is larger than"));
}

TEST(CorpusText, TheHashIsOverLengthsAndBytes) {
  // python3: hashlib.sha256(b"".join(struct.pack("<Q", len(d)) + d for d in [b"zero", b"one"])).hexdigest()
  CorpusHash hash;
  hash.Add("zero");
  hash.Add("one");
  EXPECT_EQ(hash.FinishHex(), "6ef2e71d466d604bec52a16138d64cfe32efa6263cce9958faaa21d2f51e4338");
  CorpusHash other;  // the same bytes, cut elsewhere: another corpus
  other.Add("zer");
  other.Add("oone");
  EXPECT_EQ(other.FinishHex(), "3b75eff2443dd85351b0dbf0af7b65bc512bfd5c10b90f95eb90edb850d5d898");
}

TEST(CorpusText, NamesThatCouldBePathsOrHashesAreRefused) {
  for (const std::string good : {"moby-dick", "Moby Dick", "\u00e9tude", "a.b"}) {
    EXPECT_TRUE(CheckCorpusName(good).ok()) << good;
  }
  for (const std::string bad : {"", "a/b", "a@b", " a", "a ", "a\nb", "\xFF"}) {
    EXPECT_EQ(CheckCorpusName(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_FALSE(CheckCorpusName(std::string(201, 'a')).ok());
  EXPECT_FALSE(CheckCorpusKind("csv").ok());
}

}  // namespace
}  // namespace ropelab
