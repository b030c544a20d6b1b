// SHA-256 (OpenSSL's), as lower-case hex.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace ropelab {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void Update(std::string_view bytes);
  // Ends the hash; call once.
  std::string FinishHex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Sha256Hex(std::string_view bytes);

}  // namespace ropelab
