// WeightProfile: spectra of the query and key projections, or of layer 0 over the whole vocabulary, or norms
// of the query projections' rows.
#include <ATen/Parallel.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/spectrum.h"
#include "worker/measure/kinds.h"
#include "worker/measure/query_rows.h"
#include "worker/measure/vocabulary_profile.h"
#include "worker/measure/weight_one_thread.h"
#include "worker/model/int8_weights.h"

namespace ropelab::measure {
namespace {

// Of rows [D, d]. The Gram matrix is the small one, [D, D].
engine::Spectrum SpectrumOfHead(const at::Tensor& rows, double energy) {
  engine::GramSum gram;
  gram.Add(rows.t());
  return engine::SpectrumOf(engine::EigenOf(gram.sum(), /*vectors=*/false).values, energy);
}

v1::Reading SpectraOfLayer(int64_t layer, const model::LoadedModel& model, double energy) {
  const formats::ModelConfig& config = model.config;
  const model::LayerWeights& weights = model.weights.layers[layer];
  std::vector<engine::Spectrum> spectra(static_cast<size_t>(config.query_heads + config.kv_heads));
  EachOnOneThread(static_cast<int64_t>(spectra.size()), [&](int64_t item) {
    const bool query = item < config.query_heads;
    const int64_t head = query ? item : item - config.query_heads;
    const at::Tensor rows = model::WidenedRows(query ? weights.query : weights.key,
                                               query ? weights.query_scale : weights.key_scale,
                                               head * config.head_dim, config.head_dim);
    spectra[item] = SpectrumOfHead(rows, energy);
  });
  v1::Reading reading;
  v1::WeightSpectra& said = *reading.mutable_weight_spectra();
  said.set_layer(static_cast<int32_t>(layer));
  for (size_t i = 0; i < spectra.size(); ++i) {
    const bool query = static_cast<int64_t>(i) < config.query_heads;
    (query ? said.mutable_query_r1() : said.mutable_key_r1())->Add(spectra[i].r1);
    (query ? said.mutable_query_rank() : said.mutable_key_rank())->Add(spectra[i].rank);
  }
  return reading;
}

}  // namespace

absl::StatusOr<Outcome> MeasureWeightProfile(const v1::WeightProfile& request,
                                             const model::LoadedModel& model, Recorder& recorder) {
  if (request.has_query_rows()) {
    if (request.has_vocabulary()) {
      return absl::InvalidArgumentError(
          "weight_profile holds vocabulary and query_rows, which are taken apart; leave one out");
    }
    ROPELAB_RETURN_IF_ERROR(MeasureQueryRows(request.query_rows(), model, recorder));
    return Outcome{};
  }
  if (!(request.energy() > 0 && request.energy() <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("weight_profile.energy is ", request.energy(),
                                                   "; it is a share, above 0 and at most 1"));
  }
  if (request.has_vocabulary()) {
    ROPELAB_RETURN_IF_ERROR(MeasureVocabulary(request, model, recorder));
    return Outcome{};
  }
  for (int64_t layer = 0; layer < model.config.layers; ++layer) {
    ROPELAB_RETURN_IF_ERROR(recorder.Emit(SpectraOfLayer(layer, model, request.energy()), {}));
    ROPELAB_RETURN_IF_ERROR(
        recorder.Progress(static_cast<double>(layer + 1), static_cast<double>(model.config.layers)));
  }
  return Outcome{};
}

int64_t WeightProfileBytes(const v1::WeightProfile& request, const model::LoadedModel& model) {
  if (request.has_query_rows()) return QueryRowsBytes(model, at::get_num_threads());
  if (request.has_vocabulary()) return VocabularyBytes(request.vocabulary(), model);
  const int64_t d = model.config.hidden_size, head = model.config.head_dim;
  // Per thread a head in double, and twice more while a copy between devices or a product wants it in another
  // order; its Gram matrix, LAPACK's copy and workspace.
  const int64_t doubles = 3 * head * d + 4 * head * head;
  const int64_t widened =
      model::WidenedBytes(model.weights) > 0 ? head * d * static_cast<int64_t>(sizeof(float)) : 0;
  return at::get_num_threads() * (doubles * static_cast<int64_t>(sizeof(double)) + widened);
}

}  // namespace ropelab::measure
