#include "absl/strings/str_cat.h"
#include "client/commands.h"
#include "client/experiment_view.h"
#include "client/human.h"
#include "client/json_view.h"
#include "client/progress.h"
#include "common/status_macros.h"

namespace ropelab::client {

absl::StatusOr<ExitCode> FollowToTheEnd(Session& session, const std::string& id, std::ostream& progress,
                                        int64_t width, bool json) {
  const Patience& patience = session.options.patience;
  WatchedExperiments watched;
  const auto view = width > 0 ? MakeTerminalProgress(width) : MakeLineProgress();
  const auto start = std::chrono::steady_clock::now();
  bool away = false;

  WatchHooks hooks;
  hooks.event = [&](const v1::WatchEvent& event) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    watched.Update(event, seconds);
    if (json) {
      progress << JsonLine(ToJson(event)) << "\n";
    } else {
      progress << (away ? view->Note("the server is back") : "") << view->Show(watched, seconds);
    }
    away = false;
    progress.flush();
    return !event.final() && progress.good();
  };
  hooks.lost = [&](const absl::Status& cause) {
    away = true;
    const std::string line = absl::StrCat(std::string(cause.message()), "; trying again for ",
                                          HumanSeconds(static_cast<double>(patience.gone.count()) / 1000));
    (json ? session.console.err : progress) << (json ? line + "\n" : view->Note(line)) << std::flush;
  };
  ROPELAB_RETURN_IF_ERROR(Watch(&session.connection, id, patience, hooks));

  if (!json) {
    for (const v1::Experiment& experiment : watched.experiments()) {
      progress << RenderSummary(experiment);
    }
    progress.flush();
  }
  return watched.AllDone() ? ExitCode::kDone : ExitCode::kFailed;
}

absl::StatusOr<ExitCode> RunWatch(Session& session) {
  return FollowToTheEnd(session, session.options.id, session.console.out, session.console.out_width,
                        session.options.json);
}

}  // namespace ropelab::client
