// What a measurement needs of the model it runs on.
#pragma once

#include "ropelab/v1/measurement.pb.h"
#include "server/schedule/session.h"

namespace ropelab::api {

// Whether a worker must turn text into token ids for it: it holds lengths of texts, or prompts out of a
// corpus, of generated text or with needles, wherever they stand in it.
bool TokenizesText(const v1::Measurement& measurement);

// The hashes of its identity that placement looks at (session.h): those of weights and config, and the
// tokenizer's where TokenizesText.
schedule::ModelNeeds NeedsOf(const v1::Measurement& measurement);

}  // namespace ropelab::api
