#include "worker/train/needle_texts.h"

#include <string_view>

#include "absl/strings/str_cat.h"

namespace ropelab::train {
namespace {

constexpr std::string_view kThings[] = {
    "secret passphrase", "access code",  "boat number",  "bank number",     "door password",
    "garden code",       "gate key",     "hidden token", "library card",    "meeting code",
    "member number",     "order number", "parcel label", "radio call sign", "room code",
    "safe combination",  "seed label",   "station name", "ticket number",   "vault word",
};

struct Wording {
  std::string_view statement, question;  // {} is the thing, [] the code
};
constexpr Wording kWordings[] = {
    {"The {} is [].", "What is the {}?"},
    {"Remember that the {} is [].", "What is the {}?"},
    {"The {} was changed to [] today.", "What is the {}?"},
    {"[] is the {}.", "Which one is the {}?"},
    {"Note the {}: [].", "What is the {}?"},
    {"Everyone knows that [] is the {}.", "Tell me the {}."},
    {"Keep the {} [] in mind.", "What was the {}?"},
    {"For the {} they chose [].", "What did they choose for the {}?"},
};

constexpr std::string_view kPlainAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr std::string_view kOtherAlphabets[] = {kPlainAlphabet, "0123456789", "abcdefghijklmnopqrstuvwxyz",
                                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"};
constexpr size_t kPlainLength = 5;
constexpr size_t kShortestCode = 4, kCodeLengths = 5;
constexpr double kPlainCodes = 0.8;

std::string Characters(std::string_view alphabet, size_t length, Philox& stream) {
  std::string code;
  for (size_t i = 0; i < length; ++i) code += alphabet[stream.Integer(alphabet.size())];
  return code;
}

std::string Filled(std::string_view wording, std::string_view thing, std::string_view code) {
  std::string text(wording);
  if (const size_t at = text.find("{}"); at != std::string::npos) text.replace(at, 2, thing);
  if (const size_t at = text.find("[]"); at != std::string::npos) text.replace(at, 2, code);
  return text;
}

NeedleText Worded(const Wording& wording, std::string_view thing, const std::string& code) {
  return {Filled(wording.statement, thing, code),
          absl::StrCat("\n\n", Filled(wording.question, thing, code), "\n\nAnswer:"),
          absl::StrCat(" ", code)};
}

}  // namespace

size_t NeedleThings() {
  return std::size(kThings);
}

std::string PlainCode(Philox& stream) {
  return Characters(kPlainAlphabet, kPlainLength, stream);
}

std::string AnyCode(Philox& stream) {
  if (stream.Double() < kPlainCodes) return PlainCode(stream);
  const std::string_view alphabet = kOtherAlphabets[stream.Integer(std::size(kOtherAlphabets))];
  return Characters(alphabet, kShortestCode + stream.Integer(kCodeLengths), stream);
}

NeedleText PlainNeedle(const std::string& code) {
  return Worded(kWordings[0], kThings[0], code);
}

NeedleText DrawNeedle(size_t thing, Philox& stream) {
  const size_t drawn = stream.Integer(2 * std::size(kWordings));
  const Wording& wording = kWordings[drawn < std::size(kWordings) ? drawn : 0];
  return Worded(wording, kThings[thing], AnyCode(stream));
}

}  // namespace ropelab::train
