// Commands against a server in this process, which dies and comes back.
#include "client/commands.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "client/run.h"
#include "common/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/client/fake_server.h"

namespace ropelab::client {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
namespace fs = std::filesystem;

v1::WatchEvent Event(const std::string& state, bool final) {
  v1::WatchEvent event;
  event.set_final(final);
  event.add_experiments()->set_id("1");
  event.mutable_experiments(0)->set_state(state);
  return event;
}

class CommandsTest : public testing::Test {
 protected:
  CommandsTest() {
    folder_ = fs::temp_directory_path() / ("ropelab_commands_test_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    options_.patience.gone = milliseconds(10000);
  }
  ~CommandsTest() override { fs::remove_all(folder_); }

  // The exit code of a whole command line.
  int Ropelab(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server_.address()});
    Console console{out_, err_};
    return static_cast<int>(client::Run(arguments, console));
  }
  // A command with patience of the test's own.
  ExitCode Command(absl::StatusOr<ExitCode> (*command)(Session&)) {
    Connection connection(server_.address(), "");
    Console console{out_, err_};
    Session session{options_, connection, console};
    const auto result = command(session);
    return result.ok() ? *result : ExitCodeOf(result.status());
  }
  std::string WriteSpec(const std::string& text) {
    const fs::path path = folder_ / "spec.textproto";
    std::ofstream(path) << text;
    return path;
  }
  static std::string Content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  FakeServer server_;
  Options options_;
  std::ostringstream out_, err_;
  fs::path folder_;
};

TEST_F(CommandsTest, WatchGoesOnAfterTheServerDiedAndCameBack) {
  std::atomic<int> connections{0};
  std::atomic<bool> sent{false};
  server_.watch = [&](grpc::ServerContext* context, grpc::ServerWriter<v1::WatchEvent>* writer) {
    if (++connections > 1) {
      writer->Write(Event("done", true));
      return grpc::Status::OK;
    }
    writer->Write(Event("running", false));
    sent = true;
    while (!context->IsCancelled()) std::this_thread::sleep_for(milliseconds(5));
    return grpc::Status::CANCELLED;
  };
  options_.id = "1";
  std::thread killer([&] {
    while (!sent) std::this_thread::sleep_for(milliseconds(5));
    std::this_thread::sleep_for(milliseconds(100));
    server_.Stop();
    std::this_thread::sleep_for(milliseconds(300));
    server_.Start();
  });
  const ExitCode code = Command(RunWatch);
  killer.join();
  EXPECT_EQ(code, ExitCode::kDone);
  EXPECT_EQ(connections, 2);
  EXPECT_THAT(out_.str(), HasSubstr("running"));
  EXPECT_THAT(out_.str(), HasSubstr("no server answers at"));
  EXPECT_THAT(out_.str(), HasSubstr("the server is back"));
  EXPECT_THAT(out_.str(), HasSubstr("1: done"));
}

TEST_F(CommandsTest, WatchGivesUpOnAServerThatStaysAway) {
  server_.Stop();
  options_.id = "1";
  options_.patience.gone = milliseconds(300);
  EXPECT_EQ(Command(RunWatch), ExitCode::kUnreachable);
}

TEST_F(CommandsTest, WatchTakesASilentServerForGone) {
  server_.watch = [](grpc::ServerContext* context, grpc::ServerWriter<v1::WatchEvent>*) {
    while (!context->IsCancelled()) std::this_thread::sleep_for(milliseconds(5));
    return grpc::Status::CANCELLED;
  };
  options_.id = "1";
  options_.patience = {milliseconds(300), milliseconds(100)};
  EXPECT_EQ(Command(RunWatch), ExitCode::kUnreachable);
}

TEST_F(CommandsTest, WatchEndsWithOneWhenTheExperimentFailed) {
  server_.watch = [](grpc::ServerContext*, grpc::ServerWriter<v1::WatchEvent>* writer) {
    writer->Write(Event("failed", true));
    return grpc::Status::OK;
  };
  EXPECT_EQ(Ropelab({"watch", "1"}), 1);
}

TEST_F(CommandsTest, WatchWritesOneJsonObjectPerEvent) {
  server_.watch = [](grpc::ServerContext*, grpc::ServerWriter<v1::WatchEvent>* writer) {
    writer->Write(Event("running", false));
    writer->Write(Event("done", true));
    return grpc::Status::OK;
  };
  EXPECT_EQ(Ropelab({"watch", "1", "--json"}), 0);
  const std::string text = out_.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_THAT(text, HasSubstr("\"final\":true}\n"));
}

