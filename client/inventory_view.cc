#include "client/inventory_view.h"

#include <cmath>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/corpora_view.h"
#include "client/human.h"
#include "client/text_table.h"

namespace ropelab::client {
namespace {

using Align = TextTable::Align;

// Enough of a hash to tell two apart; --json has it whole.
std::string ShortHash(const std::string& hash) {
  return hash.substr(0, 12);
}

std::string DtypeName(const v1::ModelConfig& config) {
  return config.has_dtype() ? v1::Dtype::Value_Name(config.dtype()) : "";
}

// Whether text can be fed to it. A file that is there and cannot be read is named in the worker's log.
std::string Tokenizer(const v1::ModelAnnouncement& announced) {
  return !announced.problem().empty()         ? ""
         : announced.config().has_tokenizer() ? "yes"
         : announced.tokenizer_hash().empty() ? "no"
                                              : "unusable";
}

std::string Number(int64_t value) {
  return value == 0 ? "" : absl::StrCat(value);
}

std::string Value(double value) {
  return absl::StrFormat("%.3g", value);
}

// "passed, largest rope_table 1.2e-07 of 1e-06 absolute at layer 3": of the facts with a bound, the one that
// comes nearest to its bound, or is farthest beyond it.
std::string Verified(const v1::Verification& verification) {
  const v1::VerifiedFact* largest = nullptr;
  const auto share = [](const v1::VerifiedFact& fact) {
    return fact.bound() > 0 ? fact.value() / fact.bound() : fact.value() > 0 ? HUGE_VAL : 0;
  };
  for (const v1::VerifiedFact& fact : verification.facts()) {
    const bool worse = largest == nullptr || (largest->passed() && !fact.passed()) ||
                       (largest->passed() == fact.passed() && share(fact) > share(*largest));
    if (fact.bound() >= 0 && worse) {
      largest = &fact;
    }
  }
  std::string text = verification.passed() ? "passed" : "FAILED";
  if (largest != nullptr) {
    absl::StrAppend(&text, ", largest ", largest->name(), " ", Value(largest->value()), " of ",
                    Value(largest->bound()), largest->unit().empty() ? "" : " ", largest->unit(),
                    largest->where().empty() ? "" : " at ", largest->where());
  }
  return absl::StrCat(text, " (engine ", verification.engine_version(), ", ", verification.device(), ")");
}

}  // namespace

std::string RenderModels(const v1::ListModelsResponse& response, int64_t now) {
  if (response.models().empty()) {
    return "no models: no worker has announced one yet (ropelab-worker --models DIR)\n";
  }
  TextTable table({{"NAME"},
                   {"FAMILY"},
                   {"LAYERS", Align::kRight},
                   {"HEADS", Align::kRight},
                   {"KV", Align::kRight},
                   {"DIM", Align::kRight},
                   {"PARAMETERS", Align::kRight},
                   {"DTYPE"},
                   {"SIZE", Align::kRight},
                   {"LONGEST", Align::kRight},
                   {"TOKENIZER"},
                   {"WEIGHTS"},
                   {"WORKERS"},
                   {"LOADED ON"}});
  std::string problems;
  for (const v1::KnownModel& model : response.models()) {
    const v1::ModelAnnouncement& announced = model.announcement();
    const v1::ModelConfig& config = announced.config();
    const bool usable = announced.problem().empty();
    table.AddRow(
        {announced.name(), usable ? config.family() : "unusable", Number(config.layers()),
         Number(config.query_heads()), Number(config.kv_heads()), Number(config.head_dim()),
         usable ? HumanCount(config.parameters()) : "", DtypeName(config),
         usable ? HumanBytes(announced.bytes()) : "", Number(config.max_positions()), Tokenizer(announced),
         !announced.weights_hash().empty() ? ShortHash(announced.weights_hash())
         : usable                          ? "not hashed yet"
                                           : "",
         model.workers().empty() ? absl::StrCat("none, seen ", HumanAgo(now, model.last_seen_microseconds()))
                                 : absl::StrCat(model.workers_size()),
         model.resident_on()});
    if (!usable) {
      absl::StrAppend(&problems, Printable(announced.name()),
                      " cannot be used: ", Printable(announced.problem()), "\n");
    }
  }
  return table.RenderWithin(kTerminalWidth) + problems;
}

std::string RenderWorkers(const v1::ListWorkersResponse& response, int64_t now) {
  if (response.workers().empty()) {
    return "no workers: start one with ropelab-worker --server HOST:PORT --models DIR\n";
  }
  TextTable table({{"ID"},
                   {"STATE"},
                   {"DEVICE"},
                   {"MEMORY", Align::kRight},
                   {"NUMERICS"},
                   {"TASK", Align::kRight},
                   {"MODEL"},
                   {"FINISHED", Align::kRight},
                   {"CONNECTED"},
                   {"BUILD"},
                   {"LABELS"}});
  for (const v1::ConnectedWorker& worker : response.workers()) {
    const std::string& device = worker.device().name();
    table.AddRow({worker.id(), worker.state(),
                  absl::StrCat(worker.device().kind(), device.empty() ? "" : " ", Shortened(device, 30)),
                  HumanBytes(worker.device().memory_bytes()), worker.numerics().hash(), Number(worker.task()),
                  Shortened(worker.loaded_model(), 30), absl::StrCat(worker.tasks_finished()),
                  HumanAgo(now, worker.connected_microseconds()), worker.build(),
                  absl::StrJoin(worker.labels(), " ")});
  }
  return table.RenderWithin(kTerminalWidth);
}

std::string RenderProvenance(const v1::Provenance& provenance) {
  const v1::Experiment& experiment = provenance.experiment();
  std::string text = "EXPERIMENT\n";
  text += RenderPairs(
      {{"id", experiment.id()},
       {"name", experiment.name()},
       {"kind", experiment.kind()},
       {"owner", absl::StrCat(experiment.owner(), experiment.owner_verified() ? "" : " (unverified)")},
       {"state", experiment.state()},
       {"submitted", HumanStamp(experiment.submitted_microseconds())},
       {"started", HumanStamp(experiment.started_microseconds())},
       {"finished", HumanStamp(experiment.finished_microseconds())},
       {"seeds", absl::StrJoin(provenance.seeds(), ", ")},
       {"server", provenance.server_build()},
       {"result digest", provenance.result_digest()},
       {"divergent readings", absl::StrCat(provenance.divergent_readings())}});

  absl::StrAppend(&text, "\nSPEC (resolved, SHA-256 ", provenance.spec_hash(), ")\n",
                  PrintableLines(provenance.resolved_spec_text()));
  if (text.back() != '\n') {
    text += '\n';
  }

  text += "\nMODELS\n";
  for (const v1::KnownModel& model : provenance.models()) {
    const v1::ModelAnnouncement& announced = model.announcement();
    text +=
        RenderPairs({{"name", announced.name()},
                     {"weights", announced.weights_hash()},
                     {"config", announced.config_hash()},
                     {"tokenizer", announced.tokenizer_hash().empty() ? "none" : announced.tokenizer_hash()},
                     {"verified", announced.has_verification() ? Verified(announced.verification()) : "no"}});
  }
  if (provenance.models().empty()) {
    text += "none\n";
  }

  if (!provenance.corpora().empty()) {
    text += "\nCORPORA\n";
  }
  for (const v1::Corpus& corpus : provenance.corpora()) {
    text += RenderCorpus(corpus);
  }

  text += "\nNUMERICS\n";
  for (const v1::NumericsClass& numerics : provenance.numerics()) {
    absl::StrAppend(&text, Printable(numerics.hash()), "\n");
    for (const std::string& ingredient : numerics.ingredients()) {
      absl::StrAppend(&text, "  ", Printable(ingredient), "\n");
    }
  }

  // What the attempts have in common stands once, by number, so that a task fits a line.
  TextTable runners({{"BY", Align::kRight}, {"WORKER"}, {"DEVICE"}, {"NUMERICS"}, {"BUILD"}});
  std::map<std::vector<std::string>, std::string> numbers;
  const auto by = [&](const v1::TaskAttempt& attempt) {
    if (attempt.worker().empty()) {
      return std::string();
    }
    const std::vector<std::string> key = {attempt.worker(), attempt.device(), attempt.numerics_class(),
                                          attempt.build()};
    const auto [found, added] = numbers.emplace(key, absl::StrCat(numbers.size() + 1));
    if (added) {
      runners.AddRow({found->second, key[0], key[1], key[2], key[3]});
    }
    return found->second;
  };
  TextTable tasks({{"TASK", Align::kRight},
                   {"STAGE", Align::kRight},
                   {"INDEX", Align::kRight},
                   {"KIND"},
                   {"MODEL"},
                   {"SEED"},
                   {"STATE"},
                   {"ATTEMPT", Align::kRight},
                   {"BY", Align::kRight},
                   {"OUTCOME"},
                   {"TIME", Align::kRight},
                   {"READINGS", Align::kRight},
                   {"DIGEST"},
                   {"FED IDS"},
                   {"MEASURED FOR"},
                   {"CAUSE"}});
  for (const v1::TaskProvenance& task : provenance.tasks()) {
    const auto add = [&](const v1::TaskAttempt& attempt) {
      tasks.AddRow({absl::StrCat(task.task()), absl::StrCat(task.stage()), absl::StrCat(task.index()),
                    task.kind(), task.model(), absl::StrJoin(task.seeds(), " "), task.state(),
                    Number(attempt.attempt()), by(attempt), attempt.outcome(),
                    HumanSeconds(static_cast<double>(attempt.device_milliseconds()) / 1000),
                    absl::StrCat(task.readings()), ShortHash(task.digest()), ShortHash(task.fed_ids_digest()),
                    task.reused() ? task.measured_for() : "", attempt.cause()});
    };
    for (const v1::TaskAttempt& attempt : task.attempts()) {
      add(attempt);
    }
    if (task.attempts().empty()) {
      add(v1::TaskAttempt());
    }
  }
  if (runners.rows() > 0) {
    absl::StrAppend(&text, "\nWORKERS\n", runners.Render());
  }
  if (tasks.rows() == 0) {
    return text + "\nTASKS\nnone\n";
  }
  return absl::StrCat(text,
                      "\nTASKS (BY: a row of WORKERS; DIGEST: of the task's readings; FED IDS: digest of the "
                      "token ids it fed;\nMEASURED FOR: the experiment that measured it first)\n",
                      tasks.RenderWithin(kTerminalWidth));
}

}  // namespace ropelab::client
