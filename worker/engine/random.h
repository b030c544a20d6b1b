// The engine's random numbers are those of the whole product: common/philox.h, which the planner draws with
// too.
#pragma once

#include "common/philox.h"

namespace ropelab::engine {

using ropelab::HighProduct;
using ropelab::Philox;
using ropelab::Purpose;

}  // namespace ropelab::engine
