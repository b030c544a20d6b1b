// Which models exist, and their weights hashes: asked for when a spec first needs one.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "server/api/coordinator_impl.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {

schedule::SessionModel SessionModelOf(const v1::ModelAnnouncement& model) {
  return {model.name(), model.weights_hash(), model.config_hash(), model.tokenizer_hash()};
}

void CoordinatorImpl::LearnModels(const v1::Hello& hello) {
  for (const v1::ModelAnnouncement& model : hello.models()) {
    LearnModel(model, hello.worker_id());
  }
}

void CoordinatorImpl::LearnModel(const v1::ModelAnnouncement& model, const std::string& worker) {
  auto row = std::find_if(catalogue_.begin(), catalogue_.end(), [&](const store::ModelRow& known) {
    return known.announcement.name() == model.name() &&
           known.announcement.config_hash() == model.config_hash() &&
           known.announcement.tokenizer_hash() == model.tokenizer_hash() &&
           (known.announcement.weights_hash() == model.weights_hash() ||
            known.announcement.weights_hash().empty());
  });
  if (row == catalogue_.end()) {
    row = catalogue_.emplace(catalogue_.end());
  }
  v1::ModelAnnouncement learnt = model;
  if (!learnt.has_verification() && row->announcement.has_verification() &&
      row->announcement.weights_hash() == model.weights_hash()) {
    *learnt.mutable_verification() = row->announcement.verification();
  }
  row->announcement = std::move(learnt);
  row->last_seen_us = WallNow();
  row->last_worker = worker;
}

const v1::ModelAnnouncement* CoordinatorImpl::KnownModel(const ModelLine& wanted) const {
  const store::ModelRow* newest = nullptr;
  for (const store::ModelRow& row : catalogue_) {
    const v1::ModelAnnouncement& known = row.announcement;
    if (known.name() == wanted.name &&
        (!wanted.tokenizer_hash.has_value() || known.tokenizer_hash() == *wanted.tokenizer_hash) &&
        (wanted.weights_hash.empty() || known.weights_hash() == wanted.weights_hash) &&
        (newest == nullptr || row.last_seen_us >= newest->last_seen_us)) {
      newest = &row;
    }
  }
  if (newest == nullptr || !wanted.weights_hash.empty()) {
    return newest == nullptr ? nullptr : &newest->announcement;
  }
  // Without a hash: the model whose directory was seen last, if it has exactly one.
  const v1::ModelAnnouncement* found = nullptr;
  for (const store::ModelRow& row : catalogue_) {
    const v1::ModelAnnouncement& known = row.announcement;
    if (known.name() == wanted.name && known.config_hash() == newest->announcement.config_hash() &&
        known.tokenizer_hash() == newest->announcement.tokenizer_hash() && !known.weights_hash().empty()) {
      if (found != nullptr) {
        return nullptr;
      }
      found = &known;
    }
  }
  return found;
}

// Where a connected worker holds a model of this name beside another tokenizer than the one that the
// experiment was resolved with: who, and what to do.
std::string CoordinatorImpl::HeldOtherwise(const ModelLine& wanted) const {
  constexpr size_t kDigits = 16;
  const auto shown = [](const std::string& hash) { return hash.empty() ? "none" : hash.substr(0, kDigits); };
  for (const auto& [id, link] : links_) {
    const auto model = link.models.find(wanted.name);
    if (wanted.tokenizer_hash.has_value() && model != link.models.end() &&
        model->second.tokenizer_hash() != *wanted.tokenizer_hash) {
      return absl::StrCat(" with tokenizer ", shown(*wanted.tokenizer_hash), "; worker ",
                          link.hello.worker_id(), " has it with ", shown(model->second.tokenizer_hash()),
                          ": put that tokenizer.json back, or cancel and submit again");
    }
  }
  return "";
}

std::string CoordinatorImpl::LastSeen(const std::string& model) const {
  const store::ModelRow* newest = nullptr;
  for (const store::ModelRow& row : catalogue_) {
    if (row.announcement.name() == model && (newest == nullptr || row.last_seen_us > newest->last_seen_us)) {
      newest = &row;
    }
  }
  return newest == nullptr ? "" : absl::StrCat(" (seen last on worker ", newest->last_worker, ")");
}

void CoordinatorImpl::AskForHash(Link& link, const std::string& model) {
  if (!link.hashes_asked.insert(model).second) {
    return;
  }
  spdlog::info("asking worker {} for the weights hash of {}", link.hello.worker_id(), model);
  v1::ServerMessage message;
  message.mutable_hash_request()->set_model(model);
  link.stream->Send(std::move(message));
}

void CoordinatorImpl::SettleModels() {
  std::vector<int64_t> ids;
  for (const auto& [id, entry] : experiments_) {
    ids.push_back(id);
  }
  for (const int64_t id : ids) {
    if (LiveEntry* entry = FindEntry(id); entry != nullptr && !entry->ending) {
      SettleModelsOf(*entry);
    }
  }
}

// True if this worker could be asked for the hash of `name`: it announced it loadable and without one.
bool CoordinatorImpl::LacksHash(const Link& link, const std::string& name) const {
  const auto model = link.models.find(name);
  return link.state == schedule::SessionState::kActive && model != link.models.end() &&
         model->second.weights_hash().empty() && model->second.problem().empty() &&
         !link.hash_problems.contains(name);
}

