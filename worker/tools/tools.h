// Commands of ropelab-worker that need no server. For parity with other
// implementations and for debugging.
#pragma once

#include <string>

namespace ropelab::tools {

// Whether the first argument of a command line is for RunTool: any word that is no flag, since serving takes
// flags alone. RunTool refuses a word that names no tool.
bool IsToolCommand(const std::string& argument);

// argv[1] names the command. Data goes to stdout, errors as sentences to stderr. Returns the process's exit
// code: 0 done, 1 failed, 2 wrong usage.
int RunTool(int argc, char** argv);

}  // namespace ropelab::tools