TEST_F(CommandsTest, WatchDoesNotRetryARefusal) {
  server_.watch = [](grpc::ServerContext*, grpc::ServerWriter<v1::WatchEvent>*) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no experiment 9");
  };
  EXPECT_EQ(Ropelab({"watch", "9"}), 4);
  EXPECT_THAT(err_.str(), HasSubstr("there is no experiment 9"));
}

TEST_F(CommandsTest, SubmitRepeatsItsRequestIdUntilTheServerAnswers) {
  std::vector<std::string> ids;
  server_.submit = [&](const v1::SubmitRequest& request, v1::SubmitResponse* response) {
    ids.push_back(request.request_id());
    if (ids.size() < 3) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
    }
    response->add_experiment_ids("7");
    return grpc::Status::OK;
  };
  EXPECT_EQ(Ropelab({"submit", WriteSpec("name: 'x' slash_detection {}")}), 0);
  EXPECT_EQ(out_.str(), "7\n");
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 1u);
  EXPECT_THAT(ids[0],
              testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
}

TEST_F(CommandsTest, SubmitPrintsTheStudyFirstAndWarningsElsewhere) {
  v1::SubmitRequest seen;
  server_.submit = [&](const v1::SubmitRequest& request, v1::SubmitResponse* response) {
    seen = request;
    response->set_study_id("s1");
    response->add_experiment_ids("2");
    response->add_experiment_ids("3");
    response->add_warnings("few prompts");
    return grpc::Status::OK;
  };
  const std::string spec = WriteSpec("experiments { name: 'd' slash_detection {} }");
  EXPECT_EQ(Ropelab({"submit", "--set", "experiments.d.slash_detection.threshold=0.5", spec}), 0);
  EXPECT_EQ(out_.str(), "s1\n2\n3\n");
  EXPECT_EQ(err_.str(), "warning: few prompts\n");
  EXPECT_EQ(seen.submission().study().experiments(0).slash_detection().threshold(), 0.5);
  EXPECT_FALSE(seen.user().empty());
}

TEST_F(CommandsTest, SubmitAndWaitFollowsToTheEndWithIdsAloneOnStdout) {
  server_.submit = [](const v1::SubmitRequest&, v1::SubmitResponse* response) {
    response->add_experiment_ids("1");
    return grpc::Status::OK;
  };
  server_.watch = [](grpc::ServerContext*, grpc::ServerWriter<v1::WatchEvent>* writer) {
    writer->Write(Event("cancelled", true));
    return grpc::Status::OK;
  };
  EXPECT_EQ(Ropelab({"submit", "--wait", WriteSpec("inspection {}")}), 1);
  EXPECT_EQ(out_.str(), "1\n");
  EXPECT_THAT(err_.str(), HasSubstr("1: cancelled"));
}

TEST_F(CommandsTest, SubmitPrintsTheProblemsOfARefusedSpec) {
  server_.submit = [](const v1::SubmitRequest&, v1::SubmitResponse*) {
    v1::ValidateResponse problems;
    problems.add_problems()->set_field("model");
    problems.mutable_problems(0)->set_value("nope");
    problems.mutable_problems(0)->set_remedy("known models: a, b");
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "refused", problems.SerializeAsString());
  };
  EXPECT_EQ(Ropelab({"submit", WriteSpec("model: 'nope' slash_detection {}")}), 4);
  EXPECT_THAT(err_.str(), HasSubstr("\nmodel: \"nope\": known models: a, b\n"));
  EXPECT_EQ(out_.str(), "");
}

