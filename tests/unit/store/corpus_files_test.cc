// Contents of corpora: sent in pieces, read where they lie, damaged, cut off.
#include "server/store/corpus_files.h"

#include <sys/stat.h>
#include <utime.h>

#include <fstream>

#include "tests/unit/store/store_fixture.h"

namespace ropelab::store {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// python3: hashlib.sha256(b"".join(struct.pack("<Q", len(d)) + d for d in documents)).hexdigest()
constexpr char kZeroOne[] = "6ef2e71d466d604bec52a16138d64cfe32efa6263cce9958faaa21d2f51e4338";  // zero, one
constexpr char kTwoLines[] = "1a4ce6801ca76b8c76c5529118040c6f75bef4d739254f54aa2b0d5ec9ebbdee";
constexpr char kLines[] = "{\"text\":\"hi\",\"id\":1}\r\n\n{\"text\":\"there\"}";

void WriteFile(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

class CorpusFilesTest : public testing::Test {
 protected:
  CorpusFilesTest() : files_(dir_.path() + "/corpora") {
    fs::create_directories(dir_.path() + "/in");
    EXPECT_TRUE(files_.Sweep({}).ok());
  }

  // Each piece with whether it ends a document.
  absl::StatusOr<CorpusRow> Send(const std::string& kind,
                                 const std::vector<std::pair<std::string, bool>>& pieces) {
    auto upload = files_.Begin("c", kind);
    if (!upload.ok()) return upload.status();
    for (const auto& [piece, ends] : pieces) {
      if (absl::Status status = (*upload)->Append(piece, ends); !status.ok()) return status;
    }
    return (*upload)->Finish([] { return absl::OkStatus(); });
  }
  absl::StatusOr<CorpusRow> Index(const std::string& kind, const std::string& path) {
    return files_.IndexInPlace("c", kind, dir_.path() + "/in/" + path, [] { return false; });
  }
  // The document's bytes, or the error.
  absl::StatusOr<std::string> Document(const CorpusRow& row, int64_t document) {
    absl::StatusOr<CorpusReader> reader = files_.Open(row, document);
    if (!reader.ok()) return reader.status();
    std::string bytes;
    const absl::StatusOr<std::string> sha256 = reader->ForEachPiece([&](std::string piece) {
      bytes += piece;
      return absl::OkStatus();
    });
    if (!sha256.ok()) return sha256.status();
    EXPECT_EQ(*sha256, Sha256Hex(bytes));
    EXPECT_EQ(reader->bytes(), static_cast<int64_t>(bytes.size()));
    return bytes;
  }
  std::vector<std::string> Left() {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path() + "/corpora")) {
      if (entry.is_regular_file()) names.push_back(entry.path().filename());
    }
    return names;
  }

  TempDir dir_;
  CorpusFiles files_;
};

TEST_F(CorpusFilesTest, TheHashDoesNotDependOnHowItWasSent) {
  const auto whole = Send("text", {{"zero", true}, {"one", true}});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->sha256, kZeroOne);
  EXPECT_EQ(whole->documents, 2);
  EXPECT_EQ(whole->bytes, 7);
  EXPECT_EQ(whole->place, kInDataDir);
  EXPECT_EQ(Send("text", {{"z", false}, {"ero", false}, {"", true}, {"on", false}, {"e", true}})->sha256,
            kZeroOne);
  WriteFile(dir_.path() + "/in/b.txt", "one");
  WriteFile(dir_.path() + "/in/a.txt", "zero");
  WriteFile(dir_.path() + "/in/notes.md", "no document");
  EXPECT_EQ(Index("text", "")->sha256, kZeroOne);

  const auto lines = Send("jsonl", {{kLines, true}});
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_EQ(lines->sha256, kTwoLines);
  EXPECT_THAT(lines->text_fields, ElementsAre("text"));
  EXPECT_EQ(Send("jsonl", {{std::string(kLines).substr(0, 5), false}, {std::string(kLines).substr(5), true}})
                ->sha256,
            kTwoLines);
  WriteFile(dir_.path() + "/in/l.jsonl", kLines);
  EXPECT_EQ(Index("jsonl", "l.jsonl")->sha256, kTwoLines);
}

TEST_F(CorpusFilesTest, GivesTheDocumentsBack) {
  const CorpusRow texts = *Send("text", {{"zero", true}, {"", true}, {std::string("\0x", 2), true}});
  EXPECT_EQ(*Document(texts, 0), "zero");
  EXPECT_EQ(*Document(texts, 1), "");
  EXPECT_EQ(*Document(texts, 2), std::string("\0x", 2));
  const CorpusRow lines = *Send("jsonl", {{kLines, true}});
  EXPECT_EQ(*Document(lines, 0), "{\"text\":\"hi\",\"id\":1}");
  EXPECT_EQ(*Document(lines, 1), "{\"text\":\"there\"}");
  for (const int64_t none : {-1, 2}) {
    const absl::Status status = Document(lines, none).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr("documents 0 to 1"));
  }
}

