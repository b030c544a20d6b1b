// `ropelab up`: a server and one worker for one person, until Ctrl-C.
#include <netinet/in.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/child_process.h"
#include "client/commands.h"
#include "client/human.h"
#include "common/status_macros.h"

namespace ropelab::client {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;

constexpr char kServerAddress[] = "127.0.0.1:7400";
constexpr char kMetricsAddress[] = "127.0.0.1:7401";
constexpr seconds kStartTime{60};
constexpr seconds kWorkerStopTime{30};  // a worker hands back at its next reading
constexpr seconds kServerStopTime{15};

// Ctrl-C and SIGTERM as a readable descriptor. They stay blocked in this process afterwards; children get
// them unblocked.
class StopSignals {
 public:
  StopSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
      sigaddset(&signals, signal);
    }
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    descriptor_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
  }
  ~StopSignals() { close(descriptor_); }
  int descriptor() const { return descriptor_; }
  bool Take() {
    signalfd_siginfo information;
    return read(descriptor_, &information, sizeof information) == static_cast<ssize_t>(sizeof information);
  }

 private:
  int descriptor_;
};

fs::path ProgramFolder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::current_path() : program.parent_path();
}

absl::StatusOr<std::string> FindModels(const std::string& given) {
  std::error_code error;
  if (!given.empty()) {
    return fs::is_directory(given, error)
               ? absl::StatusOr<std::string>(given)
               : absl::NotFoundError(absl::StrCat("--models ", given, ": there is no such folder"));
  }
  // Here, beside the program, or at the top of the tree that it was built in.
  for (const fs::path& folder :
       {fs::path("models"), ProgramFolder() / "models", ProgramFolder() / "../../../models"}) {
    if (fs::is_directory(folder, error)) {
      return folder.lexically_normal().string();
    }
  }
  return absl::NotFoundError(
      "no folder `models` here or beside the program: --models DIR names one that holds models");
}

// Whether nobody listens at a port of 127.0.0.1.
bool PortIsFree(uint16_t port) {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool free = bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(probe);
  return free;
}

absl::Status CheckPort(const std::string& address) {
  int32_t port = 0;
  if (!absl::StartsWith(address, "127.0.0.1:") ||
      !absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) {
    return absl::InvalidArgumentError(
        absl::StrCat("up serves this machine alone: --server 127.0.0.1:PORT, not ", address));
  }
  if (PortIsFree(static_cast<uint16_t>(port))) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      address,
      " is taken: another `ropelab up` or server runs there. Use that one (ropelab list), stop it, "
      "or choose another port: ropelab --server 127.0.0.1:PORT up"));
}

// The two children and what is read from them.
class Pair {
 public:
  explicit Pair(Console* console) : console_(console) {}

  absl::Status StartServer(const std::vector<std::string>& arguments) {
    return Start("server", "ropelab-server", arguments, &server_);
  }
  absl::Status StartWorker(const std::vector<std::string>& arguments) {
    return Start("worker", "ropelab-worker", arguments, &worker_);
  }

  // Passes lines on until a line of `child` begins with `line`, a signal arrives, a child ends or time is up.
  enum class Event { kLine, kStop, kDied, kTime };
  Event Wait(const ChildProcess* child, const std::string& line, SteadyClock::time_point deadline) {
    while (SteadyClock::now() < deadline) {
      if (stop_.Take()) {
        return Event::kStop;
      }
      // A child's last lines may come after it ended, so look first and read then.
      const bool died = Died() != nullptr;
      if (PassLines(child, line)) {
        return Event::kLine;
      }
      if (died) {
        return Event::kDied;
      }
      Poll();
    }
    return Event::kTime;
  }

  // The child that ended, or nullptr.
  ChildProcess* Died() {
    for (ChildProcess* child : {server_.get(), worker_.get()}) {
      if (child != nullptr && child->Ended().has_value()) {
        return child;
      }
    }
    return nullptr;
  }

  // The worker first, so that it can still hand back what it holds. A second Ctrl-C kills.
  void Stop() {
    StopOne(worker_.get(), kWorkerStopTime);
    StopOne(server_.get(), kServerStopTime);
    PassLines(nullptr, "");
  }

  ChildProcess* server() { return server_.get(); }
  ChildProcess* worker() { return worker_.get(); }
  const std::string& matched() const { return matched_; }

 private:
  absl::Status Start(const std::string& name, const std::string& program,
                     const std::vector<std::string>& arguments, std::unique_ptr<ChildProcess>* child) {
    ROPELAB_ASSIGN_OR_RETURN(*child, ChildProcess::Start(name, ProgramFolder() / program, arguments));
    return absl::OkStatus();
  }

