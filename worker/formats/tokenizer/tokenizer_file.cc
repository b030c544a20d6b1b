#include "worker/formats/tokenizer/tokenizer_file.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "common/printable.h"

namespace ropelab::formats {
namespace {

using Json = nlohmann::json;
constexpr size_t kMaxDepth = 32;

// Builds the tree except under model.vocab and model.merges.
class Reader : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(TokenizerFile& file) : file_(file) {}
  const std::string& error() const { return error_; }

  bool null() override { return Plain(nullptr); }
  bool boolean(bool value) override { return Plain(value); }
  bool number_float(Json::number_float_t value, const Json::string_t&) override { return Plain(value); }
  bool number_unsigned(Json::number_unsigned_t value) override {
    if (place_ == kVocab && value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Token(static_cast<int64_t>(value));
    }
    return Plain(value);
  }
  bool number_integer(Json::number_integer_t value) override {
    return place_ == kVocab ? Token(value) : Plain(value);
  }
  bool binary(Json::binary_t&) override { return Fail("binary values are no JSON"); }

  bool string(Json::string_t& value) override {
    if (place_ == kPair) return Half(std::move(value));
    if (place_ != kMerges) return Plain(std::move(value));
    const size_t space = value.find(' ');
    if (file_.merges.empty() && value.starts_with("#version")) return true;
    if (space == std::string::npos || value.find(' ', space + 1) != std::string::npos) {
      return Fail(absl::StrCat("model.merges[", file_.merges.size(), "]: '", Printable(value, 60),
                               "' is not two tokens with one space between them"));
    }
    file_.merges.emplace_back(value.substr(0, space), value.substr(space + 1));
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == kTree && next_ == kVocab) {
      file_.has_vocab = true;
      return Enter(kVocab);
    }
    return next_ != kMerges ? StartTree(Json::object()) : Fail("model.merges: is not an array");
  }
  bool start_array(size_t) override {
    if (place_ == kMerges) {
      halves_ = 0;
      file_.merges.emplace_back();
      return Enter(kPair);
    }
    if (place_ == kTree && next_ == kMerges) {
      file_.has_merges = true;
      return Enter(kMerges);
    }
    if (place_ == kTree && next_ == kVocab) {
      return Fail("model.vocab: is an array, as Unigram models have it; only BPE is built");
    }
    return StartTree(Json::array());
  }
  bool end_object() override { return Leave(); }
  bool end_array() override {
    if (place_ == kPair) {
      place_ = kMerges;
      return halves_ == 2 || BadPair();
    }
    return Leave();
  }

  bool key(Json::string_t& name) override {
    if (place_ == kVocab) {
      key_ = std::move(name);
      return true;
    }
    Json& object = *stack_.back();
    next_ = kTree;
    if (stack_.size() == 2 && &object == model_ && (name == "vocab" || name == "merges")) {
      next_ = name == "vocab" ? kVocab : kMerges;
      if (next_ == kVocab ? file_.has_vocab : file_.has_merges) return Twice(name);
    } else if (object.contains(name)) {
      return Twice(name);
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t, const std::string&, const Json::exception& exception) override {
    return Fail(absl::StrCat("not JSON: ", Printable(exception.what(), 300)));
  }

 private:
  enum Place { kTree, kVocab, kMerges, kPair };

  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }
  bool Twice(const std::string& name) {
    return Fail(absl::StrCat("field '", Printable(name, 60), "' is given twice; keep one"));
  }
  bool BadPair() {
    return Fail(absl::StrCat("model.merges[", file_.merges.size() - 1, "]: is not an array of two tokens"));
  }
  bool Token(int64_t id) {
    file_.vocab.push_back({std::move(key_), id});
    return true;
  }
  bool Half(std::string&& text) {
    ++halves_;
    if (halves_ > 2) return BadPair();
    (halves_ == 1 ? file_.merges.back().first : file_.merges.back().second) = std::move(text);
    return true;
  }

  // A value outside the two long parts, where `next_` is always kTree.
  bool Plain(Json value) {
    if (place_ == kVocab) {
      return Fail(absl::StrCat("model.vocab: the id of token '", Printable(key_, 60), "' is ",
                               Printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 60),
                               ", not an integer"));
    }
    if (place_ == kPair) return BadPair();
    if (place_ == kMerges) {
      return Fail(absl::StrCat("model.merges[", file_.merges.size(), "]: is neither a string nor a pair"));
    }
    if (next_ != kTree)
      return Fail(next_ == kVocab ? "model.vocab: is no object" : "model.merges: is no array");
    Attach(std::move(value));
    return true;
  }
  Json* Attach(Json value) {
    if (stack_.empty()) {
      file_.rest = std::move(value);
      return &file_.rest;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    Json& slot = parent[key_];
    slot = std::move(value);
    return &slot;
  }
  bool StartTree(Json value) {
    if (place_ != kTree) return Plain(std::move(value));
    if (stack_.size() == kMaxDepth) return Fail(absl::StrCat("nested deeper than ", kMaxDepth));
    const bool is_model = stack_.size() == 1 && stack_[0]->is_object() && key_ == "model";
    stack_.push_back(Attach(std::move(value)));
    if (is_model) model_ = stack_.back();
    return true;
  }
  bool Enter(Place place) {
    place_ = place;
    next_ = kTree;
    return true;
  }
  bool Leave() {
    if (place_ == kTree) {
      stack_.pop_back();
    } else {
      place_ = kTree;
    }
    return true;
  }

  TokenizerFile& file_;
  std::string error_;
  std::vector<Json*> stack_;  // open objects and arrays of the tree; none of them moves while it is here
  Json* model_ = nullptr;
  std::string key_;
  Place place_ = kTree;
  Place next_ = kTree;  // what the value of the last key is
  int halves_ = 0;
};

}  // namespace

absl::StatusOr<TokenizerFile> ParseTokenizerFile(std::string_view text) {
  TokenizerFile file;
  Reader reader(file);
  if (!Json::sax_parse(text.begin(), text.end(), &reader)) return absl::InvalidArgumentError(reader.error());
  return file;
}

}  // namespace ropelab::formats
