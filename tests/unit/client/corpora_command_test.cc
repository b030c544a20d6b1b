// `ropelab corpora` against a server in this process.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "client/corpus_source.h"
#include "client/run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/client/fake_server.h"

namespace ropelab::client {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class CorporaCommandTest : public testing::Test {
 protected:
  CorporaCommandTest() {
    folder_ = fs::temp_directory_path() / ("ropelab_corpora_test_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    server_.corpus_part = [this](const v1::AddCorpusRequest& request) {
      if (request.has_head()) {
        head_ = request.head();
      } else {
        open_ += request.data();
        largest_ = std::max(largest_, request.data().size());
        if (request.document_ends()) documents_.push_back(std::exchange(open_, {}));
      }
      return grpc::Status::OK;
    };
    server_.added = [this](v1::AddCorpusResponse* response) {
      response->mutable_corpus()->set_name(head_.name());
      response->mutable_corpus()->set_sha256("0123456789abcdef0123456789abcdef");
      response->mutable_corpus()->set_documents(static_cast<int64_t>(documents_.size()));
      return grpc::Status::OK;
    };
  }
  ~CorporaCommandTest() override { fs::remove_all(folder_); }

  int Ropelab(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server_.address()});
    Console console{out_, err_};
    return static_cast<int>(client::Run(arguments, console));
  }
  std::string File(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  FakeServer server_;
  fs::path folder_;
  v1::CorpusHead head_;
  std::vector<std::string> documents_;
  std::string open_;
  size_t largest_ = 0;
  std::ostringstream out_, err_;
};

TEST_F(CorporaCommandTest, SendsTheTextsOfAFolderInNameOrder) {
  File("b.txt", "one");
  File("a.txt", "");
  File("c.txt", std::string(2 << 20, 'x'));
  File("notes.md", "no document");
  EXPECT_EQ(Ropelab({"corpora", "add", "books", folder_}), 0) << err_.str();
  EXPECT_EQ(head_.name(), "books");
  EXPECT_EQ(head_.kind(), "text");
  EXPECT_NE(head_.user(), "");
  EXPECT_THAT(documents_, ElementsAre("", "one", std::string(2 << 20, 'x')));
  EXPECT_LE(largest_, size_t{1} << 20);
  EXPECT_THAT(out_.str(), HasSubstr("name:        books\n"));
  EXPECT_THAT(out_.str(), HasSubstr("documents:   3\n"));
  EXPECT_THAT(out_.str(), HasSubstr("0123456789abcdef0123456789abcdef"));
}

TEST_F(CorporaCommandTest, TheKindIsToldByTheNameOrByTheFlag) {
  EXPECT_EQ(Ropelab({"corpora", "add", "l", File("l.jsonl", "{}\n")}), 0);
  EXPECT_EQ(head_.kind(), "jsonl");
  EXPECT_EQ(Ropelab({"corpora", "add", "t", File("t.txt", "x")}), 0);
  EXPECT_EQ(head_.kind(), "text");
  EXPECT_EQ(Ropelab({"corpora", "add", "d", File("d.data", "{}\n")}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--kind text or --kind jsonl"));
  EXPECT_EQ(Ropelab({"corpora", "add", "d", folder_ / "d.data", "--kind", "jsonl", "--json"}), 0);
  EXPECT_EQ(head_.kind(), "jsonl");
  EXPECT_THAT(out_.str(), HasSubstr("\"already_registered\": false"));
}

TEST_F(CorporaCommandTest, SaysThatOneFileIsOneDocument) {
  File("a.txt", "a");
  EXPECT_EQ(Ropelab({"corpora", "add", "book", folder_ / "a.txt"}), 0);
  EXPECT_THAT(err_.str(), HasSubstr("one document, and each gives one prompt: for more, add a folder"));
  err_.str("");
  documents_.clear();
  File("b.txt", "b");
  EXPECT_EQ(Ropelab({"corpora", "add", "books", folder_}), 0);
  EXPECT_THAT(err_.str(), testing::Not(HasSubstr("one document")));
}

TEST_F(CorporaCommandTest, BadInputIsNamedAndNothingIsRegistered) {
  bool answered = false;
  server_.added = [&](v1::AddCorpusResponse*) {
    answered = true;
    return grpc::Status::OK;
  };
  fs::create_directory(folder_ / "empty");
  const std::pair<std::vector<std::string>, std::string> bad[] = {
      {{"x", folder_ / "none.txt"}, "none.txt: no such file"},
      {{"x", folder_ / "empty"}, "empty: holds no *.txt file"},
      {{"a/b", File("a.txt", "x")}, "cannot be named \"a/b\""},
      {{"x", File("empty.txt", "")}, "empty.txt: is empty"},
      {{"x", File("blank.jsonl", " \n\n")}, "blank.jsonl: holds blank lines alone"},
      {{"x", File("bad.txt", "ab\xFF")}, "bad.txt: byte 2"},
      {{"x", File("bad.jsonl", "{}\n{]\n")}, "bad.jsonl:2: is not a JSON object"},
      {{"x", folder_ / "empty", "--kind", "jsonl"}, "is for one file"},
      {{"x", "/dev/null"}, "neither a file nor a folder"}};
  for (const auto& [arguments, why] : bad) {
    err_.str("");
    std::vector<std::string> line = {"corpora", "add"};
    line.insert(line.end(), arguments.begin(), arguments.end());
    EXPECT_EQ(Ropelab(line), 2) << why;
    EXPECT_THAT(err_.str(), HasSubstr(why));
  }
  EXPECT_FALSE(answered);
}

TEST_F(CorporaCommandTest, ARefusalOfTheServerEndsTheSending) {
  int parts = 0;
  server_.corpus_part = [&](const v1::AddCorpusRequest&) {
    return ++parts < 3 ? grpc::Status::OK
                       : grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no space left: free some");
  };
  EXPECT_EQ(Ropelab({"corpora", "add", "big", File("big.txt", std::string(40 << 20, 'x'))}), 4);
  EXPECT_THAT(err_.str(), HasSubstr("no space left: free some"));
  EXPECT_EQ(parts, 3);
}

TEST_F(CorporaCommandTest, NoServerIsThree) {
  server_.Stop();
  EXPECT_EQ(Ropelab({"corpora"}), 3);
  EXPECT_EQ(Ropelab({"corpora", "add", "a", File("a.txt", "x")}), 3);
}

TEST_F(CorporaCommandTest, ListsWhatIsRegistered) {
  server_.list_corpora = [](v1::ListCorporaResponse* response) {
    response->add_corpora()->set_name("moby");
    return grpc::Status::OK;
  };
  EXPECT_EQ(Ropelab({"corpora"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("moby"));
  out_.str("");
  EXPECT_EQ(Ropelab({"corpora", "--json"}), 0);
  EXPECT_EQ(out_.str().front(), '[');
}

TEST_F(CorporaCommandTest, HelpOfAddHasExamplesAndErrorsSendThere) {
  EXPECT_EQ(Ropelab({"corpora", "add", "--help"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("ropelab corpora add books ./books"));
  EXPECT_EQ(Ropelab({"corpora", "add", "name"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("`ropelab corpora add --help`"));
}

}  // namespace
}  // namespace ropelab::client