  bool PassLines(const ChildProcess* wanted, const std::string& line) {
    bool found = false;
    for (ChildProcess* child : {server_.get(), worker_.get()}) {
      if (child == nullptr) {
        continue;
      }
      for (const std::string& said : child->TakeLines()) {
        console_->err << child->name() << " | " << Printable(said) << "\n";
        if (child == wanted && !found && absl::StartsWith(said, line)) {
          found = true;
          matched_ = said.substr(line.size());
        }
      }
    }
    console_->err.flush();
    return found;
  }

  void Poll() {
    std::vector<pollfd> polled{{stop_.descriptor(), POLLIN, 0}};
    for (ChildProcess* child : {server_.get(), worker_.get()}) {
      if (child != nullptr && !child->output_ended()) {
        polled.push_back({child->output(), POLLIN, 0});
      }
    }
    poll(polled.data(), polled.size(), 200);
  }

  void StopOne(ChildProcess* child, seconds patience) {
    if (child == nullptr) {
      return;
    }
    child->Signal(SIGTERM);
    const auto deadline = SteadyClock::now() + patience;
    while (!child->Ended().has_value()) {
      if (SteadyClock::now() > deadline || stop_.Take()) {
        child->Signal(SIGKILL);
      }
      PassLines(nullptr, "");
      Poll();
    }
  }

  Console* console_;
  StopSignals stop_;
  std::unique_ptr<ChildProcess> server_, worker_;
  std::string matched_;
};

// Both up, or why not. kStop: the person changed their mind.
absl::StatusOr<Pair::Event> StartBoth(Pair* pair, const Options& options, const std::string& models) {
  const std::string address = options.server_given ? options.server : kServerAddress;
  const std::string metrics = options.server_given ? "127.0.0.1:0" : kMetricsAddress;
  const auto deadline = SteadyClock::now() + kStartTime;
  const auto failed = [&](const char* name, Pair::Event event) -> absl::StatusOr<Pair::Event> {
    if (event == Pair::Event::kDied) {
      return absl::UnavailableError(absl::StrCat("the ", pair->Died()->name(), " ended while it started (",
                                                 *pair->Died()->Ended(), "): its last lines above say why"));
    }
    if (event == Pair::Event::kTime) {
      return absl::UnavailableError(absl::StrCat("the ", name, " was not ready after ", kStartTime.count(),
                                                 " s: its lines above may say why"));
    }
    return event;
  };
  ROPELAB_RETURN_IF_ERROR(
      pair->StartServer({"--data-dir", options.data_dir, "--listen", address, "--metrics", metrics}));
  Pair::Event event = pair->Wait(pair->server(), "listening on ", deadline);
  if (event != Pair::Event::kLine) {
    return failed("server", event);
  }
  const std::string listening = pair->matched();
  ROPELAB_RETURN_IF_ERROR(pair->StartWorker({"--server", listening, "--models", models}));
  event = pair->Wait(pair->worker(), "ready", deadline);
  return failed("worker", event);
}

}  // namespace

absl::StatusOr<ExitCode> RunUp(Session& session) {
  const Options& options = session.options;
  ROPELAB_ASSIGN_OR_RETURN(const std::string models, FindModels(options.models_dir));
  const std::string address = options.server_given ? options.server : kServerAddress;
  ROPELAB_RETURN_IF_ERROR(CheckPort(address));
  if (!options.server_given) {
    ROPELAB_RETURN_IF_ERROR(CheckPort(kMetricsAddress));
  }

  Pair pair(&session.console);
  const absl::StatusOr<Pair::Event> started = StartBoth(&pair, options, models);
  absl::Status status = started.status();
  if (started.ok() && *started == Pair::Event::kLine) {
    const std::string flag = address == kServerAddress ? "" : absl::StrCat(" --server ", address);
    session.console.out << "ropelab is up at " << address << ", data in " << options.data_dir
                        << ", models from " << models << "\n  ropelab" << flag << " models\n  ropelab" << flag
                        << " submit SPEC --wait\nCtrl-C stops both.\n"
                        << std::flush;
    if (pair.Wait(nullptr, "", SteadyClock::time_point::max()) == Pair::Event::kDied) {
      status = absl::UnavailableError(
          absl::StrCat("the ", pair.Died()->name(), " ended by itself: ", *pair.Died()->Ended()));
    }
  }
  session.console.err << "stopping\n" << std::flush;
  pair.Stop();
  if (!status.ok()) {
    session.console.err << RenderError(status);
    return ExitCode::kFailed;
  }
  return ExitCode::kDone;
}

}  // namespace ropelab::client
