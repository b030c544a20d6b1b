#include "worker/model/check_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/formats/temporary_directory.h"
#include "worker/formats/plant.h"
#include "worker/model/loaded_model.h"

namespace ropelab::model {
namespace {

using ::ropelab::unit::TemporaryDirectory;
using ::testing::HasSubstr;

// A checkpoint of two layers with `change` made to its config.
struct Planted {
  explicit Planted(void (*change)(formats::ModelConfig& config)) {
    formats::PlantOptions options;
    options.out = place.File("planted");
    options.layers = 2;
    options.heads = options.kv_heads = 2;
    options.head_dim = 8;
    options.context = 64;
    EXPECT_TRUE(formats::Plant(options).ok());
    config = formats::ReadConfig(options.out).value();
    change(config);
    status = CheckHeaders(formats::Checkpoint::Open(options.out).value(), options.out, config);
    message = std::string(status.message());
  }
  TemporaryDirectory place;
  formats::ModelConfig config;
  absl::Status status;
  std::string message;
};

TEST(CheckHeaders, AcceptsWhatTheConfigDescribes) {
  EXPECT_TRUE(Planted([](formats::ModelConfig&) {}).status.ok());
}

TEST(CheckHeaders, NamesTheFirstTensorOfALayerThatNobodyStored) {
  const Planted planted([](formats::ModelConfig& config) { config.layers = 3; });
  EXPECT_EQ(planted.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(planted.message,
              HasSubstr("planted: tensor model.layers.2.input_layernorm.weight of shape [64] is missing"));
}

TEST(CheckHeaders, NamesALayerThatTheConfigLeavesOut) {
  const Planted planted([](formats::ModelConfig& config) { config.layers = 1; });
  EXPECT_THAT(planted.message, HasSubstr("model.safetensors: tensor model.layers.1."));
  EXPECT_THAT(planted.message, HasSubstr("has no place in a llama of 1 layers"));
}

TEST(CheckHeaders, NamesBothShapes) {
  const Planted planted([](formats::ModelConfig& config) { config.kv_heads = 1; });
  EXPECT_THAT(planted.message, HasSubstr("model.safetensors: tensor model.layers.0.self_attn.k_proj.weight "
                                         "has shape [16, 64], config.json calls for [8, 64]"));
}

}  // namespace
}  // namespace ropelab::model
