// A worker that is a script: it says on its link what a test wants and answers tasks with made-up but
// well-formed readings.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "ropelab/v1/reading.pb.h"
#include "ropelab/v1/worker_service.pb.h"
#include "server/api/coordinator.h"

namespace ropelab::api {

// What the coordinator sends, kept for the test.
class FakeLink : public WorkerLink {
 public:
  void Send(v1::ServerMessage message) override;
  void Close(absl::Status status) override;
  // The next message of this kind, dropping others before it; nullopt after `patience`.
  std::optional<v1::ServerMessage> Next(v1::ServerMessage::MessageCase kind,
                                        std::chrono::milliseconds patience = std::chrono::seconds(5));
  // Whether a message of this kind is there, or comes within `patience`; takes nothing.
  bool Sees(v1::ServerMessage::MessageCase kind, std::chrono::milliseconds patience);
  std::optional<absl::Status> WaitClosed(std::chrono::milliseconds patience = std::chrono::seconds(5));

 private:
  Mutex mutex_;
  CondVar wake_;
  std::deque<v1::ServerMessage> messages_;
  std::optional<absl::Status> closed_;
};

class FakeWorker {
 public:
  FakeWorker(Coordinator* coordinator, std::string id, std::string incarnation,
             std::string numerics_class = "c1");
  // Opens a stream and says Hello; `held` are tokens with the last sequence sent.
  void Connect(const std::vector<v1::LeaseToken>& held = {});
  void Disconnect();
  v1::Welcome Welcomed();
  std::optional<v1::Grant> Granted(std::chrono::milliseconds patience = std::chrono::seconds(5));
  void Say(v1::WorkerMessage message);
  void Reads(const v1::LeaseToken& token, int64_t sequence, const v1::Reading& reading);
  void Completes(const v1::LeaseToken& token, const std::vector<v1::Reading>& readings);
  void Fails(const v1::LeaseToken& token, const std::string& cause, bool permanent);
  void HandsBack(const v1::LeaseToken& token);
  void Accepts(const v1::LeaseToken& token);
  void Beats(const v1::LeaseToken* token = nullptr);
  void TellsHash(const std::string& model, const std::string& hash, const std::string& problem = "");
  // Waits for the acknowledgement of this sequence.
  bool Acknowledged(const v1::LeaseToken& token, int64_t sequence);
  // All readings and the completion of a grant, and their acknowledgement.
  void Finishes(const v1::Grant& grant);
  // Takes grants and finishes them until none comes for `quiet`. Returns how many.
  int FinishesEverything(std::chrono::milliseconds quiet = std::chrono::milliseconds(400));
  FakeLink& link() { return *link_; }
  int64_t epoch() const { return epoch_; }

  // What it announces: one model.
  std::string model = "tiny", weights_hash = "weights", tokenizer_hash;
  bool knows_weights = true;  // announce the weights hash with the model

 private:
  Coordinator* coordinator_;
  std::string id_, incarnation_, numerics_class_;
  std::shared_ptr<FakeLink> link_;
  int64_t link_id_ = 0, epoch_ = 0;
};

// What a worker of one layer, one head and offsets 0 to 4 would give for a task: numbers that depend on the
// task alone. Every document has 20 tokens.
std::vector<v1::Reading> ReadingsOf(const v1::Measurement& measurement);

}  // namespace ropelab::api
