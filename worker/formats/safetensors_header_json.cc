#include "worker/formats/safetensors_header_json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ropelab::formats {
namespace {

using Json = nlohmann::json;

// Where the reader stands. Anything that the format does not put there stops it with `error_`.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(std::string file) : file_(std::move(file)) {}

  const std::string& error() const { return error_; }
  std::vector<HeaderTensor> TakeTensors() { return std::move(tensors_); }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(Json::number_integer_t value) override {
    if (state_ == State::kShape) {
      return Fail(absl::StrCat("has the negative dimension ", value, "; write the file again"));
    }
    return Unexpected(absl::StrCat("the number ", value));
  }
  bool number_unsigned(Json::number_unsigned_t value) override {
    if (state_ == State::kShape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Fail(absl::StrCat("has the dimension ", value, ", which overflows"));
      }
      tensors_.back().shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state_ == State::kOffsets && offsets_ < 2) {
      (offsets_++ == 0 ? tensors_.back().begin : tensors_.back().end) = value;
      return true;
    }
    return Unexpected(absl::StrCat("the number ", value));
  }
  bool number_float(Json::number_float_t, const Json::string_t& text) override {
    return Unexpected(absl::StrCat("the number ", text));
  }
  bool string(Json::string_t& value) override {
    if (state_ == State::kMetadata) return true;
    if (state_ == State::kTensor && field_ == "dtype") {
      tensors_.back().dtype = std::move(value);
      return true;
    }
    return Unexpected("a string");
  }
  bool binary(Json::binary_t&) override { return Unexpected("binary data"); }

  bool start_object(size_t) override {
    switch (state_) {
      case State::kBegin:
        state_ = State::kTop;
        return true;
      case State::kTop:
        state_ = field_ == "__metadata__" ? State::kMetadata : State::kTensor;
        if (state_ == State::kTensor) {
          tensors_.push_back({.name = field_, .dtype = "", .shape = {}});
          seen_.clear();
        }
        return true;
      default:
        return Unexpected("an object");
    }
  }
  bool key(Json::string_t& name) override {
    if (state_ == State::kTop && !names_.insert(name).second) {
      return Fail(absl::StrCat("names tensor ", name, " twice; write the file again"));
    }
    if (state_ == State::kTensor) {
      if (name != "dtype" && name != "shape" && name != "data_offsets")
        return Fail(absl::StrCat("has the unknown field ", name));
      if (!seen_.insert(name).second) return Fail(absl::StrCat("has the field ", name, " twice"));
    }
    if (state_ != State::kMetadata) field_ = name;
    return true;
  }
  bool end_object() override {
    if (state_ == State::kTensor) {
      if (seen_.size() != 3) return Fail("lacks one of dtype, shape, data_offsets; write the file again");
      state_ = State::kTop;
    } else {
      state_ = state_ == State::kMetadata ? State::kTop : State::kEnd;
    }
    return true;
  }
  bool start_array(size_t) override {
    if (state_ == State::kTensor && field_ == "shape") {
      state_ = State::kShape;
      return true;
    }
    if (state_ == State::kTensor && field_ == "data_offsets") {
      state_ = State::kOffsets;
      offsets_ = 0;
      return true;
    }
    return Unexpected("an array");
  }
  bool end_array() override {
    if (state_ == State::kOffsets && offsets_ != 2) return Fail("has data_offsets that are not two numbers");
    state_ = State::kTensor;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception& exception) override {
    error_ = absl::StrCat(file_, ": the header is not JSON at byte ", position, ": ", exception.what());
    return false;
  }

 private:
  enum class State { kBegin, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  bool Unexpected(const std::string& what) {
    return Fail(absl::StrCat("holds ", what,
                             " where the format has none (deeper or other JSON than a safetensors header)"));
  }
  bool Fail(const std::string& what) {
    const bool inside = state_ == State::kTensor || state_ == State::kShape || state_ == State::kOffsets;
    error_ = absl::StrCat(
        file_, inside ? absl::StrCat(": tensor ", tensors_.back().name, " ") : ": the header ", what);
    return false;
  }

  const std::string file_;
  State state_ = State::kBegin;
  std::string field_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> seen_;  // fields of the tensor being read
  int offsets_ = 0;
  std::vector<HeaderTensor> tensors_;
  std::string error_;
};

}  // namespace

absl::StatusOr<std::vector<HeaderTensor>> ParseHeaderJson(std::string_view json, const std::string& name) {
  HeaderReader reader(name);
  const bool read = Json::sax_parse(json.begin(), json.end(), &reader);
  if (!read || !reader.error().empty()) {
    return absl::InvalidArgumentError(reader.error().empty() ? absl::StrCat(name, ": the header is not JSON")
                                                             : reader.error());
  }
  return reader.TakeTensors();
}

}  // namespace ropelab::formats
