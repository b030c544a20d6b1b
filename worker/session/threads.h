// How many threads compute, and the environment that the computing libraries read before main() begins:
// OpenMP, OpenBLAS, ATen and malloc look at it once, when they are loaded, so setting it in main() would come
// too late.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ropelab::session {

// CPUs that this process may run on, at least 1.
int AvailableCpus();

// N of `--threads N` or `--threads=N` when it is a number of 1 to 4096, else `fallback`; main() reports a bad
// one.
int ThreadsOfCommandLine(int argc, const char* const* argv, int fallback);

// `environment` with the settings that a worker runs under. The thread counts are always ours, since the
// numerics class is pinned to them; the rest is put in only where nobody chose a value. OPENBLAS_CORETYPE
// stays as it is.
std::vector<std::string> TunedEnvironment(const std::vector<std::string>& environment, int threads,
                                          bool avx512);

// Called from .preinit_array: after the libraries are mapped and before their constructors run, which take
// two thirds of the start-up. Executes this program again, once, under TunedEnvironment; returns when that is
// not needed or not possible.
void ReexecuteTuned(int argc, char** argv, char** envp);

// Threads of the computing libraries for this process, from OMP_NUM_THREADS as ReexecuteTuned left it.
void UseThreads(int threads);

}  // namespace ropelab::session
