#include "worker/session/hello.h"

#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/version.h"
#include "spdlog/spdlog.h"
#include "worker/session/model_scan.h"
#include "worker/session/session_machine.h"

namespace ropelab::session {
namespace {

std::string DrawIncarnation() {
  std::random_device random;
  std::string hex;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&hex, absl::Hex(random(), absl::kZeroPad8));
  return hex;
}

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  }
  return "cpu";
}

}  // namespace

v1::Hello MakeHello(const HelloFacts& facts, const std::string& loaded_model) {
  static const std::string incarnation = DrawIncarnation();
  v1::Hello hello;
  hello.set_worker_id(facts.worker_id);
  hello.set_incarnation(incarnation);
  hello.set_protocol_first(kProtocolFirst);
  hello.set_protocol_last(kProtocolLast);
  hello.set_engine_version(engine::kEngineVersion);
  hello.mutable_numerics()->set_hash(facts.numerics.hash);
  for (const std::string& ingredient : facts.numerics.ingredients)
    hello.mutable_numerics()->add_ingredients(ingredient);
  hello.set_build(Build());
  v1::DeviceDescription* device = hello.mutable_device();
  device->set_kind(facts.device.substr(0, facts.device.find(':')));
  device->set_name(device->kind() == "cpu" ? CpuName() : facts.device);
  device->set_memory_bytes(facts.memory_bytes);
  const absl::StatusOr<std::vector<FoundModel>> models = FindModels(facts.roots);
  if (models.ok()) {
    for (const FoundModel& model : *models) *hello.add_models() = Announce(model, facts.cache_dir);
  } else {
    spdlog::error("{}", std::string(models.status().message()));
  }
  hello.set_loaded_model(loaded_model);
  for (const std::string& label : facts.labels) hello.add_labels(label);
  return hello;
}

}  // namespace ropelab::session
