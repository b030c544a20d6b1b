// Where a command writes: streams and what is known of the terminals behind them.
#pragma once

#include <cstdint>
#include <ostream>

namespace ropelab::client {

struct Console {
  std::ostream& out;
  std::ostream& err;
  // Columns of the terminal behind each stream; 0: not a terminal.
  int64_t out_width = 0;
  int64_t err_width = 0;
};

}  // namespace ropelab::client
