#include "worker/formats/tokenizer/decoder_steps.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "common/printable.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/byte_alphabet.h"
#include "worker/formats/tokenizer/utf8.h"

namespace ropelab::formats {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD

// The byte of "<0xE2>".
std::optional<char> ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  const auto [rest, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || rest != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t found = std::min(text.find(from, at), text.size());
    result.append(text.substr(at, found - at));
    if (found < text.size()) result.append(to);
    at = found + from.size();
  }
  return result;
}

}  // namespace

absl::Status ByteLevelDecoding::Apply(std::vector<std::string>& tokens) const {
  std::string bytes;
  for (const std::string& token : tokens) {
    if (!AppendSpelledBytes(token, bytes)) bytes += token;
  }
  tokens = {LossyUtf8(bytes)};
  return absl::OkStatus();
}

absl::Status ByteFallbackDecoding::Apply(std::vector<std::string>& tokens) const {
  std::vector<std::string> result;
  std::string run;
  const auto end_run = [&] {
    if (IsUtf8(run)) {
      if (!run.empty()) result.push_back(run);
    } else {
      result.insert(result.end(), run.size(), kReplacement);
    }
    run.clear();
  };
  for (std::string& token : tokens) {
    if (const std::optional<char> byte = ByteOfToken(token)) {
      run += *byte;
    } else {
      end_run();
      result.push_back(std::move(token));
    }
  }
  end_run();
  tokens = std::move(result);
  return absl::OkStatus();
}

absl::Status Fusing::Apply(std::vector<std::string>& tokens) const {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens = {std::move(all)};
  return absl::OkStatus();
}

absl::Status Replacing::Apply(std::vector<std::string>& tokens) const {
  std::vector<TextRange> matches;
  for (std::string& token : tokens) {
    matches.clear();
    ROPELAB_RETURN_IF_ERROR(pattern_->FindAll(token, matches));
    if (matches.empty()) continue;
    std::string result;
    size_t done = 0;
    for (const TextRange& match : matches) {
      result.append(token, done, match.begin - done).append(content_);
      done = match.end;
    }
    token = result.append(token, done);
  }
  return absl::OkStatus();
}

absl::Status Stripping::Apply(std::vector<std::string>& tokens) const {
  for (std::string& token : tokens) {
    std::string_view rest = token;
    for (size_t k = 0; k < start_ && rest.starts_with(character_); ++k) rest.remove_prefix(character_.size());
    for (size_t k = 0; k < stop_ && rest.ends_with(character_); ++k) rest.remove_suffix(character_.size());
    token = std::string(rest);
  }
  return absl::OkStatus();
}

absl::Status MarkDecoding::Apply(std::vector<std::string>& tokens) const {
  for (size_t k = 0; k < tokens.size(); ++k) {
    tokens[k] = ReplaceAll(tokens[k], mark_, k == 0 && drop_first_ ? "" : " ");
  }
  return absl::OkStatus();
}

}  // namespace ropelab::formats
