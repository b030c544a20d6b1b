// The character classes of the reference tokenizers library (Hugging Face tokenizers 0.22 over Oniguruma),
// which are newer than those of the machine's libraries. make_unicode_classes.mjs writes the table behind.
#pragma once

#include <optional>
#include <string_view>

#include "worker/formats/tokenizer/unicode_set.h"

namespace ropelab::formats {

// \p{name} for a general category ("Lu", "Nd", ...) or a group of them ("L", "M", "N", "P", "S", "Z", "C").
// Names are taken exactly so spelled; nothing for any other.
std::optional<CodePointSet> GeneralCategorySet(std::string_view name);

const CodePointSet& SpaceSet();  // \s
const CodePointSet& DigitSet();  // \d
const CodePointSet& WordSet();   // \w
// \w between brackets: without U+00B2, U+00B3, U+00B9 and U+00BC..U+00BE, for which Oniguruma asks another
// table when \w stands alone.
const CodePointSet& BracketedWordSet();

// What an ASCII character stands for when case is ignored: both cases of a letter, and U+017F for s,
// U+212A for k; any other character alone.
CodePointSet CaseVariants(char ascii);

}  // namespace ropelab::formats
