#include "client/experiment_view.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/human.h"
#include "client/text_table.h"

namespace ropelab::client {
namespace {

using Align = TextTable::Align;

// "16/64 (8 reused)", with `noun` " tasks" "16/64 tasks (8 reused)".
std::string Tasks(const v1::Experiment& experiment, const char* noun = "") {
  std::string text = absl::StrCat(experiment.tasks_done(), "/", experiment.tasks_total(), noun);
  if (experiment.tasks_reused() > 0) {
    absl::StrAppend(&text, " (", experiment.tasks_reused(), " reused)");
  }
  return text;
}

std::string Label(const v1::Experiment& experiment) {
  return experiment.name().empty() ? experiment.id()
                                   : absl::StrCat(experiment.name(), " (", experiment.id(), ")");
}

std::string Took(const v1::Experiment& experiment) {
  if (experiment.started_microseconds() == 0 || experiment.finished_microseconds() == 0) {
    return "";
  }
  return HumanSeconds(
      static_cast<double>(experiment.finished_microseconds() - experiment.started_microseconds()) / 1e6);
}

// "planted@4ef921d1, b@0123abcd": eight digits are enough for a spec.
std::string ShortModels(const v1::Experiment& experiment) {
  std::vector<std::string> names;
  for (const std::string& model : experiment.models()) {
    const size_t at = model.rfind('@');
    names.push_back(at == std::string::npos ? model : model.substr(0, at + 9));
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

bool IsFinal(const v1::Experiment& experiment) {
  return experiment.state() == "done" || experiment.state() == "failed" || experiment.state() == "cancelled";
}

std::string RenderExperimentList(const std::vector<v1::Experiment>& experiments, int64_t now) {
  if (experiments.empty()) {
    return "no experiments\n";
  }
  TextTable table({{"ID"},
                   {"STUDY"},
                   {"NAME"},
                   {"KIND"},
                   {"MODEL"},
                   {"STATE"},
                   {"TASKS", Align::kRight},
                   {"OWNER"},
                   {"SUBMITTED"},
                   {"REASON"}});
  for (const v1::Experiment& experiment : experiments) {
    table.AddRow({experiment.id(), experiment.study_id(), Shortened(experiment.name(), 40), experiment.kind(),
                  Shortened(ShortModels(experiment), 40), experiment.state(), Tasks(experiment),
                  experiment.owner(), HumanAgo(now, experiment.submitted_microseconds()),
                  Shortened(experiment.reason(), 60)});
  }
  return table.RenderWithin(kTerminalWidth);
}

std::string RenderExperiment(const v1::Experiment& experiment, int64_t now) {
  std::vector<std::pair<std::string, std::string>> pairs;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) {
      pairs.emplace_back(name, value);
    }
  };
  const auto add_time = [&](const char* name, int64_t microseconds) {
    if (microseconds != 0) {
      add(name, absl::StrCat(HumanStamp(microseconds), " (", HumanAgo(now, microseconds), ")"));
    }
  };
  add("id", experiment.id());
  add("name", experiment.name());
  add("study", experiment.study_id());
  add("kind", experiment.kind());
  add("models", absl::StrJoin(experiment.models(), ", "));
  add("state", experiment.state());
  add("reason", experiment.reason());
  add("owner", absl::StrCat(experiment.owner(), experiment.owner_verified() ? "" : " (unverified)"));
  add("priority", experiment.priority());
  add("tags", absl::StrJoin(experiment.tags(), ", "));
  add("stage", experiment.stage() > 0 ? absl::StrCat(experiment.stage()) : "");
  add("tasks", absl::StrCat(experiment.tasks_done(), " of ", experiment.tasks_total(), " done, ",
                            experiment.tasks_running(), " running, ", experiment.tasks_reused(), " reused"));
  add("readings", absl::StrCat(experiment.readings()));
  add("progress", absl::StrFormat("%.0f%%", experiment.progress() * 100));
  if (!IsFinal(experiment) && experiment.seconds_left() >= 0) {
    add("time left", HumanSeconds(experiment.seconds_left()));
  }
  add_time("submitted", experiment.submitted_microseconds());
  add_time("started", experiment.started_microseconds());
  add_time("finished", experiment.finished_microseconds());
  add("took", Took(experiment));
  add("numerics", experiment.numerics_class());
  add("spec hash", experiment.spec_hash());
  for (const std::string& warning : experiment.warnings()) {
    add("warning", warning);
  }
  return RenderPairs(pairs);
}

std::string RenderProgress(const v1::Experiment& experiment, double rate) {
  std::string line = absl::StrCat(Label(experiment), "  ", experiment.state());
  const std::string said = experiment.state() + " ";  // "waiting for experiment detect" says its state, too
  const std::string reason(absl::StripPrefix(experiment.reason(), said));
  if (IsFinal(experiment)) {
    absl::StrAppend(&line, "  ", Tasks(experiment, " tasks"));
  } else if (experiment.stage() > 0) {
    absl::StrAppend(&line, "  stage ", experiment.stage(), "  ", Tasks(experiment, " tasks"), "  ",
                    absl::StrFormat("%.0f%%", experiment.progress() * 100));
    if (rate > 0) {
      absl::StrAppend(&line, absl::StrFormat("  %.3g tasks/s", rate));
    }
    if (experiment.seconds_left() >= 0) {
      absl::StrAppend(&line, "  ", HumanSeconds(experiment.seconds_left()), " left");
    }
  }
  if (!reason.empty()) {
    absl::StrAppend(&line, "  ", reason);
  } else if (experiment.state() == "waiting") {
    absl::StrAppend(&line, "  for the server to plan its tasks");
  }
  return Printable(line);
}

std::string RenderSummary(const v1::Experiment& experiment) {
  std::string line = absl::StrCat(Label(experiment), ": ", experiment.state());
  if (const std::string took = Took(experiment); !took.empty()) {
    absl::StrAppend(&line, experiment.state() == "done" ? " in " : " after ", took);
  }
  absl::StrAppend(&line, ", ", Tasks(experiment, " tasks"));
  if (experiment.state() == "done") {
    absl::StrAppend(&line, "; see: ropelab results ", experiment.id());
  } else if (!experiment.reason().empty()) {
    absl::StrAppend(&line, ": ", experiment.reason());
  }
  return Printable(line) + "\n";
}

namespace {

std::vector<std::string> Remarks(const v1::Estimate& estimate) {
  return estimate.basis().empty() ? std::vector<std::string>()
                                  : std::vector<std::string>(absl::StrSplit(estimate.basis(), "; "));
}

bool Holds(const std::vector<std::string>& remarks, const std::string& remark) {
  return std::find(remarks.begin(), remarks.end(), remark) != remarks.end();
}

// What is said of every experiment of a study, in the order of the first; nothing for one experiment alone.
std::vector<std::string> CommonRemarks(const v1::ValidateResponse& response) {
  if (response.estimates_size() < 2) return {};
  std::vector<std::string> common = Remarks(response.estimates(0));
  for (const v1::Estimate& estimate : response.estimates()) {
    const std::vector<std::string> remarks = Remarks(estimate);
    common.erase(std::remove_if(common.begin(), common.end(),
                                [&](const std::string& remark) { return !Holds(remarks, remark); }),
                 common.end());
  }
  return common;
}

}  // namespace

std::string RenderEstimates(const v1::ValidateResponse& response) {
  TextTable table({{"EXPERIMENT"},
                   {"KIND"},
                   {"TASKS", Align::kRight},
                   {"DEVICE TIME", Align::kRight},
                   {"READINGS", Align::kRight},
                   {"RESULTS", Align::kRight}});
  const std::vector<std::string> common = CommonRemarks(response);
  std::string basis;
  std::string warnings;
  int64_t tasks = 0;
  double seconds = 0;
  for (const v1::Estimate& estimate : response.estimates()) {
    table.AddRow({estimate.experiment(), estimate.kind(), absl::StrCat(estimate.tasks()),
                  HumanSeconds(estimate.device_seconds()), HumanBytes(estimate.reading_bytes()),
                  HumanBytes(estimate.result_bytes())});
    tasks += estimate.tasks();
    seconds += estimate.device_seconds();
    std::vector<std::string> remarks = Remarks(estimate);
    remarks.erase(std::remove_if(remarks.begin(), remarks.end(),
                                 [&](const std::string& remark) { return Holds(common, remark); }),
                  remarks.end());
    if (!remarks.empty()) {
      absl::StrAppend(&basis, Printable(estimate.experiment()), estimate.experiment().empty() ? "" : ": ",
                      "expected from ", Printable(absl::StrJoin(remarks, "; ")), "\n");
    }
    for (const std::string& warning : estimate.warnings()) {
      absl::StrAppend(&warnings, "warning: ", estimate.experiment(),
                      estimate.experiment().empty() ? "" : ": ", Printable(warning), "\n");
    }
  }
  std::string all;
  if (response.estimates_size() > 1) {
    absl::StrAppend(&all, "in all: ", Counted(tasks, "task"), ", ", HumanSeconds(seconds),
                    " of device time; what several of them measure is measured once\n");
  }
  if (!common.empty()) {
    absl::StrAppend(&basis, "each: ", Printable(absl::StrJoin(common, "; ")), "\n");
  }
  return absl::StrCat(response.estimates_size() == 0 ? "" : table.Render(), all, basis, warnings);
}

std::string RenderNoResults(const v1::Experiment& experiment) {
  const std::string& id = experiment.id();
  if (!IsFinal(experiment)) {
    return Printable(absl::StrCat("no results yet; ropelab watch ", id, " shows how far it is")) + "\n";
  }
  return Printable(absl::StrCat("no results: ", id,
                                experiment.state() == "failed" ? " failed" : " is " + experiment.state(),
                                experiment.reason().empty() ? "" : ": ", experiment.reason())) +
         "\n";
}

std::string RenderResultsList(const v1::ListResultsResponse& response) {
  std::string text;
  if (!response.tables().empty()) {
    TextTable tables({{"TABLE"}, {"ROWS", Align::kRight}, {"NOTES"}});
    for (const v1::TableInfo& table : response.tables()) {
      std::vector<std::string> notes;
      if (table.partial()) notes.push_back("partial: not every stage of the experiment is in");
      if (!table.whole_in_sql()) notes.push_back("the database view holds a part, this command all rows");
      tables.AddRow({table.name(), absl::StrCat(table.rows()), absl::StrJoin(notes, "; ")});
    }
    text += tables.Render();
  }
  if (!response.artifacts().empty()) {
    TextTable artifacts({{"ARTIFACT"}, {"SIZE", Align::kRight}, {"SHA-256"}});
    for (const v1::ArtifactInfo& artifact : response.artifacts()) {
      artifacts.AddRow({artifact.name(), HumanBytes(artifact.bytes()), artifact.sha256()});
    }
    absl::StrAppend(&text, text.empty() ? "" : "\n", artifacts.Render());
  }
  return text;
}

}  // namespace ropelab::client
