#include "common/corpus_text.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace ropelab {
namespace {

constexpr size_t kNameBytes = 200;
constexpr size_t kShownBytes = 200;
constexpr size_t kMostFields = 64;

// The parser's words without its own numbers: the line is ours to tell.
std::string WhyNotJson(std::string_view line) {
  try {
    const auto value = nlohmann::json::parse(line.begin(), line.end());
    return absl::StrCat("it is of type ", value.type_name());
  } catch (const nlohmann::json::exception& error) {
    std::string what = error.what();
    if (const size_t end = what.find("] "); end != std::string::npos) {
      what = what.substr(end + 2);
    }
    if (const size_t at = what.find("column "); at != std::string::npos) {
      what = what.substr(at);
    }
    return Printable(what, kShownBytes);
  }
}

std::vector<std::string> StringFields(std::string_view line) {
  std::vector<std::string> fields;
  const auto object = nlohmann::ordered_json::parse(line.begin(), line.end(), nullptr, false);
  for (const auto& [key, value] : object.items()) {
    if (value.is_string() && fields.size() < kMostFields && key.size() <= kNameBytes && IsPlainText(key)) {
      fields.push_back(key);
    }
  }
  return fields;
}

}  // namespace

absl::Status CheckCorpusName(const std::string& name) {
  const bool plain = !name.empty() && name.size() <= kNameBytes && IsPlainText(name) &&
                     name.find_first_of("/@") == std::string::npos && name.front() != ' ' &&
                     name.back() != ' ';
  if (plain) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a corpus cannot be named \"", Printable(name, kShownBytes), "\": a name has 1 to ", kNameBytes,
      " bytes of UTF-8 without control characters, '/' and '@', and no space at its ends"));
}

absl::Status CheckCorpusKind(const std::string& kind) {
  return kind == "text" || kind == "jsonl"
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat("a corpus cannot be of kind \"",
                                                       Printable(kind, kShownBytes),
                                                       "\": text and jsonl are possible"));
}

void CorpusHash::Add(std::string_view document) {
  char length[8];
  for (int i = 0; i < 8; ++i) {
    length[i] = static_cast<char>(static_cast<uint64_t>(document.size()) >> (8 * i) & 0xFF);
  }
  hash_.Update({length, sizeof length});
  hash_.Update(document);
}

void CorpusSplitter::Begin(std::string name) {
  name_ = std::move(name);
  held_.clear();
  held_offset_ = 0;
  line_ = 1;
}

std::string CorpusSplitter::Place() const {
  return jsonl_ ? absl::StrCat(name_, ":", line_) : name_;
}

absl::Status CorpusSplitter::TooLarge() const {
  return absl::InvalidArgumentError(absl::StrCat(Place(), ": is larger than the ", kLargestDocument,
                                                 " bytes that a document may have: split it"));
}

absl::Status CorpusSplitter::Append(std::string_view piece, Visit visit) {
  while (jsonl_ && !piece.empty()) {
    const void* end = std::memchr(piece.data(), '\n', piece.size());
    if (end == nullptr) {
      break;
    }
    const std::string_view part = piece.substr(0, static_cast<const char*>(end) - piece.data());
    piece.remove_prefix(part.size() + 1);
    const auto whole = static_cast<int64_t>(held_.size() + part.size());
    if (whole > kLargestDocument) {
      return TooLarge();
    }
    if (held_.empty()) {  // the common case needs no copy
      ROPELAB_RETURN_IF_ERROR(Line(part, held_offset_, visit));
    } else {
      held_.append(part);
      ROPELAB_RETURN_IF_ERROR(Line(held_, held_offset_, visit));
      held_.clear();
    }
    held_offset_ += whole + 1;
    ++line_;
  }
  if (static_cast<int64_t>(held_.size() + piece.size()) > kLargestDocument) {
    return TooLarge();
  }
  held_.append(piece);
  return absl::OkStatus();
}

absl::Status CorpusSplitter::End(Visit visit) {
  const std::string last = std::exchange(held_, {});
  if (jsonl_) {
    return Line(last, held_offset_, visit);
  }
  if (const size_t bad = FirstNonUtf8(last); bad < last.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Place(), ": byte ", bad, " (counted from 0) is not UTF-8: save it in that encoding"));
  }
  return visit({last, 0});
}

absl::Status CorpusSplitter::Line(std::string_view line, int64_t offset, Visit visit) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (offset == 0 && line.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    line.remove_prefix(kByteOrderMark.size());
    offset = static_cast<int64_t>(kByteOrderMark.size());
  }
  if (!line.empty() && line.back() == '\r') {
    line.remove_suffix(1);
  }
  const size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) {
    return absl::OkStatus();
  }
  if (const size_t bad = FirstNonUtf8(line); bad < line.size()) {
    return absl::InvalidArgumentError(absl::StrCat(Place(), ": byte ", bad,
                                                   " of the line (counted from 0) is not UTF-8: save the "
                                                   "file in that encoding"));
  }
  if (line[first] != '{' || !nlohmann::json::accept(line.begin(), line.end())) {
    return absl::InvalidArgumentError(
        absl::StrCat(Place(), ": is not a JSON object (", WhyNotJson(line), "): \"", Printable(line, 60),
                     "\"; each line of a jsonl corpus is one object, as in {\"text\": \"...\"}"));
  }
  if (!std::exchange(first_line_seen_, true)) {
    text_fields_ = StringFields(line);
  }
  return visit({line, offset});
}

}  // namespace ropelab