void CoordinatorImpl::SettleModelsOf(LiveEntry& entry) {
  if (entry.phase != LiveEntry::Phase::kHashing) {
    // Planned already: every worker that may hold the model is worth asking, since only a known hash makes it
    // eligible.
    for (auto& [id, link] : links_) {
      for (const ModelLine& model : entry.models) {
        if (LacksHash(link, model.name)) {
          AskForHash(link, model.name);
        }
      }
    }
    return;
  }
  bool all_known = true;
  for (ModelLine& model : entry.models) {
    if (const v1::ModelAnnouncement* known = KnownModel(model); known != nullptr) {
      model.weights_hash = known->weights_hash();
      continue;
    }
    all_known = false;
    Link* asked = nullptr;
    std::string problem;
    for (auto& [id, link] : links_) {
      if (LacksHash(link, model.name) && (asked == nullptr || link.hashes_asked.contains(model.name))) {
        asked = &link;
      }
      if (const auto failed = link.hash_problems.find(model.name); failed != link.hash_problems.end()) {
        problem = absl::StrCat("worker ", link.hello.worker_id(), " cannot hash the weights of ", model.name,
                               ": ", failed->second);
      }
    }
    if (asked != nullptr) {
      AskForHash(*asked, model.name);
      SetReason(entry,
                absl::StrCat("hashing weights of ", model.name, " on worker ", asked->hello.worker_id()));
    } else if (!problem.empty()) {
      FailExperiment(entry.row.id, problem);
      return;
    } else {
      const std::string otherwise = HeldOtherwise(model);
      SetReason(entry, absl::StrCat("no connected worker holds model ", model.name,
                                    otherwise.empty() ? LastSeen(model.name) : otherwise));
    }
  }
  if (!all_known) {
    return;
  }
  // Known: the hash becomes durable with the state, then the first stage is planned.
  entry.phase = LiveEntry::Phase::kPlanning;
  SetReason(entry, "");
  std::string lines;
  for (const ModelLine& model : entry.models) {
    absl::StrAppend(&lines, lines.empty() ? "" : "\n", FormatModelLine(model));
  }
  const int64_t id = entry.row.id;
  const bool was_waiting = entry.row.state == "waiting";
  WriteDurably(
      [id, lines, was_waiting, now_us = WallNow()](store::Connection& db) -> absl::Status {
        ROPELAB_RETURN_IF_ERROR(store::SetExperimentModels(db, id, lines));
        return was_waiting ? store::SetExperimentState(db, id, "queued", "", now_us).status()
                           : absl::OkStatus();
      },
      [this, id](absl::Status status) {
        LiveEntry* settled = FindEntry(id);
        if (settled == nullptr || settled->ending) {
          return;
        }
        if (!status.ok()) {
          FailExperiment(id, std::string(status.message()));
          return;
        }
        if (settled->row.state == "waiting") {
          settled->row.state = "queued";
        }
        NotifyChanged(id);
        SettleModelsOf(*settled);
        this->Advance(*settled);
      });
}

void CoordinatorImpl::OnWeightsHash(Link& link, const v1::WeightsHash& hash) {
  const auto model = link.models.find(hash.model());
  if (model == link.models.end()) {
    spdlog::warn("worker {} hashed model {}, which it never announced", link.hello.worker_id(), hash.model());
    return;
  }
  link.hashes_asked.erase(hash.model());
  if (hash.weights_hash().empty() || !IsPlainText(hash.weights_hash()) || !IsPlainText(hash.config_hash())) {
    const std::string problem =
        hash.problem().empty() ? "it sent no hash that can be read" : Printable(hash.problem(), 2000);
    link.hash_problems[hash.model()] = problem;
    scheduler_.CannotHash(link.epoch, hash.model());
    spdlog::warn("worker {} cannot hash the weights of {}: {}", link.hello.worker_id(), hash.model(),
                 problem);
    SettleModels();
    return;
  }
  v1::ModelAnnouncement announcement = model->second;
  announcement.set_weights_hash(hash.weights_hash());
  if (!hash.config_hash().empty()) {
    announcement.set_config_hash(hash.config_hash());
  }
  if (hash.has_verification()) {
    *announcement.mutable_verification() = hash.verification();
  }
  const std::string worker = link.hello.worker_id();
  WriteDurably([announcement, worker, now_us = WallNow()](
                   store::Connection& db) { return store::RecordModel(db, announcement, worker, now_us); },
               [this, announcement, worker, id = link.id](absl::Status status) {
                 if (!status.ok()) {
                   spdlog::error("the weights hash of {} cannot be recorded: {}", announcement.name(),
                                 std::string(status.message()));
                   return;
                 }
                 spdlog::info("weights of {} on worker {}: {}", announcement.name(), worker,
                              announcement.weights_hash());
                 LearnModel(announcement, worker);
                 if (Link* holder = FindLink(id); holder != nullptr) {
                   holder->models[announcement.name()] = announcement;
                   scheduler_.AddModel(holder->epoch, SessionModelOf(announcement));
                 }
                 SettleModels();
               });
}

}  // namespace ropelab::api
