// Sentences of the training text. A grammar written for it, so that the model meets more words and shapes of
// sentences than the experiments' neutral text (worker/measure/generated_text.h) has.
#pragma once

#include <string>

#include "common/philox.h"

namespace ropelab::train {

// One integer chooses the template and one each word, from left to right. ASCII, 20 to 200 characters, ends
// with a full stop or a question mark.
std::string TrainingSentence(Philox& stream);

}  // namespace ropelab::train
