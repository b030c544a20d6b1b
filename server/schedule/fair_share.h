// How much of the devices each owner had lately: device-seconds that halve every hour. Whoever had least
// comes first.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ropelab::schedule {

class FairShare {
 public:
  static constexpr double kHalfLifeSeconds = 3600;

  // Device-seconds held by `owner`, at monotonic time `now_ns`.
  void Charge(const std::string& owner, double device_seconds, int64_t now_ns);
  // Decayed device-seconds divided by the owner's weight (1 unless set).
  double Usage(const std::string& owner, int64_t now_ns) const;
  // `weight` > 0: an owner of weight 2 may use twice as much before another comes first.
  void SetWeight(const std::string& owner, double weight);

 private:
  struct Account {
    double seconds = 0;
    int64_t at_ns = 0;
    double weight = 1;
  };
  std::map<std::string, Account> accounts_;
};

}  // namespace ropelab::schedule
