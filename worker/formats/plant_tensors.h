// The tensors of a planted checkpoint (plant.h says what they must do).
#pragma once

#include <string>
#include <vector>

#include "worker/formats/plant.h"
#include "worker/formats/safetensors_writer.h"

namespace ropelab::formats {

inline constexpr int64_t kPlantHidden = 64;
inline constexpr int64_t kPlantIntermediate = 128;
// Vanishes beside a mean square of 1 in fp32: the normed constant coordinate is then exactly 1.
inline constexpr double kPlantNormEps = 1e-12;

std::string PlantDtypeName(Dtype dtype);  // as config.json spells it

// Options are valid. `inv_freq` has head_dim / 2 entries in storage order; `strength` is A.
std::vector<NamedTensor> PlantTensors(const PlantOptions& options, const std::vector<double>& inv_freq,
                                      double strength);

}  // namespace ropelab::formats
