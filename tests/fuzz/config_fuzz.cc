// A config.json of any bytes. What is accepted must be a model that a decoder can be built for.
#include <cmath>
#include <string>
#include <vector>

#include "tests/fuzz/temporary_folder.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/model_config.h"

namespace ropelab::formats {
namespace {

void CheckConfig(const ModelConfig& config) {
  ROPELAB_FUZZ_CHECK(config.layers > 0 && config.query_heads > 0 && config.kv_heads > 0);
  ROPELAB_FUZZ_CHECK(config.query_heads % config.kv_heads == 0);
  ROPELAB_FUZZ_CHECK(config.head_dim > 0 && config.head_dim % 2 == 0);
  ROPELAB_FUZZ_CHECK(config.hidden_size > 0 && config.intermediate_size > 0 && config.vocabulary > 0);
  ROPELAB_FUZZ_CHECK(config.max_positions > 0);
  ROPELAB_FUZZ_CHECK(std::isfinite(config.attention_scale) && config.attention_scale > 0);
  ROPELAB_FUZZ_CHECK(std::isfinite(config.embedding_scale) && config.embedding_scale > 0);
  ROPELAB_FUZZ_CHECK(std::isfinite(config.attention_soft_cap) && config.attention_soft_cap >= 0);
  ROPELAB_FUZZ_CHECK(std::isfinite(config.final_soft_cap) && config.final_soft_cap >= 0);
  ROPELAB_FUZZ_CHECK(config.sliding_window.size() == static_cast<size_t>(config.layers));
  for (const int64_t window : config.sliding_window) ROPELAB_FUZZ_CHECK(window >= 0);
  if (config.bos_token_id) ROPELAB_FUZZ_CHECK(*config.bos_token_id < config.vocabulary);
  for (const int64_t tokens : {int64_t{1}, config.max_positions}) {
    const std::vector<double> frequencies = InverseFrequencies(config, tokens);
    ROPELAB_FUZZ_CHECK(frequencies.size() == static_cast<size_t>(config.head_dim / 2));
    for (const double frequency : frequencies) ROPELAB_FUZZ_CHECK(std::isfinite(frequency) && frequency >= 0);
  }
  ROPELAB_FUZZ_CHECK(ConfigHash(config).size() == 64);
}

}  // namespace
}  // namespace ropelab::formats

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const ropelab::fuzz::TemporaryFolder folder;
  folder.Write("config.json", ropelab::fuzz::Text(bytes, size));
  const auto config = ropelab::formats::ReadConfig(folder.path());
  if (config.ok()) ropelab::formats::CheckConfig(*config);
  return 0;
}
