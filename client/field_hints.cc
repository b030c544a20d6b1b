#include "client/field_hints.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/nearest_name.h"

namespace ropelab::client {
namespace {

std::vector<std::string> FieldNames(const google::protobuf::Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    names.push_back(type.field(i)->name());
  }
  return names;
}

// The fields of `type` whose own fields have this name: "detection" for needles in a checkpoint_sweep.
std::vector<std::string> FieldsWith(const google::protobuf::Descriptor& type, const std::string& name) {
  std::vector<std::string> fields;
  for (int i = 0; i < type.field_count(); ++i) {
    const auto* inner = type.field(i)->message_type();
    if (inner != nullptr && inner->FindFieldByName(name) != nullptr) {
      fields.push_back(type.field(i)->name());
    }
  }
  return fields;
}

}  // namespace

std::string FieldsOf(const google::protobuf::Descriptor& type) {
  return type.field_count() == 0 ? ""
                                 : absl::StrCat(" Fields there: ", absl::StrJoin(FieldNames(type), ", "));
}

std::string HintOf(const google::protobuf::Descriptor& type, const std::string& unknown) {
  if (const std::string nearest = NearestName(unknown, FieldNames(type)); !nearest.empty()) {
    return absl::StrCat(" Is \"", nearest, "\" meant?", FieldsOf(type));
  }
  const std::vector<std::string> inside = FieldsWith(type, unknown);
  constexpr size_t kMostNamed = 5;  // more would be half the fields of a spec
  return inside.empty() || inside.size() > kMostNamed
             ? FieldsOf(type)
             : absl::StrCat(" It stands inside ", absl::StrJoin(inside, " or "), ".", FieldsOf(type));
}

std::string ValuesOf(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> values;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) {
      values.push_back(type.value(i)->name());
    }
  }
  return absl::StrJoin(values, ", ");
}

}  // namespace ropelab::client
