// A figure that a sample may fail to define, and then why.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace ropelab::statistics {

struct Undefined {
  std::string because;  // "all values are equal": a clause that can stand behind "undefined:"
};

template <typename T>
class Defined {
 public:
  Defined(T value) : value_(std::move(value)) {}                            // NOLINT: implicit, as absl::StatusOr is
  Defined(Undefined undefined) : because_(std::move(undefined.because)) {}  // NOLINT

  bool has_value() const { return value_.has_value(); }
  // The value must be there.
  const T& operator*() const { return *value_; }
  const T* operator->() const { return &*value_; }
  const std::optional<T>& maybe() const { return value_; }
  const std::string& because() const { return because_; }  // empty where there is a value

 private:
  std::optional<T> value_;
  std::string because_;
};

}  // namespace ropelab::statistics
