// Configs written by a test and read back.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/formats/temporary_directory.h"
#include "worker/formats/checkpoint.h"

namespace ropelab::unit {

// The fields that no family goes without.
inline nlohmann::json MinimalConfig(const std::string& family) {
  return {{"model_type", family},     {"hidden_size", 64},        {"num_hidden_layers", 4},
          {"num_attention_heads", 4}, {"intermediate_size", 160}, {"vocab_size", 128}};
}

inline absl::StatusOr<formats::ModelConfig> ReadConfigText(const std::string& text) {
  TemporaryDirectory directory;
  directory.Write("config.json", text);
  return formats::ReadConfig(directory.path());
}

inline absl::StatusOr<formats::ModelConfig> ReadWith(const std::string& family,
                                                     const nlohmann::json& patch = nlohmann::json::object()) {
  nlohmann::json config = MinimalConfig(family);
  config.update(patch);
  return ReadConfigText(config.dump());
}

inline absl::StatusOr<formats::ModelConfig> ReadLlama(const nlohmann::json& patch) {
  return ReadWith("llama", patch);
}

inline void ExpectRefused(const absl::StatusOr<formats::ModelConfig>& config,
                          std::initializer_list<const char*> words) {
  ASSERT_FALSE(config.ok());
  for (const char* word : words) {
    EXPECT_THAT(std::string(config.status().message()), ::testing::HasSubstr(word));
  }
}

}  // namespace ropelab::unit
