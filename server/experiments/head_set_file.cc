// Reads a file of head scores, event by event: nothing of it is held but sums.
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "nlohmann/json.hpp"
#include "server/experiments/head_set_imported.h"

namespace ropelab::experiments {
namespace {

constexpr int kMostDigits = 4;  // of a layer or a head
constexpr int kDeepest = 8;     // lists in lists
constexpr size_t kShownBytes = 60;
constexpr char kShape[] = "a file of head scores is JSON {\"layer-head\": [scores...], ...}";

// A number without leading zeros at the start of `text`, taken off it; -1: there is none.
int64_t TakeNumber(std::string_view& text) {
  size_t digits = 0;
  int64_t value = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && digits <= kMostDigits) {
    value = value * 10 + (text[digits++] - '0');
  }
  if (digits == 0 || digits > kMostDigits || (digits > 1 && text[0] == '0')) {
    return -1;
  }
  text.remove_prefix(digits);
  return value;
}

class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  struct Sums {
    double sum = 0;
    int64_t scores = 0;
  };
  std::map<std::pair<int64_t, int64_t>, Sums> heads;
  std::string problem;

  bool null() override { return Refuse("null is no score; leave the head out, or give numbers"); }
  bool boolean(bool) override { return Refuse("true and false are no scores; give numbers"); }
  bool number_integer(number_integer_t value) override { return Number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t& text) override {
    return std::isfinite(value)
               ? Number(value)
               : Refuse(absl::StrCat(Printable(text, kShownBytes), " is not a finite number"));
  }
  bool string(string_t& text) override {
    return Refuse(absl::StrCat("\"", Printable(text, kShownBytes),
                               "\" is a text; write numbers without quotation marks"));
  }
  bool binary(binary_t&) override { return Refuse("bytes are no scores"); }

  bool start_object(std::size_t) override {
    if (open_) {
      return Refuse("an object where scores are expected; give a list of numbers");
    }
    open_ = true;
    return true;
  }
  bool end_object() override { return true; }

  bool key(string_t& key) override {
    key_ = key;
    named_ = true;
    std::string_view rest = key;
    const int64_t layer = TakeNumber(rest);
    const bool dash = layer >= 0 && !rest.empty() && rest.front() == '-';
    if (dash) {
      rest.remove_prefix(1);
    }
    const int64_t head = dash ? TakeNumber(rest) : -1;
    if (head < 0 || !rest.empty()) {
      return Refuse(
          "the key is no \"layer-head\": two numbers from 0 to 9999 without leading zeros, as in \"12-3\"");
    }
    const auto [place, fresh] = heads.try_emplace({layer, head});
    sums_ = &place->second;
    return fresh ? true : Refuse("the key is given twice: keep one");
  }

  bool start_array(std::size_t) override {
    if (sums_ == nullptr) {
      return Refuse("");
    }
    starts_[depth_++] = sums_->scores;
    return depth_ < kDeepest ? true : Refuse(absl::StrCat("lists nested deeper than ", kDeepest - 1));
  }
  bool end_array() override {
    return sums_->scores > starts_[--depth_] ? true : Refuse("the list is empty; leave the head out");
  }

  bool parse_error(std::size_t, const std::string& token, const nlohmann::detail::exception& error) override {
    std::string what = error.what();
    // "[json.exception.parse_error.101] parse error at line 3, column 5: ..."
    if (const size_t end = what.find("] "); end != std::string::npos) {
      what = what.substr(end + 2);
    }
    problem = absl::StrCat("is no JSON: ", Printable(what, 400), "; ", kShape);
    if (token.find('N') != std::string::npos || token.find('I') != std::string::npos) {
      absl::StrAppend(&problem, ". NaN and Infinity are no scores: leave such a head out");
    } else if (token.find('\'') != std::string::npos || token.find('a') != std::string::npos) {
      absl::StrAppend(&problem, ". From Python, write it with json.dump, and arrays of numpy with .tolist()");
    }
    return false;
  }

 private:
  bool Number(double value) {
    if (sums_ == nullptr) {
      return Refuse("");
    }
    sums_->sum += value;
    ++sums_->scores;
    return std::isfinite(sums_->sum) ? true : Refuse("the sum of the scores is not a finite number");
  }
  bool Refuse(const std::string& why) {
    problem = !named_ ? std::string(kShape) : absl::StrCat("\"", Printable(key_, kShownBytes), "\": ", why);
    return false;
  }

  bool open_ = false, named_ = false;
  std::string key_;
  Sums* sums_ = nullptr;  // of the key's head
  int depth_ = 0;         // open lists
  int64_t starts_[kDeepest] = {};
};

}  // namespace

absl::StatusOr<std::vector<ImportedScores::Head>> ParseHeadScores(const std::string& content) {
  if (content.size() > static_cast<size_t>(kLargestHeadScores)) {
    return absl::InvalidArgumentError(absl::StrCat("has ", content.size(), " bytes; at most ",
                                                   kLargestHeadScores,
                                                   ": give fewer scores a head, or their mean alone"));
  }
  // The parser takes a NUL for the end, and would leave unread what follows.
  if (content.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("holds a NUL byte, so it is no text; ", kShape));
  }
  Reader reader;
  if (!nlohmann::json::sax_parse(content, &reader)) {
    return absl::InvalidArgumentError(reader.problem);
  }
  std::vector<ImportedScores::Head> heads;
  for (const auto& [place, sums] : reader.heads) {
    heads.push_back({place.first, place.second, sums.sum / static_cast<double>(sums.scores), sums.scores});
  }
  if (heads.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("names no head; ", kShape));
  }
  return heads;
}

}  // namespace ropelab::experiments
