#include "tests/fuzz/small_tokenizers.h"

#include <nlohmann/json.hpp>

#include "tests/fuzz/temporary_folder.h"

namespace ropelab::fuzz {
namespace {

using Json = nlohmann::json;

constexpr char kUnderline[] = "\xe2\x96\x81";  // U+2581

std::string Utf8(uint32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// GPT-2's letter for a byte: itself where it prints, else the next free one from U+0100 on.
std::vector<std::string> ByteLetters() {
  std::vector<std::string> letters;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    letters.push_back(Utf8(prints ? byte : next++));
  }
  return letters;
}

// Adds merges in order, with the tokens that they make.
void AddMerges(Json& model, const std::vector<std::pair<std::string, std::string>>& merges, bool as_pairs) {
  model["merges"] = Json::array();
  for (const auto& [left, right] : merges) {
    const auto id = static_cast<int>(model["vocab"].size());
    if (!model["vocab"].contains(left + right)) model["vocab"][left + right] = id;
    model["merges"].push_back(as_pairs ? Json{left, right} : Json(left + " " + right));
  }
}

Json ByteLevelModel() {
  Json model = {{"type", "BPE"}, {"vocab", Json::object()}};
  const std::vector<std::string> letters = ByteLetters();
  for (const std::string& letter : letters) model["vocab"][letter] = static_cast<int>(model["vocab"].size());
  const std::string &space = letters[' '], &line = letters['\n'];
  AddMerges(model,
            {{"h", "e"},
             {"t", "he"},
             {space, "the"},
             {"a", "a"},
             {"aa", "aa"},
             {space, space},
             {line, line},
             {"1", "2"},
             {"'", "s"},
             {letters[0xe4], letters[0xbd]},
             {letters[0xe4] + letters[0xbd], letters[0xa0]},
             {letters[0xcc], letters[0x81]}},
            false);
  return model;
}

// Ids of added tokens go on after the vocabulary.
int Next(const Json& model, int count) {
  return static_cast<int>(model["vocab"].size()) + count;
}

Json Added(int id, const char* content, Json flags = Json::object()) {
  Json token = {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  token.update(flags);
  return token;
}

Json Gpt2() {
  const Json model = ByteLevelModel();
  return {{"added_tokens", {Added(Next(model, 0), "<|endoftext|>")}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", model}};
}

Json Llama3() {
  Json file = Gpt2();
  const int first = Next(file["model"], 0);
  file["added_tokens"] = {Added(first, "<|begin_of_text|>"), Added(first + 1, "<|eot_id|>")};
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern",
          {{"Regex",
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
            "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}}}};
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<|begin_of_text|>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair",
       {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
      {"special_tokens",
       {{"<|begin_of_text|>",
         {{"id", "<|begin_of_text|>"}, {"ids", {first}}, {"tokens", {"<|begin_of_text|>"}}}}}}};
  return file;
}

Json SentencePieceModel(bool bytes) {
  Json model = {{"type", "BPE"},
                {"unk_token", "<unk>"},
                {"fuse_unk", true},
                {"byte_fallback", bytes},
                {"vocab", Json::object()}};
  Json& vocab = model["vocab"];
  const auto add = [&](const std::string& token) { vocab[token] = static_cast<int>(vocab.size()); };
  for (const char* token : {"<unk>", "<s>", "</s>"}) add(token);
  if (bytes) {
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(byte));
      add(name);
    }
  }
  add(kUnderline);
  for (char letter = 'a'; letter <= 'z'; ++letter) add(std::string(1, letter));
  for (const char* token : {".", ",", "\xc3\xa9", "\xe4\xbd\xa0"}) add(token);
  const std::string u = kUnderline;
  AddMerges(model, {{u, "t"}, {"h", "e"}, {u + "t", "he"}, {u, u}, {u + u, u + u}, {"a", "a"}, {"aa", "a"}},
            true);
  return model;
}

Json SentencePiece() {
  return {{"added_tokens", {Added(0, "<unk>"), Added(1, "<s>"), Added(2, "</s>")}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", kUnderline}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kUnderline}}}}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", kUnderline}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model", SentencePieceModel(true)}};
}

Json Metaspace() {
  const Json metaspace = {
      {"type", "Metaspace"}, {"replacement", kUnderline}, {"prepend_scheme", "first"}, {"split", true}};
  return {{"added_tokens", {Added(0, "<unk>"), Added(1, "<s>"), Added(2, "</s>")}},
          {"normalizer", nullptr},
          {"pre_tokenizer", metaspace},
          {"post_processor", nullptr},
          {"decoder", metaspace},
          {"model", SentencePieceModel(false)}};
}

Json Composed() {
  Json file = Gpt2();
  const int first = Next(file["model"], 0);
  file["normalizer"] = {{"type", "NFC"}};
  file["added_tokens"] = {Added(first + 0, "<mask>", {{"lstrip", true}}),
                          Added(first + 1, "<rs>", {{"rstrip", true}}),
                          Added(first + 2, "word", {{"single_word", true}, {"special", false}}),
                          Added(first + 3, "caf\xc3\xa9", {{"normalized", true}, {"special", false}}),
                          Added(first + 4, "<both>", {{"lstrip", true}, {"rstrip", true}}),
                          Added(first + 5, "zq", {{"special", false}}),
                          Added(first + 6, "zqa", {{"special", false}})};
  return file;
}

SmallTokenizer Make(const char* name, const Json& file, RoundTrip round_trip, bool ascending) {
  auto tokenizer = formats::Tokenizer::Parse(file.dump(), name);
  if (!tokenizer.ok()) std::fprintf(stderr, "%s\n", tokenizer.status().ToString().c_str());
  ROPELAB_FUZZ_CHECK(tokenizer.ok());
  return {name, *std::move(tokenizer), round_trip, ascending};
}

}  // namespace

const std::vector<SmallTokenizer>& SmallTokenizers() {
  static const auto& tokenizers = *new std::vector<SmallTokenizer>{
      Make("gpt2", Gpt2(), RoundTrip::kText, true), Make("llama3", Llama3(), RoundTrip::kText, true),
      Make("sentencepiece", SentencePiece(), RoundTrip::kSpaces, true),
      Make("metaspace", Metaspace(), RoundTrip::kNothing, true),
      // Composition may put combining marks into another order.
      Make("composed", Composed(), RoundTrip::kNothing, false)};
  return tokenizers;
}

}  // namespace ropelab::fuzz