TEST_F(CorpusFilesTest, ALongDocumentComesInPiecesOfOneMebibyte) {
  std::string text;
  for (int i = 0; text.size() < 2'500'000; ++i) text += std::to_string(i);
  const CorpusRow row = *Send("text", {{text, true}, {"after", true}});
  std::vector<size_t> sizes;
  ASSERT_TRUE(files_.Open(row, 0)
                  ->ForEachPiece([&](std::string piece) {
                    sizes.push_back(piece.size());
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_THAT(sizes, ElementsAre(1 << 20, 1 << 20, text.size() - (2 << 20)));
  EXPECT_EQ(*Document(row, 0), text);
  EXPECT_EQ(*Document(row, 1), "after");
}

TEST_F(CorpusFilesTest, ReadsWhatLiesInPlaceThere) {
  WriteFile(dir_.path() + "/in/l.jsonl", kLines);
  const CorpusRow row = *Index("jsonl", "l.jsonl");
  EXPECT_EQ(row.place, kInCorporaDir);
  EXPECT_EQ(*Document(row, 1), "{\"text\":\"there\"}");
  EXPECT_EQ(files_.Problem(row), "");
  EXPECT_THAT(Left(), ElementsAre(testing::StartsWith("index-")));
}

TEST_F(CorpusFilesTest, AFileThatChangedOrWentIsDataLoss) {
  const std::string path = dir_.path() + "/in/a.txt";
  WriteFile(path, "zero");
  const CorpusRow row = *Index("text", "a.txt");
  const auto expect_loss = [&](const char* why) {
    const absl::Status status = Document(row, 0).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_THAT(files_.Problem(row), HasSubstr(path));
  };
  WriteFile(path, "zerO");  // the same size
  expect_loss("changed");
  WriteFile(path, "zeros");
  expect_loss("has 5 bytes and had 4");
  fs::remove(path);
  expect_loss("is gone");
}

TEST_F(CorpusFilesTest, AChangedFileOfAFolderIsDataLossForItsDocumentAlone) {
  WriteFile(dir_.path() + "/in/a.txt", "zero");
  WriteFile(dir_.path() + "/in/b.txt", "one");
  const CorpusRow row = *Index("text", "");
  WriteFile(dir_.path() + "/in/b.txt", "three");
  EXPECT_EQ(*Document(row, 0), "zero");
  EXPECT_EQ(Document(row, 1).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(files_.Problem(row), "");
}

TEST_F(CorpusFilesTest, SendingAgainHealsADamagedContent) {
  const CorpusRow row = *Send("text", {{"zero", true}, {"one", true}});
  const std::string content = dir_.path() + "/corpora/" + kZeroOne + "/content";
  WriteFile(content, "zeroonE");
  EXPECT_EQ(*Document(row, 0), "zero");
  EXPECT_THAT(std::string(Document(row, 1).status().message()), HasSubstr("register it again"));
  WriteFile(dir_.path() + "/corpora/" + kZeroOne + "/index", "rubbish");
  EXPECT_EQ(Document(row, 0).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(files_.Problem(row), "");
  ASSERT_TRUE(Send("text", {{"zero", true}, {"one", true}}).ok());
  EXPECT_EQ(*Document(row, 1), "one");
  EXPECT_EQ(files_.Problem(row), "");
}

TEST_F(CorpusFilesTest, WhatIsNotFinishedLeavesNothing) {
  {
    auto upload = files_.Begin("c", "text");
    ASSERT_TRUE((*upload)->Append("zero", true).ok());
  }
  EXPECT_THAT(Left(), ElementsAre());
  auto cut = files_.Begin("c", "text");
  ASSERT_TRUE((*cut)->Append("zero", true).ok());
  EXPECT_EQ((*cut)->Finish([] { return absl::CancelledError("gone"); }).status().code(),
            absl::StatusCode::kCancelled);
  cut->reset();
  EXPECT_THAT(Left(), ElementsAre());
  EXPECT_EQ(Send("text", {{"zero", false}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Send("text", {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Send("text", {{"", true}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Send("jsonl", {{"\n \n", true}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Send("jsonl", {{"{}\n[]", true}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Left(), ElementsAre());
}

TEST_F(CorpusFilesTest, AStartSweepsWhatNoRowNames) {
  const CorpusRow kept = *Send("text", {{"zero", true}, {"one", true}});
  const CorpusRow lost = *Send("jsonl", {{kLines, true}});
  WriteFile(dir_.path() + "/corpora/unfinished/7", "half");
  ASSERT_TRUE(files_.Sweep({kept}).ok());
  EXPECT_THAT(Left(), testing::UnorderedElementsAre("content", "index"));
  EXPECT_EQ(*Document(kept, 0), "zero");
  EXPECT_EQ(Document(lost, 0).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(Send("jsonl", {{kLines, true}}).ok());
}

TEST_F(CorpusFilesTest, AStampTellsFilesApart) {
  const std::string path = dir_.path() + "/in/a.txt";
  WriteFile(path, "zero");
  const std::string before = *CorpusFiles::Stamp(path);
  EXPECT_EQ(*CorpusFiles::Stamp(path), before);
  const utimbuf earlier = {1000, 1000};
  ASSERT_EQ(utime(path.c_str(), &earlier), 0);
  EXPECT_NE(*CorpusFiles::Stamp(path), before);
  const std::string folder = *CorpusFiles::Stamp(dir_.path() + "/in");
  WriteFile(dir_.path() + "/in/b.txt", "");
  EXPECT_NE(*CorpusFiles::Stamp(dir_.path() + "/in"), folder);
  EXPECT_EQ(CorpusFiles::Stamp(dir_.path() + "/none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CorpusFilesTest, BadContentInPlaceIsNamedByItsFile) {
  WriteFile(dir_.path() + "/in/a.txt", "fine");
  WriteFile(dir_.path() + "/in/b.txt", "a\xFF");
  EXPECT_THAT(std::string(Index("text", "").status().message()), HasSubstr("b.txt: byte 1 "));
  WriteFile(dir_.path() + "/in/l.jsonl", "{}\nx");
  EXPECT_THAT(std::string(Index("jsonl", "l.jsonl").status().message()), HasSubstr("/in/l.jsonl:2: "));
  EXPECT_EQ(files_.IndexInPlace("c", "text", dir_.path() + "/in/a.txt", [] { return true; }).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_THAT(Left(), ElementsAre());
}

}  // namespace
}  // namespace ropelab::store
