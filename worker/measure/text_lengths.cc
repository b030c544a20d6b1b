// TextLengths: how many tokens documents of a corpus have, or needle samples.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/measure/kinds.h"
#include "worker/measure/needle_prompts.h"
#include "worker/measure/sentences.h"

namespace ropelab::measure {
namespace {

constexpr int kMostDocuments = 64;

absl::StatusOr<Outcome> LengthsOfNeedles(const v1::PromptBlock& needles, const Resources& resources,
                                         Recorder& recorder) {
  ROPELAB_RETURN_IF_ERROR(CheckSamples(needles.samples()));
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<RealisedNeedle> realised,
                           RealiseNeedles(needles.needle(), needles.samples(), resources));
  for (const RealisedNeedle& needle : realised) {
    v1::Reading reading;
    *reading.mutable_realised_needle() = needle.facts;
    ROPELAB_RETURN_IF_ERROR(recorder.Emit(std::move(reading), {}));
  }
  return Outcome{};
}

}  // namespace

absl::StatusOr<Outcome> MeasureTextLengths(const v1::TextLengths& request, const Resources& resources,
                                           Recorder& recorder) {
  if (request.has_needles()) return LengthsOfNeedles(request.needles(), resources, recorder);
  const formats::Tokenizer& tokenizer = *resources.tokenizer;
  Texts& texts = *resources.texts;
  const int documents = request.documents_size();
  if (documents < 1 || documents > kMostDocuments) {
    return absl::InvalidArgumentError(
        absl::StrCat("lengths of ", documents, " documents; a task asks for 1 to ", kMostDocuments));
  }
  v1::Reading reading;
  v1::DocumentLengths& lengths = *reading.mutable_document_lengths();
  for (int i = 0; i < documents; ++i) {
    ROPELAB_RETURN_IF_ERROR(recorder.Progress(i, documents));
    const int64_t document = request.documents(i);
    ROPELAB_ASSIGN_OR_RETURN(const std::string text,
                             DocumentText(texts, request.corpus(), document, request.text_field()));
    const absl::StatusOr<formats::Encoding> encoding = tokenizer.Encode(text, /*add_special=*/false);
    if (!encoding.ok()) {
      return absl::Status(encoding.status().code(),
                          absl::StrCat(DocumentName(request.corpus(), document), ": ",
                                       std::string(encoding.status().message())));
    }
    lengths.add_documents(document);
    lengths.add_tokens(static_cast<int64_t>(encoding->ids.size()));
    lengths.add_characters(CharactersOf(text));
  }
  ROPELAB_RETURN_IF_ERROR(recorder.Progress(documents, documents));
  ROPELAB_RETURN_IF_ERROR(recorder.Emit(std::move(reading), {}));
  return Outcome{};
}

}  // namespace ropelab::measure
