#include "client/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ropelab::client {

ChildProcess::ChildProcess(std::string name, pid_t pid, int output)
    : name_(std::move(name)), pid_(pid), output_(output) {}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const std::string& name,
                                                                  const std::string& program,
                                                                  const std::vector<std::string>& arguments) {
  if (access(program.c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat(program, ": cannot be run: ", std::strerror(errno),
                                            "; it belongs beside the ropelab program"));
  }
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::UnavailableError(absl::StrCat("no pipe to ", name, ": ", std::strerror(errno)));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    const int cause = errno;
    close(ends[0]);
    close(ends[1]);
    return absl::UnavailableError(absl::StrCat("no process for ", name, ": ", std::strerror(cause)));
  }
  if (pid == 0) {
    // Between fork and exec only async-signal-safe calls.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
      _exit(127);  // the parent died before the line above
    }
    setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  close(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return std::unique_ptr<ChildProcess>(new ChildProcess(name, pid, ends[0]));
}

ChildProcess::~ChildProcess() {
  if (!Ended().has_value()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(output_);
}

std::vector<std::string> ChildProcess::TakeLines() {
  std::vector<std::string> lines;
  char buffer[65536];
  while (!ended_) {
    const ssize_t count = read(output_, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      break;
    }
    ended_ = count == 0;
    partial_.append(buffer, static_cast<size_t>(count));
    size_t start = 0;
    for (size_t end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n', start)) {
      lines.push_back(partial_.substr(start, end - start));
      start = end + 1;
    }
    partial_.erase(0, start);
  }
  if (ended_ && !partial_.empty()) {
    lines.push_back(std::move(partial_));
    partial_.clear();
  }
  return lines;
}

void ChildProcess::Signal(int signal) {
  if (!Ended().has_value()) {
    kill(pid_, signal);
  }
}

std::optional<std::string> ChildProcess::Ended() {
  int status = 0;
  if (!how_.has_value() && waitpid(pid_, &status, WNOHANG) == pid_) {
    how_ = WIFSIGNALED(status) ? absl::StrCat("killed by signal ", WTERMSIG(status))
                               : absl::StrCat("exit status ", WEXITSTATUS(status));
  }
  return how_;
}

}  // namespace ropelab::client
