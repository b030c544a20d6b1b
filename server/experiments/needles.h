// Needles of an experiment: what a spec may say, which samples are kept, and the blocks that tasks take them
// in. EXPERIMENTS.md section 6; docs/experiments/needles.md.
//
// A seed's samples stand cell by cell: context length, then depth, both ascending, then index. They know no
// tokenizer. Where the models have several tokenizers, a stage of TextLengths asks first which samples fit
// every model, and only those are kept; with one tokenizer all are kept, and a sample that does not fit fails
// its task by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {

// Every model must take prompts of a context length and this much more: the answer's room.
inline constexpr int64_t kAnswerRoom = 64;

// What is written where the spec leaves a field out.
struct NeedleDefaults {
  std::vector<int64_t> context_lengths = {1024, 2048, 4096, 8192};
  std::vector<double> depths = {0.1, 0.25, 0.5, 0.75, 0.9};
  int64_t samples_per_cell = 5;
};

// Writes every default, sorts lengths and depths (their order moves nothing) and names the haystack's corpus
// "name@sha256". Reads the spec's seeds. Paths of problems start with `path`. Models may be fewer than the
// spec names.
void ResolveNeedles(v1::Needles& needles, const std::string& path, const NeedleDefaults& defaults,
                    const v1::ExperimentSpec& spec, const Facts& facts, Problems& problems);

// Samples per seed of resolved needles, and the one of a number below that; 0 and an empty one for needles
// that are not resolved.
int64_t NeedleCount(const v1::Needles& needles);
v1::NeedleSample NeedleSampleOf(const v1::Needles& needles, int64_t number);

// What of a seed's samples there is to measure, in the order of all samples.
struct NeedleChoice {
  std::vector<v1::NeedleSample> kept;
  std::vector<v1::NeedleSample> dropped;  // some model's tokenizer makes needle and question alone too long
};

// Adds to an estimate what the stage takes that asks which samples fit; nothing with one tokenizer.
void AddNeedleStage(const v1::Needles& needles, int64_t seeds, const std::vector<ModelFacts>& models,
                    v1::Estimate& estimate);

class FoundNeedles {
 public:
  StagePlan before;    // to run as stage `first_stage`; empty: the samples are known, and the rest is filled
  int64_t stages = 0;  // that were needed before the samples were known: 0 or 1
  std::vector<NeedleChoice> seeds;  // one per seed, in the order asked for

  // Of the kept samples of a seed, by its place in that order.
  int64_t Blocks(size_t seed) const;
  // An aligned block of at most 8 of them, for a task on `model`. Sample first_sample + i of the block is
  // kept[first_sample + i].
  v1::PromptBlock Block(const ModelFacts& model, size_t seed, int64_t block) const;

 private:
  friend absl::StatusOr<FoundNeedles> FindNeedles(const v1::Needles&, v1::NeedlePrompts::Use,
                                                  const std::vector<uint64_t>&,
                                                  const std::vector<ModelFacts>&, const Context&, int64_t,
                                                  StageReadings&, int64_t);
  v1::NeedlePrompts common_;  // all but seed, BOS and samples
  std::vector<uint64_t> seed_values_;
};

// What the stages before `stage` settle, for resolved needles. Where a stage is needed it is `first_stage`
// (one that other finders' stages come before, say), and only readings of that one are looked at; tasks of
// other kinds in it are passed over. Planning again gives the same. FAILED_PRECONDITION: a cell of which no
// sample fits every model (names cell, model and remedy), a corpus that is not registered any more, a model
// without its tokenizer; INTERNAL: the stage did not give what it was asked for.
absl::StatusOr<FoundNeedles> FindNeedles(const v1::Needles& needles, v1::NeedlePrompts::Use use,
                                         const std::vector<uint64_t>& seeds,
                                         const std::vector<ModelFacts>& models, const Context& context,
                                         int64_t stage, StageReadings& readings, int64_t first_stage = 1);

// A block of needle prompts as a source of prompts among others (prompts.h): the samples of use TEST, every
// one of them, whatever other models there are. FAILED_PRECONDITION: the corpus is not registered any more.
absl::StatusOr<v1::PromptBlock> NeedlePromptBlock(const v1::Needles& needles, uint64_t seed,
                                                  const ModelFacts& model, const Context& context,
                                                  int64_t block);

// The spec's sample behind a reading's `sample`, by the task that the reading is of. INTERNAL when the block
// does not hold it.
absl::StatusOr<v1::NeedleSample> NeedleSampleOf(const v1::PromptBlock& prompts, int64_t sample);

// The table `needle_samples`: kept samples as they were realised, dropped ones without the rest. `label` and
// `dtype` as in every table (ModelLabel, the dtype's name).
class NeedleSamplesTable {
 public:
  NeedleSamplesTable();
  void AddKept(const std::string& label, const std::string& dtype, const std::string& numerics_class,
               uint64_t seed, const v1::NeedleSample& sample, const v1::RealisedNeedle& realised);
  void AddDropped(const std::string& label, const std::string& dtype, const std::string& numerics_class,
                  uint64_t seed, const v1::NeedleSample& sample);
  // SQL holds it unless it is too long.
  Table Finish();

 private:
  TableBuilder table_;
};

}  // namespace ropelab::experiments
