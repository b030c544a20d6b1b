// What a spec may say of needles.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/experiments/needles.h"
#include "server/experiments/prompt_rules.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

constexpr char kNeedleText[] = "The secret passphrase is CODE.";
constexpr char kQuestionText[] = "\n\nWhat is the secret passphrase?\n\nAnswer:";
constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr int64_t kCodeLength = 5;
constexpr std::string_view kPlaceholder = "CODE";
constexpr int64_t kLongestCode = 64;
constexpr size_t kLongestText = 4096;  // bytes of needle_text and of question_text
// A haystack of 4 characters a token must hold at least a sentence or two.
constexpr int64_t kShortestContext = 16;
constexpr int64_t kMostTasks = 1000000;

void ResolveLengths(v1::Needles& needles, const std::string& path, const NeedleDefaults& defaults,
                    const std::vector<ModelFacts>& models, Problems& problems) {
  auto& lengths = *needles.mutable_context_lengths();
  const bool typed = !lengths.empty();
  if (!typed) {
    lengths.Assign(defaults.context_lengths.begin(), defaults.context_lengths.end());
  }
  std::set<int64_t> distinct;
  for (int i = 0; i < lengths.size(); ++i) {
    const std::string at = absl::StrCat(path, ".context_lengths[", i, "]");
    const std::string value = absl::StrCat(lengths[i], typed ? "" : " (the default)");
    if (lengths[i] < kShortestContext || lengths[i] > kLongestPrompt) {
      problems.Add(at, value, absl::StrCat("is ", kShortestContext, " to ", kLongestPrompt, " tokens"));
      continue;
    }
    if (!distinct.insert(lengths[i]).second) {
      problems.Add(at, value, "stands there twice; name each length once");
    }
    for (const ModelFacts& model : models) {
      if (lengths[i] + kAnswerRoom > model.config.max_positions()) {
        problems.Add(
            at, value,
            absl::StrCat("and ", kAnswerRoom, " more for the answer are ", lengths[i] + kAnswerRoom,
                         " tokens, and model ", model.name, " takes at most ", model.config.max_positions(),
                         "; name lengths up to ", model.config.max_positions() - kAnswerRoom));
        break;
      }
    }
  }
  std::sort(lengths.begin(), lengths.end());
}

void ResolveDepths(v1::Needles& needles, const std::string& path, const NeedleDefaults& defaults,
                   Problems& problems) {
  auto& depths = *needles.mutable_depths();
  if (depths.empty()) {
    depths.Assign(defaults.depths.begin(), defaults.depths.end());
  }
  std::set<int64_t> distinct;  // in millionths, as the draws tell them apart
  for (int i = 0; i < depths.size(); ++i) {
    const std::string at = absl::StrCat(path, ".depths[", i, "]");
    if (!(depths[i] >= 0 && depths[i] <= 1)) {
      problems.Add(at, absl::StrCat(depths[i]),
                   "a depth is 0 (all text after the needle) to 1 (all before it)");
    } else if (!distinct.insert(static_cast<int64_t>(std::floor(depths[i] * 1e6 + 0.5))).second) {
      problems.Add(at, absl::StrCat(depths[i]),
                   "stands there twice, to a millionth; name each depth once, or ask for more "
                   "samples_per_cell");
    }
  }
  if (problems.empty()) {  // a depth that is no number has no place in an order
    std::sort(depths.begin(), depths.end());
  }
}

void CheckTexts(const v1::Needles& needles, const std::string& path, Problems& problems) {
  const std::string& text = needles.needle_text();
  const size_t first = text.find(kPlaceholder);
  const bool once =
      first != std::string::npos && text.find(kPlaceholder, first + kPlaceholder.size()) == std::string::npos;
  if (!once || text.size() > kLongestText) {
    problems.Add(
        path + ".needle_text", text.substr(0, 200),
        absl::StrCat("holds the word ", std::string(kPlaceholder),
                     " exactly once, where the code goes, and has at most ", kLongestText, " bytes"));
  }
  const std::string& question = needles.question_text();
  if (question.empty() || question.size() > kLongestText) {
    problems.Add(path + ".question_text", question.substr(0, 200),
                 absl::StrCat("has 1 to ", kLongestText,
                              " bytes and ends where the answer begins; left out it is the paper's"));
  }
}

