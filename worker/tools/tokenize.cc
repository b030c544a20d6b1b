// `ropelab-worker tokenize`: texts to token ids and back, for comparison with another implementation.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/tokenizer.h"
#include "worker/tools/commands.h"

namespace ropelab::tools {
namespace {

using Json = nlohmann::json;

struct TokenizeFlags {
  std::string model, tokenizer;
  bool no_special = false;
  bool offsets = false;
  bool decode = false;
};

// The longest document of a corpus, every byte of it escaped as \u00XX, and something around it.
constexpr size_t kMaxLineBytes = (size_t{6} << 26) + (size_t{1} << 20);

// False at the end of the input. A line that goes on for ever is refused before it fills the memory.
absl::StatusOr<bool> ReadLine(std::string& line) {
  line.clear();
  int byte = 0;
  while ((byte = getc_unlocked(stdin)) != EOF && byte != '\n') {
    if (line.size() == kMaxLineBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("is longer than ", kMaxLineBytes, " bytes; give one object a line"));
    }
    line.push_back(static_cast<char>(byte));
  }
  if (std::ferror(stdin) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot be read from standard input: ", std::strerror(errno)));
  }
  return byte != EOF || !line.empty();
}

absl::StatusOr<Json> ReadObject(const std::string& line) {
  Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) return absl::InvalidArgumentError("is not JSON in UTF-8");
  if (!json.is_object()) return absl::InvalidArgumentError("is not a JSON object");
  return json;
}

absl::StatusOr<std::string> ReadText(const Json& json) {
  if (!json.contains("text") || !json["text"].is_string()) {
    return absl::InvalidArgumentError("is not {\"text\": \"...\"}");
  }
  return json["text"].get<std::string>();
}

void AppendOffsets(std::string_view text, const std::vector<formats::TokenSpan>& spans, std::string& out) {
  const char* separator = "";
  for (const formats::TokenSpan& span : formats::CharacterSpans(text, spans)) {
    absl::StrAppend(&out, separator, "[", span.begin, ",", span.end, "]");
    separator = ",";
  }
}

absl::StatusOr<std::string> DecodeLine(const formats::Tokenizer& tokenizer, const Json& json) {
  const bool skip_known = !json.contains("skip_special") || json["skip_special"].is_boolean();
  if (!json.contains("ids") || !json["ids"].is_array() || !skip_known) {
    return absl::InvalidArgumentError(
        "is not {\"ids\": [...]}, with or without \"skip_special\": true or false");
  }
  std::vector<int32_t> ids;
  for (const Json& id : json["ids"]) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX) {
      return absl::InvalidArgumentError(absl::StrCat(id.dump(), " is not a token id"));
    }
    ids.push_back(id.get<int32_t>());
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::string decoded,
                           tokenizer.Decode(ids, json.value("skip_special", false)));
  return absl::StrCat("{\"decoded\": ", Json(decoded).dump(), "}\n");
}

absl::StatusOr<std::string> Answer(const formats::Tokenizer& tokenizer, const std::string& line,
                                   const TokenizeFlags& flags) {
  ROPELAB_ASSIGN_OR_RETURN(const Json json, ReadObject(line));
  if (flags.decode) return DecodeLine(tokenizer, json);
  ROPELAB_ASSIGN_OR_RETURN(const std::string text, ReadText(json));
  ROPELAB_ASSIGN_OR_RETURN(const formats::Encoding encoding, tokenizer.Encode(text, !flags.no_special));
  ROPELAB_ASSIGN_OR_RETURN(const std::string decoded, tokenizer.Decode(encoding.ids, false));
  std::string out = "{\"ids\": [";
  const char* separator = "";
  for (const int32_t id : encoding.ids) {
    absl::StrAppend(&out, separator, id);
    separator = ",";
  }
  absl::StrAppend(&out, "], \"decoded\": ", Json(decoded).dump());
  if (flags.offsets) {
    out += ", \"offsets\": [";
    AppendOffsets(text, encoding.spans, out);
    out += "]";
  }
  return out + "}\n";
}

}  // namespace

int RunTokenize(int argc, char** argv) {
  CLI::App app{
      "Reads {\"text\": \"...\"} a line from standard input and writes {\"ids\": [...], \"decoded\": "
      "\"...\"} a "
      "line, in order.\n"
      "Ids include what the tokenizer puts around a text; \"decoded\" keeps special tokens. Other fields of "
      "a\n"
      "line are not looked at. The first line that is not such an object ends the run with exit code 2.\n"
      "Example: echo '{\"text\": \"Once upon a time\"}' | ropelab-worker tokenize --model models/llama",
      "ropelab-worker tokenize"};
  TokenizeFlags flags;
  auto* model = app.add_option("--model", flags.model, "a model's directory: the one with tokenizer.json");
  auto* file = app.add_option("--tokenizer", flags.tokenizer, "a tokenizer.json by itself")->excludes(model);
  app.add_flag("--no-special", flags.no_special, "leave out what the tokenizer puts around a text");
  app.add_flag("--offsets", flags.offsets,
               "add \"offsets\": [[begin, end], ...], characters of the text a token");
  app.add_flag("--decode", flags.decode,
               "read {\"ids\": [...], \"skip_special\": false} a line and write {\"decoded\": \"...\"}");
  if (const auto over = ParseCommandLine(app, argc, argv)) return *over;
  if (model->count() + file->count() == 0) {
    return Fail("tokenize", absl::InvalidArgumentError("give --model DIR or --tokenizer FILE"), kUsage);
  }
  const auto tokenizer =
      formats::Tokenizer::Read(flags.tokenizer.empty() ? flags.model + "/tokenizer.json" : flags.tokenizer);
  if (!tokenizer.ok()) return Fail("tokenize", tokenizer.status());
  std::string line;
  for (size_t number = 1;; ++number) {
    const auto refuse = [&](const absl::Status& status) {
      const std::string cause(status.message());
      return Fail("tokenize", absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", cause)), kUsage);
    };
    const absl::StatusOr<bool> read = ReadLine(line);
    if (!read.ok()) return refuse(read.status());
    if (!*read) return kDone;
    const auto answer = Answer(**tokenizer, line, flags);
    if (!answer.ok()) return refuse(answer.status());
    if (std::fwrite(answer->data(), 1, answer->size(), stdout) != answer->size() ||
        std::fflush(stdout) != 0) {
      return Fail("tokenize", absl::UnavailableError("standard output cannot be written"));
    }
  }
}

}  // namespace ropelab::tools
