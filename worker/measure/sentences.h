// Sentences of running text, by a rule that anybody can follow with a pencil. docs/experiments/needles.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ropelab::measure {

// Unicode code points of UTF-8.
int64_t CharactersOf(std::string_view text);

// The maximal runs of bytes that are no ASCII white space (space, tab, line feed, vertical tab, form feed,
// carriage return).
std::vector<std::string_view> WordsOf(std::string_view text);

// The sentences of `text` that have 20 to 200 characters, in its order, their words joined by one space.
//
// A sentence ends after a word that ends with . or ! or ?, closing marks behind it not counted (" ' ) ] and
// the curly quotes), unless the next word begins with a to z, or the word is a capital letter and a full stop
// or one of Mr. Mrs. Ms. Dr. St. Prof.; before a blank line; and at the end of the text.
std::vector<std::string> SentencesOf(std::string_view text);

}  // namespace ropelab::measure
