// The language as people have written it: every spec that a version of ropelab shipped must go on meaning the
// same.
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "common/service/canonical_hash.h"
#include "fakes.h"
#include "tests/unit/absent.h"

namespace ropelab::experiments {
namespace {

namespace fs = std::filesystem;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

const fs::path kOwn = fs::path(ROPELAB_SOURCE_DIR) / "tests" / "specs";
const fs::path kShared = fs::path(ROPELAB_SOURCE_DIR) / ".." / "shared" / "specs";

std::string Read(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> FilesWith(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == extension) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool FromFile(const fs::path& path, Message& message) {
  const std::string text = Read(path);
  return path.extension() == ".json" ? google::protobuf::util::JsonStringToMessage(text, &message).ok()
                                     : TextFormat::ParseFromString(text, &message);
}

// A study is a file with top-level `experiments`.
v1::Submission SubmissionOf(const fs::path& path) {
  const std::string text = Read(path);
  v1::Submission submission;
  const bool study = path.extension() == ".json" ? text.find("\n  \"experiments\"") != std::string::npos
                                                 : text.find("\nexperiments") != std::string::npos;
  Message& message =
      study ? static_cast<Message&>(*submission.mutable_study()) : *submission.mutable_experiment();
  EXPECT_TRUE(FromFile(path, message)) << path;
  return submission;
}

const Message& Typed(const v1::Submission& submission) {
  return submission.has_study() ? static_cast<const Message&>(submission.study()) : submission.experiment();
}

// hashes.txt was written by another implementation of the canonical walk, over messages that another parser
// read.
TEST(FirstVersion, EverySpecStillMeansWhatItMeant) {
  std::ifstream hashes(kOwn / "v1" / "hashes.txt");
  std::string name, hash;
  int specs = 0;
  while (hashes >> name >> hash) {
    ++specs;
    for (const char* extension : {".textproto", ".json"}) {
      EXPECT_EQ(CanonicalHash(Typed(SubmissionOf(kOwn / "v1" / (name + extension)))), hash)
          << name << extension;
    }
  }
  EXPECT_EQ(specs, static_cast<int>(FilesWith(kOwn / "v1", ".textproto").size()));
}

void CollectFields(const Descriptor* type, std::set<std::string>& names, std::set<const Descriptor*>& seen) {
  if (!seen.insert(type).second) {
    return;
  }
  for (int i = 0; i < type->field_count(); ++i) {
    names.insert(type->field(i)->full_name());
    if (type->field(i)->message_type() != nullptr) {
      CollectFields(type->field(i)->message_type(), names, seen);
    }
    for (int v = 1; type->field(i)->enum_type() != nullptr && v < type->field(i)->enum_type()->value_count();
         ++v) {
      names.insert(type->field(i)->enum_type()->value(v)->full_name());
    }
  }
}

void CollectUsed(const Message& message, std::set<std::string>& used) {
  std::vector<const FieldDescriptor*> present;
  const auto* reflection = message.GetReflection();
  reflection->ListFields(message, &present);
  for (const FieldDescriptor* field : present) {
    used.insert(field->full_name());
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->message_type() != nullptr) {
        CollectUsed(field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                         : reflection->GetMessage(message, field),
                    used);
      } else if (field->enum_type() != nullptr) {
        used.insert((field->is_repeated() ? reflection->GetRepeatedEnum(message, field, i)
                                          : reflection->GetEnum(message, field))
                        ->full_name());
      }
    }
  }
}

TEST(SpecFiles, EveryFieldAndValueOfTheLanguageStandsInOneOfThem) {
  std::set<std::string> language, used;
  std::set<const Descriptor*> seen;
  CollectFields(v1::StudySpec::descriptor(), language, seen);
  for (const fs::path& path : FilesWith(kOwn, ".textproto")) {
    CollectUsed(Typed(SubmissionOf(path)), used);
  }
  for (const std::string& name : language) {
    EXPECT_TRUE(used.count(name) > 0) << name << " stands in no file of tests/specs";
  }
}

FakeCatalogue EveryModel() {
  ModelFacts stories = ToyModel("stories260K");
  stories.config.set_layers(5);
  stories.config.set_query_heads(8);
  stories.config.set_kv_heads(4);
  stories.config.set_head_dim(8);
  stories.config.set_vocabulary(512);
  stories.config.set_max_positions(512);
  ModelFacts needle = ReadingModel("needle-tiny");
  needle.config.set_max_positions(8192);
  CorpusFacts longbench = Books("longbench-v2");
  longbench.documents = 503;
  CorpusFacts books = Books("books", 'f');
  books.kind = "text";
  books.text_fields.clear();
  books.documents = 200;
  CorpusFacts novels = Books("novels", '1');
  novels.text_fields = {"body"};
  return FakeCatalogue({ReadingModel(), ToyModel("toy-wide"), needle, ToyModel("needle-tiny-0400"), stories},
                       {longbench, books, novels});
}

// Resolves, or every problem is a part that is not built yet.
std::set<std::string> AcceptedOf(const std::vector<fs::path>& files) {
  std::set<std::string> accepted;
  for (const fs::path& path : files) {
    Problems problems;
    ResolveSubmission(SubmissionOf(path), EveryModel(), problems);
    if (problems.empty()) {
      accepted.insert(path.stem());
    }
    for (const v1::FieldProblem& problem : problems.problems()) {
      EXPECT_NE(problem.remedy().find("not built in this version"), std::string::npos)
          << path << ": " << problem.field() << ": " << problem.remedy();
    }
  }
  return accepted;
}

TEST(SpecFiles, OursResolveOrNameAPartThatIsNotBuilt) {
  for (const char* extension : {".textproto", ".json"}) {
    EXPECT_THAT(AcceptedOf(FilesWith(kOwn, extension)),
                testing::ElementsAre("inspection", "low_rank_controls", "ood_test", "rope_geometry",
                                     "rope_geometry_entries", "rope_geometry_positions", "shallow_training",
                                     "shallow_training_list", "slash_detection", "slash_given",
                                     "slash_sampled", "study_models"))
        << extension;
  }
}

TEST(SpecFiles, TheSharedOnesResolveOrNameAPartThatIsNotBuilt) {
  if (!fs::is_directory(kShared)) {
    ROPELAB_ABSENT("no shared specs at " + kShared.string());
  }
  EXPECT_THAT(
      AcceptedOf(FilesWith(kShared, ".textproto")),
      testing::ElementsAre("inspection", "ood_test", "rope_geometry", "shallow_training", "slash_large",
                           "slash_maps", "slash_small", "slash_study", "slash_token_ids", "slash_uniform"));
}

TEST(SpecFiles, AnUnknownModelIsTheErrorOfASpecThatIsBuilt) {
  Problems problems;
  ResolveSubmission(SubmissionOf(kOwn / "v1" / "slash_sampled.textproto"),
                    FakeCatalogue(std::vector<ModelFacts>{}), problems);
  ASSERT_EQ(problems.problems().size(), 1u);
  EXPECT_EQ(problems.problems()[0].field(), "model");
}

}  // namespace
}  // namespace ropelab::experiments
