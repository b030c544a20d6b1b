// The whole of `ropelab` but for the process: arguments in, exit code out.
#pragma once

#include <string>
#include <vector>

#include "client/console.h"
#include "client/server_status.h"

namespace ropelab::client {

// `arguments` are those after the program's name. Reads ROPELAB_SERVER and ROPELAB_TOKEN.
ExitCode Run(const std::vector<std::string>& arguments, Console& console);

}  // namespace ropelab::client
