// A split pattern in PCRE2's syntax, over the symbols of its alphabet instead of characters.
#pragma once

#include <string>

#include "worker/formats/tokenizer/class_alphabet.h"
#include "worker/formats/tokenizer/split_pattern_tree.h"

namespace ropelab::formats {

// For pcre2_compile_8 without options. Each symbol is one byte of the subject.
std::string WriteSymbolPattern(const PatternTree& tree, const ClassAlphabet& alphabet);

}  // namespace ropelab::formats
