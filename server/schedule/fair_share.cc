#include "server/schedule/fair_share.h"

#include <cmath>

namespace ropelab::schedule {
namespace {

double Decayed(double seconds, int64_t elapsed_ns) {
  return seconds * std::exp2(-static_cast<double>(elapsed_ns) * 1e-9 / FairShare::kHalfLifeSeconds);
}

}  // namespace

void FairShare::Charge(const std::string& owner, double device_seconds, int64_t now_ns) {
  Account& account = accounts_[owner];
  account.seconds = Decayed(account.seconds, now_ns - account.at_ns) + device_seconds;
  account.at_ns = now_ns;
}

double FairShare::Usage(const std::string& owner, int64_t now_ns) const {
  const auto found = accounts_.find(owner);
  if (found == accounts_.end()) {
    return 0;
  }
  return Decayed(found->second.seconds, now_ns - found->second.at_ns) / found->second.weight;
}

void FairShare::SetWeight(const std::string& owner, double weight) {
  accounts_[owner].weight = weight;
}

}  // namespace ropelab::schedule
