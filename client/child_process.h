// A program that runs beside this one and does not outlive it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ropelab::client {

// For the thread that started it, which must live as long: the system ends the child (SIGTERM) when that
// thread ends. The child has a process group of its own, so a Ctrl-C in the terminal reaches it only through
// Signal.
class ChildProcess {
 public:
  // `name` stands before each of its lines. Errors: the program cannot be run.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const std::string& name,
                                                             const std::string& program,
                                                             const std::vector<std::string>& arguments);
  ~ChildProcess();  // kills what still runs

  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  const std::string& name() const { return name_; }
  int output() const { return output_; }  // both its stdout and stderr; for poll
  // Whole lines that have arrived; never blocks. At the end of its output also what has no line end.
  std::vector<std::string> TakeLines();
  bool output_ended() const { return ended_; }

  void Signal(int signal);
  // How it ended ("exit status 2", "killed by signal 9"); nullopt while it runs.
  std::optional<std::string> Ended();

 private:
  ChildProcess(std::string name, pid_t pid, int output);

  std::string name_;
  pid_t pid_;
  int output_;
  bool ended_ = false;
  std::string partial_;
  std::optional<std::string> how_;
};

}  // namespace ropelab::client