TEST_F(CommandsTest, ASpecThatDoesNotParseIsUsageAndReachesNoServer) {
  server_.Stop();
  EXPECT_EQ(Ropelab({"submit", WriteSpec("nam: 'x'")}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("spec.textproto:1:"));
}

TEST_F(CommandsTest, ValidateEndsWithFourWhenThereAreProblems) {
  server_.validate = [](const v1::ValidateRequest&, v1::ValidateResponse* response) {
    response->add_problems()->set_field("model");
    response->mutable_problems(0)->set_remedy("name a model");
    return grpc::Status::OK;
  };
  EXPECT_EQ(Ropelab({"validate", WriteSpec("slash_detection {}")}), 4);
  EXPECT_EQ(err_.str(), "model: name a model\n");
}

TEST_F(CommandsTest, NothingListeningIsThreeAndAnUnknownCommandTwo) {
  EXPECT_EQ(Ropelab({"frobnicate"}), 2);
  EXPECT_EQ(Ropelab({}), 2);
  EXPECT_EQ(Ropelab({"show"}), 2);
  server_.Stop();
  EXPECT_EQ(Ropelab({"list"}), 3);
  EXPECT_THAT(err_.str(), HasSubstr("is `ropelab up` or ropelab-server running?"));
}

TEST_F(CommandsTest, HelpHasAnExampleForEveryCommand) {
  for (const auto& command : Commands()) {
    out_.str("");
    EXPECT_EQ(Ropelab({command.name, "--help"}), 0);
    EXPECT_THAT(out_.str(), HasSubstr("Example:\n  ropelab ")) << command.name;
    EXPECT_THAT(out_.str(), HasSubstr(command.name));
  }
}

TEST_F(CommandsTest, ListPassesFiltersOnAndPrintsAnArray) {
  v1::ListRequest seen;
  server_.list = [&](const v1::ListRequest& request, v1::ListResponse* response) {
    seen = request;
    response->add_experiments()->set_id("5");
    return grpc::Status::OK;
  };
  EXPECT_EQ(Ropelab({"list", "--user", "u", "--state", "done", "--kind", "k", "--model", "m", "--tag", "t",
                     "--json"}),
            0);
  EXPECT_EQ(seen.user() + seen.state() + seen.kind() + seen.model() + seen.tag(), "udonekmt");
  EXPECT_EQ(out_.str().front(), '[');
}

TEST_F(CommandsTest, ListSaysWhetherNothingIsThereOrNothingFits) {
  server_.list = [](const v1::ListRequest&, v1::ListResponse*) { return grpc::Status::OK; };
  EXPECT_EQ(Ropelab({"list"}), 0);
  EXPECT_EQ(out_.str(), "no experiments\n");
  out_.str("");
  EXPECT_EQ(Ropelab({"list", "--tag", "x"}), 0);
  EXPECT_EQ(out_.str(), "no experiment is like that; ropelab list, without flags, shows all\n");
}

TEST_F(CommandsTest, SendsTheTokenOfTheFileAsABearer) {
  std::string authorization;
  server_.get = [&](grpc::ServerContext* context, const v1::GetRequest&, v1::Experiment*) {
    const auto header = context->client_metadata().find("authorization");
    if (header != context->client_metadata().end())
      authorization = {header->second.data(), header->second.size()};
    return grpc::Status::OK;
  };
  std::ofstream(folder_ / "token") << "s3cret\n";
  EXPECT_EQ(Ropelab({"show", "1", "--token-file", folder_ / "token"}), 0);
  EXPECT_EQ(authorization, "Bearer s3cret");
}

v1::TableSlice Slice(int64_t first, int64_t rows) {
  v1::TableSlice slice;
  slice.set_rows(rows);
  slice.add_columns()->set_name("x");
  slice.mutable_columns(0)->set_type(v1::Column::INTEGER);
  for (int64_t i = 0; i < rows; ++i) slice.mutable_columns(0)->add_integers(first + i);
  return slice;
}

TEST_F(CommandsTest, ResultsStreamsSlicesAsOneTable) {
  server_.slices = {Slice(1, 2), Slice(3, 1)};
  EXPECT_EQ(Ropelab({"results", "1", "--table", "t", "--format", "csv"}), 0);
  EXPECT_EQ(out_.str(), "x\n1\n2\n3\n");
}

TEST_F(CommandsTest, ResultsTakesTheFormatFromTheEndingOfTheFile) {
  server_.slices = {Slice(1, 1)};
  for (const auto& [name, text] :
       {std::pair{"a.csv", "x\n1\n"}, {"a.jsonl", "{\"x\":1}\n"}, {"a.txt", "x\n1\n(1 row)\n"}}) {
    EXPECT_EQ(Ropelab({"results", "e1", "--table", "t", "-o", folder_ / name}), 0) << err_.str();
    EXPECT_EQ(Content(folder_ / name), text);
  }
  EXPECT_EQ(Ropelab({"results", "e1", "--table", "t", "-o", folder_ / "b.csv", "--format", "jsonl"}), 0);
  EXPECT_EQ(Content(folder_ / "b.csv"), "{\"x\":1}\n");
}

TEST_F(CommandsTest, ResultsRefusesAnEndingThatNoTableIsWrittenAs) {
  server_.slices = {Slice(1, 1)};
  EXPECT_EQ(Ropelab({"results", "e1", "--table", "t", "-o", folder_ / "a.json"}), 2);
  EXPECT_THAT(err_.str(),
              HasSubstr("a.json: no table is written as .json: say .jsonl, which holds one JSON"));
  EXPECT_EQ(Ropelab({"results", "e1", "--table", "t", "-o", folder_ / "a.xlsx"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("a.xlsx: no table is written as .xlsx: say .csv"));
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_EQ(Ropelab({"results", "e1", "--table", "t", "-o", folder_ / "a.json", "--format", "jsonl"}), 0);
  EXPECT_EQ(Ropelab({"results", "e1", "--table", "t", "-o", folder_ / "b.json", "--json"}), 0);
  EXPECT_EQ(Content(folder_ / "b.json"), "{\"x\":1}\n");
}

TEST_F(CommandsTest, ResultsWritesAFileWholeOrNotAtAll) {
  server_.slices = {Slice(1, 2)};
  EXPECT_EQ(Ropelab({"results", "1", "--table", "t", "--format", "jsonl", "-o", folder_ / "f"}), 0);
  EXPECT_EQ(Content(folder_ / "f"), "{\"x\":1}\n{\"x\":2}\n");
  server_.slices[0].set_rows(3);  // broken
  EXPECT_EQ(Ropelab({"results", "1", "--table", "t", "--format", "csv", "-o", folder_ / "f"}), 4);
  EXPECT_EQ(Content(folder_ / "f"), "{\"x\":1}\n{\"x\":2}\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(CommandsTest, ResultsChecksTheHashOfAnArtifact) {
  v1::ArtifactData first, second;
  first.set_data("ab");
  first.set_total_bytes(3);
  // SHA-256 of "abc", FIPS 180-2 appendix B.1.
  first.set_sha256("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  second.set_data("c");
  server_.pieces = {first, second};
  EXPECT_EQ(Ropelab({"results", "1", "--artifact", "a", "-o", folder_ / "f"}), 0);
  EXPECT_EQ(Content(folder_ / "f"), "abc");
  server_.pieces[1].set_data("d");
  EXPECT_EQ(Ropelab({"results", "1", "--artifact", "a", "-o", folder_ / "g"}), 4);
  EXPECT_FALSE(fs::exists(folder_ / "g"));
}

TEST_F(CommandsTest, NamesTheCommandsForOneThatThereIsNot) {
  const int code = Ropelab({"status", "e1"});
  EXPECT_EQ(code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("ropelab: there is no command \"status\"; commands: submit, watch"));
}

TEST_F(CommandsTest, NamesTheCommandThatWasProbablyMeant) {
  EXPECT_EQ(Ropelab({"sumbit", "a.textproto"}), 2);
  EXPECT_THAT(err_.str(),
              HasSubstr("there is no command \"sumbit\". Is \"submit\" meant? Commands: submit, "));
  EXPECT_EQ(Ropelab({"heads", "imprt"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("ropelab heads: imprt: not expected here. Is \"import\" meant?\n"));
}

TEST_F(CommandsTest, NamesTheFlagThatWasProbablyMeant) {
  EXPECT_EQ(Ropelab({"list", "--stat", "done"}), 2);
  EXPECT_THAT(err_.str(),
              HasSubstr("--stat done: not expected here. Is --state meant?\n`ropelab list --help`"));
  EXPECT_EQ(Ropelab({"list", "--jsn"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--jsn: not expected here. Is --json meant?\n"));
  EXPECT_EQ(Ropelab({"show", "--jsn"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("ropelab show: --jsn: not expected here. Is --json meant?\n"));
  EXPECT_EQ(Ropelab({"results", "e1", "--tabel=t"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--tabel=t: not expected here. Is --table meant?\n"));
}

TEST_F(CommandsTest, SendsAnUnknownFlagToTheHelpOfItsCommand) {
  const int code = Ropelab({"list", "--frobnicate", "done"});
  EXPECT_EQ(code, 2);
  EXPECT_THAT(err_.str(),
              HasSubstr("ropelab list: --frobnicate done: not expected here\n`ropelab list --help`"));
}

}  // namespace
}  // namespace ropelab::client