void CheckCode(const v1::Needles& needles, const std::string& path, Problems& problems) {
  const std::string& alphabet = needles.code_alphabet();
  const auto visible = [](char c) { return c > ' ' && c <= '~'; };
  const std::set<char> distinct(alphabet.begin(), alphabet.end());
  if (!std::all_of(alphabet.begin(), alphabet.end(), visible) || distinct.size() < 2 ||
      distinct.size() != alphabet.size()) {
    problems.Add(path + ".code_alphabet", alphabet.substr(0, 200),
                 "holds at least 2 printable ASCII characters, no space, each once; left out it is A to Z "
                 "and 0 to 9");
  }
  if (needles.code_length() < 1 || needles.code_length() > kLongestCode) {
    problems.Add(path + ".code_length", absl::StrCat(needles.code_length()),
                 absl::StrCat("a code has 1 to ", kLongestCode, " characters"));
  }
}

void ResolveHaystack(v1::Haystack& haystack, const std::string& path, const Facts& facts,
                     Problems& problems) {
  if (haystack.has_corpus()) {
    v1::HaystackCorpus& corpus = *haystack.mutable_corpus();
    ResolveCorpus(*corpus.mutable_name(), *corpus.mutable_text_field(), path + ".corpus", facts, problems);
  } else if (!haystack.has_generated()) {
    problems.Add(path, "", "say where the haystack's sentences come from: corpus or generated {}");
  }
}

void CheckModels(const v1::Needles& needles, const std::string& path, const std::vector<ModelFacts>& models,
                 Problems& problems) {
  CheckTokenizers(path, models, "", problems);
  for (const ModelFacts& model : models) {
    if (StartsWithBos(v1::Bos::AUTO, model) && !model.config.has_bos_token_id()) {
      problems.Add(path, model.name,
                   absl::StrCat("the tokenizer of model ", model.name,
                                " puts BOS first, but its config.json names no bos_token_id; complete "
                                "config.json"));
    }
  }
  if (needles.chat()) {
    problems.Add(path + ".chat", "true",
                 "a tokenizer's chat template is a program that this version cannot run; leave it out, and "
                 "write the template's words into question_text");
  }
}

void CheckSize(const v1::Needles& needles, const std::string& path, const v1::ExperimentSpec& spec,
               Problems& problems) {
  // In doubles, since the counts were typed.
  const double cells = static_cast<double>(needles.context_lengths_size()) * needles.depths_size();
  const double samples = cells * static_cast<double>(needles.samples_per_cell());
  if (needles.samples_per_cell() < 1 || samples > static_cast<double>(kMostPrompts)) {
    problems.Add(path + ".samples_per_cell", absl::StrCat(needles.samples_per_cell()),
                 absl::StrCat("give at least 1; the samples of all cells together are at most ", kMostPrompts,
                              "; here are ", needles.context_lengths_size(), " lengths and ",
                              needles.depths_size(), " depths"));
    return;
  }
  const int64_t groups = std::max<int64_t>(spec.models_size(), 1) * std::max(spec.seeds_size(), 1);
  const int64_t tasks = groups * BlockCount(NeedleCount(needles));
  if (tasks > kMostTasks) {
    problems.Add(path + ".samples_per_cell", absl::StrCat(needles.samples_per_cell()),
                 absl::StrCat("makes with all lengths, depths, models and seeds ", tasks, " tasks; at most ",
                              kMostTasks, ": fewer samples, seeds or models"));
  }
}

}  // namespace

void ResolveNeedles(v1::Needles& needles, const std::string& path, const NeedleDefaults& defaults,
                    const v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) {
  needles.set_samples_per_cell(needles.has_samples_per_cell() ? needles.samples_per_cell()
                                                              : defaults.samples_per_cell);
  if (!needles.has_needle_text()) {
    needles.set_needle_text(kNeedleText);
  }
  if (!needles.has_question_text()) {
    needles.set_question_text(kQuestionText);
  }
  if (!needles.has_code_alphabet()) {
    needles.set_code_alphabet(kAlphabet);
  }
  needles.set_code_length(needles.has_code_length() ? needles.code_length() : kCodeLength);
  needles.set_chat(needles.chat());
  ResolveLengths(needles, path, defaults, facts.models, problems);
  ResolveDepths(needles, path, defaults, problems);
  CheckTexts(needles, path, problems);
  CheckCode(needles, path, problems);
  ResolveHaystack(*needles.mutable_haystack(), path + ".haystack", facts, problems);
  CheckModels(needles, path, facts.models, problems);
  CheckSize(needles, path, spec, problems);
}

}  // namespace ropelab::experiments
