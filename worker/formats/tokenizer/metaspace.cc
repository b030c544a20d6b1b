#include "worker/formats/tokenizer/metaspace.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace ropelab::formats {

absl::StatusOr<Metaspace> ReadMetaspace(JsonFields& fields) {
  Metaspace metaspace;
  ROPELAB_ASSIGN_OR_RETURN(metaspace.mark, fields.Character("replacement"));
  std::string scheme = "always";
  if (fields.Find("prepend_scheme") != nullptr) {
    ROPELAB_ASSIGN_OR_RETURN(scheme, fields.String("prepend_scheme"));
  }
  if (scheme == "first") {
    metaspace.prepend = Metaspace::Prepend::kFirst;
  } else if (scheme == "never") {
    metaspace.prepend = Metaspace::Prepend::kNever;
  } else if (scheme != "always") {
    return fields.Error("prepend_scheme", Shown(scheme) + " is not known; known are always, first and never");
  }
  ROPELAB_ASSIGN_OR_RETURN(const bool prefix, fields.BoolOr("add_prefix_space", scheme != "never"));
  if (!prefix && scheme != "never") {
    return fields.Error("add_prefix_space", absl::StrCat("false contradicts prepend_scheme ", scheme,
                                                         "; write \"prepend_scheme\": \"never\""));
  }
  ROPELAB_ASSIGN_OR_RETURN(metaspace.split, fields.BoolOr("split", true));
  fields.Ignore({"str_rep"});  // a copy of the replacement in old files
  return metaspace;
}

}  // namespace ropelab::formats
