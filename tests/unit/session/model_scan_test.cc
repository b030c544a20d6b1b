#include "worker/session/model_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "tests/unit/formats/temporary_directory.h"
#include "worker/formats/plant.h"
#include "worker/model/loaded_model.h"
#include "worker/session/verification.h"

namespace ropelab::session {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(NoModelsAdvice, NamesARootThatIsItselfAModel) {
  const ropelab::unit::TemporaryDirectory place;
  place.Write("config.json", "{}");
  EXPECT_THAT(NoModelsAdvice({place.path()}), HasSubstr("is itself a model"));
}

TEST(NoModelsAdvice, SaysWhatAModelsFolderHolds) {
  const ropelab::unit::TemporaryDirectory place;
  const std::string advice = NoModelsAdvice({place.path()});
  EXPECT_THAT(advice, HasSubstr(place.path()));
  EXPECT_THAT(advice, HasSubstr("config.json"));
  EXPECT_THAT(NoModelsAdvice({}), HasSubstr("--models"));
}

// A model of 256 tokens in a folder of its own.
FoundModel Planted(const ropelab::unit::TemporaryDirectory& place) {
  formats::PlantOptions options;
  options.out = place.path() + "/planted";
  EXPECT_TRUE(formats::Plant(options).ok());
  return {"planted", options.out};
}

TEST(Announce, TellsOfTheTokenizer) {
  const ropelab::unit::TemporaryDirectory place;
  const FoundModel model = Planted(place);
  place.Write("planted/tokenizer.json", R"({
    "added_tokens": [{"id": 3, "content": "<s>", "special": true, "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false}],
    "normalizer": null, "decoder": {"type": "ByteLevel"},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}}},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  const v1::ModelAnnouncement announcement = Announce(model, "");
  EXPECT_EQ(announcement.problem(), "");
  EXPECT_THAT(announcement.tokenizer_hash(), ::testing::SizeIs(64));
  EXPECT_TRUE(announcement.config().has_tokenizer());
  EXPECT_TRUE(announcement.config().tokenizer_adds_bos());
  EXPECT_EQ(announcement.config().bos_token_id(), 3);
  EXPECT_EQ(announcement.config().vocabulary(), 4);
}

TEST(Announce, ServesTokenIdsWhereTheTokenizerCannotBeRead) {
  const ropelab::unit::TemporaryDirectory place;
  const FoundModel model = Planted(place);
  place.Write("planted/tokenizer.json", R"({"model": {"type": "Unheard"}})");
  const v1::ModelAnnouncement announcement = Announce(model, "");
  EXPECT_EQ(announcement.problem(), "");
  EXPECT_FALSE(announcement.config().has_tokenizer());
  EXPECT_EQ(announcement.config().vocabulary(), 256);
}

TEST(Announce, SaysOfAMissingTensorWhatLoadingWouldSay) {
  const ropelab::unit::TemporaryDirectory place;
  const FoundModel model = Planted(place);
  std::ifstream in(place.File("planted/config.json"));
  std::string config((std::istreambuf_iterator<char>(in)), {});
  const std::string one = R"("num_hidden_layers": 1)";
  ASSERT_THAT(config, HasSubstr(one));
  place.Write("planted/config.json",
              config.replace(config.find(one), one.size(), R"("num_hidden_layers": 2)"));
  const v1::ModelAnnouncement announcement = Announce(model, "");
  EXPECT_THAT(announcement.problem(), HasSubstr("tensor model.layers.1.input_layernorm.weight"));
  EXPECT_EQ(announcement.problem(), model::ModelBytes(model.directory, at::kFloat).status().message());
}

// What a worker that looks at the models under `root` says in its log.
std::string LogOfFinding(const std::string& root, size_t models) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("scan", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  const auto found = FindModels({root});
  spdlog::set_default_logger(before);
  EXPECT_TRUE(found.ok() && found->size() == models) << found.status();
  return log.str();
}

TEST(FindModels, WarnsOnceOfWeightsWithoutAConfig) {
  const ropelab::unit::TemporaryDirectory place;
  Planted(place);
  for (const char* folder : {"single", "sharded", "empty"})
    std::filesystem::create_directory(place.File(folder));
  place.Write("single/model.safetensors", "");
  place.Write("sharded/model.safetensors.index.json", "{}");
  const std::string log = LogOfFinding(place.path(), 1);
  EXPECT_THAT(log, HasSubstr("single: config.json is missing beside model.safetensors,"));
  EXPECT_THAT(log, HasSubstr("sharded: config.json is missing beside model.safetensors.index.json,"));
  EXPECT_THAT(log, Not(HasSubstr("empty")));
  EXPECT_EQ(LogOfFinding(place.path(), 1), "");
}

TEST(ModelsStamp, DiffersWhenTheParityGateHasReported) {
  const ropelab::unit::TemporaryDirectory place, cache;
  Planted(place);
  const std::string before = ModelsStamp({place.path()}, cache.path());
  EXPECT_THAT(before, HasSubstr("planted"));
  EXPECT_EQ(ModelsStamp({place.path()}, cache.path()), before);
  v1::Verification report;
  report.set_engine_version("e1");
  ASSERT_TRUE(WriteVerification(cache.path(), "w", "c", report).ok());
  EXPECT_NE(ModelsStamp({place.path()}, cache.path()), before);
}

}  // namespace
}  // namespace ropelab::session
