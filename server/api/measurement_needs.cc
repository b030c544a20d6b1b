#include "server/api/measurement_needs.h"

#include <vector>

namespace ropelab::api {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Walks what is set: a kind of measurement that takes its prompts in the common block is then told rightly
// without being named here.
bool HoldsText(const Message& message) {
  const auto* type = message.GetDescriptor();
  if (type == v1::TextLengths::descriptor() || type == v1::CorpusDocuments::descriptor() ||
      type == v1::GeneratedText::descriptor() || type == v1::NeedlePrompts::descriptor()) {
    return true;
  }
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    }
    if (!field->is_repeated()) {
      if (HoldsText(reflection->GetMessage(message, field))) {
        return true;
      }
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      if (HoldsText(reflection->GetRepeatedMessage(message, field, i))) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

bool TokenizesText(const v1::Measurement& measurement) {
  return HoldsText(measurement);
}

schedule::ModelNeeds NeedsOf(const v1::Measurement& measurement) {
  const v1::ModelIdentity& model = measurement.model();
  return {model.weights_hash(), model.config_hash(),
          TokenizesText(measurement) ? model.tokenizer_hash() : ""};
}

}  // namespace ropelab::api
