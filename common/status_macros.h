// Early return on a failed absl::Status.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define ROPELAB_RETURN_IF_ERROR(expression)                   \
  do {                                                        \
    if (absl::Status status_ = (expression); !status_.ok()) { \
      return status_;                                         \
    }                                                         \
  } while (false)

#define ROPELAB_CONCATENATE_INNER(a, b) a##b
#define ROPELAB_CONCATENATE(a, b) ROPELAB_CONCATENATE_INNER(a, b)
// ROPELAB_ASSIGN_OR_RETURN(auto rows, Read(file));
#define ROPELAB_ASSIGN_OR_RETURN(target, expression) \
  ROPELAB_ASSIGN_OR_RETURN_INNER(ROPELAB_CONCATENATE(statusor_, __LINE__), target, expression)
#define ROPELAB_ASSIGN_OR_RETURN_INNER(holder, target, expression) \
  auto holder = (expression);                                      \
  if (!holder.ok()) {                                              \
    return holder.status();                                        \
  }                                                                \
  target = *std::move(holder)
