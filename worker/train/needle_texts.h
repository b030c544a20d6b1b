// What is hidden in training samples: statements of a code in many wordings, and the questions that ask for
// it. The first wording of the first thing is the experiments' own (EXPERIMENTS.md section 6).
#pragma once

#include <cstddef>
#include <string>

#include "common/philox.h"

namespace ropelab::train {

struct NeedleText {
  std::string statement;  // "The secret passphrase is K3Q9Z."
  std::string question;   // "\n\nWhat is the secret passphrase?\n\nAnswer:"
  std::string answer;     // " K3Q9Z"
};

// Things that a code can belong to; 0 is the secret passphrase.
size_t NeedleThings();

// Five characters of [A-Z0-9], one integer each.
std::string PlainCode(Philox& stream);

// Mostly a plain code, else 4 to 8 characters of another alphabet.
std::string AnyCode(Philox& stream);

// The experiments' words.
NeedleText PlainNeedle(const std::string& code);

// A wording (half the time the first one, else drawn) for the thing, and any code.
NeedleText DrawNeedle(size_t thing, Philox& stream);

}  // namespace ropelab::train
