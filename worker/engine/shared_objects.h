// Which files the computing libraries of this process come from.
#pragma once

#include <string>

namespace ropelab::engine {

// "libopenblas.so.0 build-id 1a2b..." of the file that holds the code of `symbol` (as the process's libtorch
// resolves it); "none" when no loaded library has it.
std::string ObjectOfSymbol(const char* symbol);
// The same of the loaded library whose file name starts with `prefix` ("libtorch_cpu.so"); "none" when none
// is loaded.
std::string LoadedObject(const std::string& prefix);

}  // namespace ropelab::engine
