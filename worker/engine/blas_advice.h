// A word to the person who set the machine up.
#pragma once

#include <string>

namespace ropelab::engine {

// "" when fp32 products on the CPU run in a BLAS that is fit for it; else a sentence that says which one was
// found and what to install.
std::string BlasAdvice();

}  // namespace ropelab::engine
