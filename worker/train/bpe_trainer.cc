#include "worker/train/bpe_trainer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/status_macros.h"
#include "worker/formats/tokenizer/byte_alphabet.h"
#include "worker/formats/tokenizer/pre_tokenizer.h"

namespace ropelab::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kPreTokenizer[] =
    R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})";

// A pre-token as the tokens that it consists of so far.
struct Word {
  std::vector<std::string> parts;
  int64_t count = 0;
};

using Pair = std::pair<std::string, std::string>;

std::string Spelled(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += formats::CharacterOfByte(static_cast<uint8_t>(byte));
  return text;
}

// The empty pair when none stands twice.
Pair MostFrequent(const std::vector<Word>& words) {
  std::map<Pair, int64_t> counts;
  for (const Word& word : words) {
    for (size_t i = 0; i + 1 < word.parts.size(); ++i) {
      counts[{word.parts[i], word.parts[i + 1]}] += word.count;
    }
  }
  Pair best;
  int64_t most = 1;
  for (const auto& [pair, count] : counts) {
    if (count > most) {  // pairs ascend, so the first of a tie stays
      best = pair;
      most = count;
    }
  }
  return best;
}

void Apply(const Pair& pair, std::vector<Word>& words) {
  for (Word& word : words) {
    size_t kept = 0;
    for (size_t i = 0; i < word.parts.size(); ++i, ++kept) {
      const bool joins =
          i + 1 < word.parts.size() && word.parts[i] == pair.first && word.parts[i + 1] == pair.second;
      if (joins) {
        word.parts[kept] = pair.first + pair.second;
        ++i;
      } else if (kept != i) {
        word.parts[kept] = std::move(word.parts[i]);
      }
    }
    word.parts.resize(kept);
  }
}

Json Special(const char* content, int32_t id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

Json Template() {
  const Json begin = {{"SpecialToken", {{"id", kBeginToken}, {"type_id", 0}}}};
  const auto text = [](const char* id, int type) {
    return Json{{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  return {
      {"type", "TemplateProcessing"},
      {"single", Json::array({begin, text("A", 0)})},
      {"pair", Json::array({begin, text("A", 0), text("B", 1)})},
      {"special_tokens",
       {{kBeginToken,
         {{"id", kBeginToken}, {"ids", Json::array({kBeginId})}, {"tokens", Json::array({kBeginToken})}}}}}};
}

}  // namespace

absl::Status CountWords(std::string_view text, WordCounts& counts) {
  const nlohmann::json json = nlohmann::json::parse(kPreTokenizer);
  ROPELAB_ASSIGN_OR_RETURN(const formats::PreTokenizer cutter, formats::PreTokenizer::Read(&json));
  formats::CutText cut;
  cut.text.text = std::string(text);
  cut.pieces = {{0, text.size()}};
  ROPELAB_RETURN_IF_ERROR(cutter.Apply(cut));
  for (const formats::TextRange& piece : cut.pieces) {
    ++counts[cut.text.text.substr(piece.begin, piece.end - piece.begin)];
  }
  return absl::OkStatus();
}

ByteMerges TrainMerges(const WordCounts& counts, int64_t vocabulary) {
  ByteMerges result;
  for (int byte = 0; byte < 256; ++byte) result.tokens.emplace_back(1, static_cast<char>(byte));
  std::vector<Word> words;
  for (const auto& [text, count] : counts) {
    Word word{{}, count};
    for (const char byte : text) word.parts.emplace_back(1, byte);
    words.push_back(std::move(word));
  }
  std::set<std::string> known(result.tokens.begin(), result.tokens.end());
  while (static_cast<int64_t>(result.tokens.size()) + 2 < vocabulary) {
    const Pair pair = MostFrequent(words);
    if (pair.first.empty()) break;
    Apply(pair, words);
    // Two pairs may spell one token; both are merges.
    if (known.insert(pair.first + pair.second).second) result.tokens.push_back(pair.first + pair.second);
    result.merges.push_back(pair);
  }
  return result;
}

std::string TokenizerJson(const ByteMerges& merges) {
  Json vocabulary = {{kBeginToken, kBeginId}, {kEndToken, kEndId}};
  for (size_t i = 0; i < merges.tokens.size(); ++i) vocabulary[Spelled(merges.tokens[i])] = i + 2;
  Json pairs = Json::array();
  for (const auto& [left, right] : merges.merges) pairs.push_back(Spelled(left) + " " + Spelled(right));
  const Json byte_level = Json::parse(kPreTokenizer);
  const Json file = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", Json::array({Special(kBeginToken, kBeginId), Special(kEndToken, kEndId)})},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", Template()},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocabulary},
        {"merges", pairs}}},
  };
  return file.dump(1) + "\n";
}

}  // namespace ropelab::train
