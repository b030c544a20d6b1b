// What a recipe reads beside formats::ConfigFields: whole numbers in any spelling, closed ranges, lists of
// any length. A field that is missing or null takes `missing`; errors go where ConfigFields keeps them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "worker/formats/config_fields.h"

namespace ropelab::train {

// Refuses every field but these, null ones too: nobody would read it.
void OnlyThese(formats::ConfigFields& fields, std::initializer_list<std::string_view> known);

// low <= value <= high; 1000, 1000.0 and 1e3 are one number. The bounds lie within 2^53.
int64_t WholeNumber(formats::ConfigFields& fields, const std::string& name, int64_t low, int64_t high,
                    int64_t missing);
std::vector<int64_t> WholeNumbers(formats::ConfigFields& fields, const std::string& name, int64_t low,
                                  int64_t high, const std::vector<int64_t>& missing);

// low <= value <= high; ConfigFields::Number is for bounds that a value must exceed.
double NumberFrom(formats::ConfigFields& fields, const std::string& name, double low, double high,
                  double missing);
std::vector<double> NumbersFrom(formats::ConfigFields& fields, const std::string& name, double low,
                                double high, const std::vector<double>& missing);

// One of the texts that are known.
std::string OneOf(formats::ConfigFields& fields, const std::string& name, const std::string& missing,
                  std::initializer_list<std::string_view> known);

}  // namespace ropelab::train
