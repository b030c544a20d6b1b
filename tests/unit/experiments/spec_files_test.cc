// The language as people have written it: every spec that a version of ropelab shipped must go on meaning the
// same.
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
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

// A checkpoint of the model that ships, but for its length.
ModelFacts NeedleModel(const std::string& name, char weights) {
  ModelFacts needle = ReadingModel(name);
  needle.weights_hash = std::string(64, weights);
  needle.config.set_layers(4);
  needle.config.set_query_heads(8);
  needle.config.set_kv_heads(4);
  needle.config.set_head_dim(32);
  needle.config.set_max_positions(8192);
  return needle;
}

// Everything that the specs name.
FakeCatalogue EveryModel() {
  ModelFacts stories = ToyModel("stories260K");
  stories.config.set_layers(5);
  stories.config.set_query_heads(8);
  stories.config.set_kv_heads(4);
  stories.config.set_head_dim(8);
  stories.config.set_vocabulary(512);
  stories.config.set_max_positions(512);
  CorpusFacts longbench = Books("longbench-v2");
  longbench.documents = 503;
  CorpusFacts books = Books("books", 'f');
  books.kind = "text";
  books.text_fields.clear();
  books.documents = 200;
  CorpusFacts novels = Books("novels", '1');
  novels.text_fields = {"body"};
  ModelFacts toy_100 = ReadingModel("toy-100"), toy_200 = ReadingModel("toy-200");
  toy_100.weights_hash = std::string(64, '1');
  toy_200.weights_hash = std::string(64, '2');
  std::vector<ModelFacts> models = {ReadingModel(), ToyModel("toy-wide"),           toy_100, toy_200,
                                    stories,        NeedleModel("needle-tiny", '0')};
  for (char step = '1'; step <= '4'; ++step) {
    models.push_back(NeedleModel(std::string("needle-tiny-0") + step + "00", step));
  }
  ImportedScores friends, published;
  friends.name = "scores of a friend";
  friends.sha256 = std::string(64, '8');
  published.name = "published-scores";
  published.sha256 = std::string(64, '9');
  for (int64_t head = 0; head < 8; ++head) {
    friends.heads.push_back({head / 4, head % 4, 0.5, 1});
    published.heads.push_back({0, head, 0.5, 1});
    published.heads.push_back({1, head, 0.2, 1});
  }
  return FakeCatalogue(models, {longbench, books, novels}, {friends, published});
}

// The fields that are said to be wrong, by file; those that resolve are left out.
std::map<std::string, std::set<std::string>> RefusedOf(const std::vector<fs::path>& files) {
  std::map<std::string, std::set<std::string>> refused;
  for (const fs::path& path : files) {
    Problems problems;
    ResolveSubmission(SubmissionOf(path), EveryModel(), problems);
    for (const v1::FieldProblem& problem : problems.problems()) {
      refused[path.stem()].insert(problem.field());
    }
  }
  return refused;
}

// Some were written when nothing but the language was built, to have every field in them, also those that
// exclude each other.
TEST(SpecFiles, OursResolveUnlessTheyContradictThemselves) {
  const std::map<std::string, std::set<std::string>> refused = {
      {"checkpoint_sweep_smoothed", {"checkpoint_sweep.checkpoints"}},
      {"context_sweep", {"context_sweep.positions", "context_sweep.perplexity"}},
      {"coverage_sweep", {"coverage_sweep.positions"}},
      {"dose_sweep", {"dose_sweep.positions"}},
      {"frequency_analysis", {"frequency_analysis.heads.imported"}},
      {"inspection_interventions",
       {"inspection.interventions[0].zero_head.position_range",
        "inspection.interventions[1].zero_dims.position_range",
        "inspection.interventions[2].unrotate.position_range",
        "inspection.interventions[3].scale_dims.position_range"}},
      {"patch", {"patch.positions"}},
      {"per_head_patch", {"per_head_patch.positions", "per_head_patch.perplexity"}},
      {"study", {"experiments.without them.knockout.perplexity"}}};
  for (const char* extension : {".textproto", ".json"}) {
    EXPECT_EQ(RefusedOf(FilesWith(kOwn, extension)), refused) << extension;
  }
}

TEST(SpecFiles, TheSharedOnesResolve) {
  if (!fs::is_directory(kShared)) {
    ROPELAB_ABSENT("no shared specs at " + kShared.string());
  }
  EXPECT_THAT(RefusedOf(FilesWith(kShared, ".textproto")), testing::IsEmpty());
}

TEST(SpecFiles, StudiesResolve) {
  const std::vector<fs::path> studies =
      FilesWith(fs::path(ROPELAB_SOURCE_DIR) / "studies" / "retrieval", ".textproto");
  EXPECT_EQ(studies.size(), 19u);  // Tables 2 to 16, three figures, and all
  std::map<std::string, ModelFacts> models = {{"needle-tiny", NeedleModel("needle-tiny", '0')}};
  const std::regex checkpoint("needle-tiny-[0-9]{4}");
  for (const fs::path& path : studies) {
    const std::string text = Read(path);
    for (std::sregex_iterator name(text.begin(), text.end(), checkpoint), end; name != end; ++name) {
      const char weights = static_cast<char>('A' + models.size());
      models.emplace(name->str(), NeedleModel(name->str(), weights));
    }
  }
  std::vector<ModelFacts> known;
  for (const auto& [name, model] : models) {
    known.push_back(model);
  }
  for (const fs::path& path : studies) {
    Problems problems;
    ResolveSubmission(SubmissionOf(path), FakeCatalogue(known), problems);
    for (const v1::FieldProblem& problem : problems.problems()) {
      ADD_FAILURE() << path << ": " << problem.field() << ": " << problem.remedy();
    }
  }
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
