// One task from grant to readings on this device: the model, tokenizer and documents that it needs, room for
// its activations, the measurement.
#pragma once

#include <cstdint>

#include "worker/session/corpus_cache.h"
#include "worker/session/model_cache.h"
#include "worker/session/session.h"
#include "worker/session/tokenizer_cache.h"

namespace ropelab::session {

// None is null; all outlive the function that is made of them.
struct TaskCaches {
  ModelCache* models;
  TokenizerCache* tokenizers;
  CorpusCache* corpora;
};
TaskFunction MakeTaskFunction(const TaskCaches& caches);

}  // namespace ropelab::session
