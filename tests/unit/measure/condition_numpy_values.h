// What a forward pass written in numpy from the families' definitions says in float64 of the fixtures'
// checkpoints and input_ids; without edits its logits are within 3.2e-05 of the other implementation's in
// expected.safetensors. Edits: numpy.linalg.svd of the head's rows in float64, cut and rounded to float32.
#pragma once

#include <vector>

namespace ropelab::measure {

struct NumpyConditions {
  const char* fixture;
  double nll;                  // as it is
  double query;                // W_Q of L1H2 at rank 3
  double key;                  // W_K of the KV head of L1H2 at rank 4
  double both;                 // both of L0H1, L2H0, L2H1 at rank 2
  std::vector<double> logits;  // of the last position under `both`: ids 0 .. 7
};

inline const std::vector<NumpyConditions>& NumpyConditionValues() {
  static const std::vector<NumpyConditions> values = {
      // clang-format off
      {"llama2_a", 550.5588114502, 550.5713586527, 555.3062901466, 534.3812161486, {4.2596002, -3.6550632, -0.78787885, 1.4080838, -2.4913639, -1.0466134, 5.6417696, 2.0554577}},
      {"llama3_a", 486.2678764903, 472.3433665587, 478.2014671791, 476.030269373, {-1.9947455, 4.3924253, 0.8185118, -2.1201117, -2.9348245, 0.55740826, -4.4490766, -3.1176689}},
      {"qwen2_a", 513.6821708595, 511.2883414685, 505.7759919859, 523.2112253785, {-0.6735887, -2.9511088, 0.052845553, 1.5279118, 1.6470438, 3.7327694, 2.3864095, 1.2713794}},
      {"gemma2_a", 331.9910514455, 329.1911945662, 334.5724355316, 333.7611051386, {-0.42415248, 1.2651843, -0.26189157, -0.43750369, -0.54880393, -0.056977312, -0.16087936, -0.58618645}},
      {"olmo2_a", 462.8286829184, 461.4278090208, 465.9586485049, 477.393292137, {4.8423323, -0.82481089, 0.32964634, -2.6717237, 3.7349564, -6.0577026, -2.6411687, -3.898384}},
      {"qwen3_a", 565.3039380078, 581.9637277402, 575.5316027986, 570.8688842471, {1.7657222, 0.46111928, -5.1584366, -3.326581, -1.0548706, -6.2283793, 0.28448595, -4.6365701}},
      {"mistral_a", 435.0110908887, 433.6175016821, 436.9583986189, 425.648907207, {0.50575048, -0.50626601, 1.6254355, 2.4258855, -1.7119687, -1.2979306, -1.0410894, 1.2433504}},
      // clang-format on
  };
  return values;
}

}  // namespace ropelab::measure
