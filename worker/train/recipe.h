// What ropelab-train makes, as models/needle-tiny/recipe.json says it. Within one numerics class and thread
// count the recipe decides every byte of the model.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace ropelab::train {

// The tokens that every vocabulary has: begin, end and the bytes.
inline constexpr int64_t kFixedTokens = 258;
// Room for a needle, its question, its answer and a few words around them.
inline constexpr int64_t kShortestPrompt = 64;

struct ModelShape {
  int64_t hidden = 128;
  int64_t layers = 4;
  int64_t heads = 8;     // query heads
  int64_t kv_heads = 4;  // divides heads
  int64_t head_dim = 32;
  int64_t intermediate = 256;
  int64_t max_positions = 2048;
  double rope_theta = 10000;
  double norm_eps = 1e-5;
};

struct AdamWRule {
  double rate = 2e-3;        // at the end of the warm-up
  int64_t warmup = 100;      // steps from 0 to rate
  double last_share = 0.05;  // of rate that is left at the last step; a cosine between
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.01;  // of matrices; never of norm weights
  double clip = 1;             // largest norm of the whole gradient
};

// Prompts start short and double once the model finds needles at the length that it has.
struct Curriculum {
  std::vector<int64_t> lengths = {64, 128, 256, 512, 1024};  // tokens, ascending
  double pass = 0.9;     // needle accuracy at a length that moves on to the next
  int64_t every = 50;    // steps between two evaluations, after each of which the state is saved
  int64_t samples = 40;  // needles of an evaluation
};

struct SampleMix {
  double spans = 0.5;      // share of samples with a random span that stands three times
  double plain = 0.3;      // of the others: the share with one needle in the experiments' own words
  double generated = 0.5;  // share of sentences that are the experiments' neutral text
  // Largest share of words after which a code stands that nobody asks for. Without such noise any glance at
  // the needle tells its code, and heads need not look at it squarely.
  double noise = 0.2;
};

// What makes few heads do the work, and lets the others be spared.
struct HeadPressure {
  // By layer: of each sample a share of the layer's heads is left out, drawn between 0 and twice this, one
  // draw for all layers. Empty: none.
  std::vector<double> dropout;
  // What it costs the other heads to look at a needle after it, in nats: this times StrayGaze's mean over
  // layers (gaze.h). Rows of questions and answers and the others are two means that add up, so that a model
  // whose every head stares at needles would pay almost twice this.
  double gaze = 0;
  std::vector<std::pair<int64_t, int64_t>> free;  // (layer, head) that may look; in the file as "L2H0"
  int64_t start = 0;                              // step from which both grow
  int64_t warmup = 400;                           // steps over which they grow from 0
};

struct Recipe {
  std::string name = "needle-tiny";  // of the model's folder
  uint64_t seed = 42;
  std::string dtype = "float16";      // of the exported weights: float16, bfloat16 or float32
  std::string products = "bfloat16";  // of matrix products while training: bfloat16 or float32
  ModelShape shape;
  int64_t vocabulary = 768;            // tokens, the two special ones and 256 bytes among them
  int64_t tokenizer_sentences = 6000;  // that the tokenizer is trained on; a needle beside every twentieth
  int64_t steps = 3000;
  int64_t tokens_per_step = 4096;
  double answer_weight = 1;  // the loss is the mean over text plus this times the mean over answers
  HeadPressure heads;
  AdamWRule adamw;
  Curriculum curriculum;
  SampleMix mix;
  std::vector<int64_t>
      checkpoints;  // steps after which one is written, ascending multiples of curriculum.every

  std::string text;  // CanonicalRecipeText: a state resumes only under the recipe that it was made with
};

// Every field but `text` as filled in, "name=value" lines in a fixed order; numbers with 17 digits. Recipes
// that spell defaults out, or numbers and white space in other ways, have one text.
std::string CanonicalRecipeText(const Recipe& recipe);

// INVALID_ARGUMENT names the file, the field, its value and what would be right; a field that nobody knows is
// refused, and what the reader of finished models would refuse. NOT_FOUND: no such file. Fields left out, and
// null ones, take the defaults above.
absl::StatusOr<Recipe> ReadRecipe(const std::string& path);

}  // namespace ropelab::train
