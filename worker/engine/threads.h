// How many threads compute in this process. Part of the numerics class.
#pragma once

namespace ropelab::engine {

// Processors that this process may run on.
int AvailableThreads();

// Once, before the first computation: threads of ATen and of OpenBLAS where it is there.
void SetThreads(int threads);

}  // namespace ropelab::engine
