// A tokenizer of the trainer's own, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "worker/train/bpe_trainer.h"
#include "worker/train/sample_text.h"

namespace ropelab::train {

inline std::shared_ptr<const formats::Tokenizer> TestTokenizer(int64_t vocabulary) {
  const auto counts = CountTrainingWords(7, 1000, 0.5);
  EXPECT_TRUE(counts.ok()) << counts.status();
  auto tokenizer =
      formats::Tokenizer::Parse(TokenizerJson(TrainMerges(*counts, vocabulary)), "tokenizer.json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *tokenizer;
}

// The path of a file with that text.
inline std::string WriteTestFile(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  FILE* const file = std::fopen(path.c_str(), "w");
  EXPECT_NE(file, nullptr) << path;
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
  return path;
}

}  // namespace ropelab::train
