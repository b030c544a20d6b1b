#include "tests/unit/api/fake_worker.h"

#include <utility>

#include "common/sha256.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ropelab::api {
namespace {

using std::chrono::milliseconds;

v1::ModelAnnouncement Tiny(const FakeWorker& worker) {
  v1::ModelAnnouncement model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(name: "tiny" config_hash: "cfg" bytes: 1000
         config { family: "llama" layers: 1 query_heads: 1 kv_heads: 1 head_dim: 4 hidden_size: 4 intermediate_size: 4
                  vocabulary: 50 max_positions: 64 sliding_window: 0 inv_freq: 1 inv_freq: 0.1 bos_token_id: 1
                  dtype: FLOAT32 parameters: 100 })",
      &model));
  model.set_name(worker.model);
  if (worker.knows_weights) {
    model.set_weights_hash(worker.weights_hash);
  }
  model.set_tokenizer_hash(worker.tokenizer_hash);
  model.mutable_config()->set_has_tokenizer(!worker.tokenizer_hash.empty());
  return model;
}

}  // namespace

void FakeLink::Send(v1::ServerMessage message) {
  MutexLock lock(&mutex_);
  messages_.push_back(std::move(message));
  wake_.NotifyAll();
}

void FakeLink::Close(absl::Status status) {
  MutexLock lock(&mutex_);
  closed_ = std::move(status);
  wake_.NotifyAll();
}

std::optional<v1::ServerMessage> FakeLink::Next(v1::ServerMessage::MessageCase kind, milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  MutexLock lock(&mutex_);
  while (true) {
    while (!messages_.empty()) {
      v1::ServerMessage message = std::move(messages_.front());
      messages_.pop_front();
      if (message.message_case() == kind) {
        return message;
      }
    }
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds(0)) {
      return std::nullopt;
    }
    wake_.WaitFor(&mutex_, left);
  }
}

bool FakeLink::Sees(v1::ServerMessage::MessageCase kind, milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  MutexLock lock(&mutex_);
  while (true) {
    for (const v1::ServerMessage& message : messages_) {
      if (message.message_case() == kind) {
        return true;
      }
    }
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds(0)) {
      return false;
    }
    wake_.WaitFor(&mutex_, left);
  }
}

std::optional<absl::Status> FakeLink::WaitClosed(milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  MutexLock lock(&mutex_);
  while (!closed_.has_value()) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds(0)) {
      break;
    }
    wake_.WaitFor(&mutex_, left);
  }
  return closed_;
}

FakeWorker::FakeWorker(Coordinator* coordinator, std::string id, std::string incarnation,
                       std::string numerics_class)
    : coordinator_(coordinator),
      id_(std::move(id)),
      incarnation_(std::move(incarnation)),
      numerics_class_(std::move(numerics_class)) {}

void FakeWorker::Connect(const std::vector<v1::LeaseToken>& held) {
  link_ = std::make_shared<FakeLink>();
  link_id_ = coordinator_->LinkOpened(link_);
  v1::WorkerMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_worker_id(id_);
  hello.set_incarnation(incarnation_);
  hello.set_protocol_first(1);
  hello.set_protocol_last(1);
  hello.set_build("test");
  hello.mutable_numerics()->set_hash(numerics_class_);
  hello.mutable_device()->set_kind("cpu");
  *hello.add_models() = Tiny(*this);
  for (const v1::LeaseToken& token : held) {
    *hello.add_held()->mutable_token() = token;
  }
  Say(std::move(message));
}

void FakeWorker::Disconnect() {
  coordinator_->LinkClosed(link_id_);
}

v1::Welcome FakeWorker::Welcomed() {
  const auto message = link_->Next(v1::ServerMessage::kWelcome);
  EXPECT_TRUE(message.has_value()) << "no Welcome for worker " << id_;
  if (message.has_value()) {
    epoch_ = message->welcome().session_epoch();
  }
  return message.has_value() ? message->welcome() : v1::Welcome();
}

std::optional<v1::Grant> FakeWorker::Granted(milliseconds patience) {
  const auto message = link_->Next(v1::ServerMessage::kGrant, patience);
  return message.has_value() ? std::optional<v1::Grant>(message->grant()) : std::nullopt;
}

void FakeWorker::Say(v1::WorkerMessage message) {
  coordinator_->LinkMessage(link_id_, std::move(message), [] {});
}

void FakeWorker::Reads(const v1::LeaseToken& token, int64_t sequence, const v1::Reading& reading) {
  v1::WorkerMessage message;
  v1::ReadingMessage& said = *message.mutable_reading();
  *said.mutable_token() = token;
  said.set_sequence(sequence);
  said.set_body(reading.SerializeAsString());
  said.set_sha256(Sha256Hex(said.body()));
  Say(std::move(message));
}

void FakeWorker::Completes(const v1::LeaseToken& token, const std::vector<v1::Reading>& readings) {
  std::string digests;
  for (const v1::Reading& reading : readings) {
    digests += Sha256Hex(reading.SerializeAsString());
  }
  v1::WorkerMessage message;
  v1::Completion& completion = *message.mutable_completion();
  *completion.mutable_token() = token;
  completion.set_sequence(static_cast<int64_t>(readings.size()) + 1);
  completion.set_digest(Sha256Hex(digests));
  completion.set_device_milliseconds(3);
  Say(std::move(message));
}

void FakeWorker::Fails(const v1::LeaseToken& token, const std::string& cause, bool permanent) {
  v1::WorkerMessage message;
  *message.mutable_failure()->mutable_token() = token;
  message.mutable_failure()->set_cause(cause);
  message.mutable_failure()->set_permanent(permanent);
  message.mutable_failure()->add_log_tail("the last line before it broke");
  Say(std::move(message));
}

void FakeWorker::HandsBack(const v1::LeaseToken& token) {
  v1::WorkerMessage message;
  *message.mutable_hand_back()->mutable_token() = token;
  Say(std::move(message));
}

void FakeWorker::Accepts(const v1::LeaseToken& token) {
  v1::WorkerMessage message;
  *message.mutable_accepted()->mutable_token() = token;
  Say(std::move(message));
}

void FakeWorker::Beats(const v1::LeaseToken* token) {
  v1::WorkerMessage message;
  message.mutable_heartbeat()->set_phase("measuring");
  if (token != nullptr) {
    *message.mutable_heartbeat()->mutable_token() = *token;
    message.mutable_heartbeat()->set_done(1);
    message.mutable_heartbeat()->set_total(4);
  }
  Say(std::move(message));
}

void FakeWorker::TellsHash(const std::string& model, const std::string& hash, const std::string& problem) {
  v1::WorkerMessage message;
  message.mutable_weights_hash()->set_model(model);
  message.mutable_weights_hash()->set_weights_hash(hash);
  message.mutable_weights_hash()->set_problem(problem);
  Say(std::move(message));
}

bool FakeWorker::Acknowledged(const v1::LeaseToken& token, int64_t sequence) {
  while (const auto message = link_->Next(v1::ServerMessage::kAcknowledgement)) {
    const v1::Acknowledgement& acknowledgement = message->acknowledgement();
    if (acknowledgement.token().task() == token.task() && acknowledgement.sequence() >= sequence) {
      return acknowledgement.sequence() == sequence;
    }
  }
  return false;
}

void FakeWorker::Finishes(const v1::Grant& grant) {
  const std::vector<v1::Reading> readings = ReadingsOf(grant.measurement());
  if (grant.ahead()) {
    Accepts(grant.token());
  }
  for (size_t i = static_cast<size_t>(grant.resume_after()); i < readings.size(); ++i) {
    Reads(grant.token(), static_cast<int64_t>(i) + 1, readings[i]);
  }
  Completes(grant.token(), readings);
}

int FakeWorker::FinishesEverything(milliseconds quiet) {
  int finished = 0;
  while (const auto grant = Granted(quiet)) {
    Finishes(*grant);
    ++finished;
  }
  return finished;
}

std::vector<v1::Reading> ReadingsOf(const v1::Measurement& measurement) {
  std::vector<v1::Reading> readings;
  if (measurement.has_sampling()) {
    const v1::Sampling& sampling = measurement.sampling();
    for (int64_t i = 0; i < sampling.samples().count(); ++i) {
      v1::SampledTokens& sampled = *readings.emplace_back().mutable_sampled_tokens();
      sampled.set_sample(sampling.samples().first_sample() + i);
      for (int64_t t = 0; t < sampling.tokens(); ++t) {
        sampled.mutable_ids()->add_ids(t == 0 ? sampling.bos_token_id() : static_cast<int32_t>((i + t) % 50));
      }
    }
    return readings;
  }
  if (measurement.has_text_lengths()) {
    v1::DocumentLengths& lengths = *readings.emplace_back().mutable_document_lengths();
    for (const int64_t document : measurement.text_lengths().documents()) {
      lengths.add_documents(document);
      lengths.add_tokens(20);
      lengths.add_characters(80);
    }
    return readings;
  }
  const v1::SlashProfile& profile = measurement.slash_profile();
  // In two readings, so that an attempt can stop between them: first one offset, then the others.
  for (const int64_t first : {profile.first_offset(), profile.first_offset() + 1}) {
    v1::SlashBlock& block = *readings.emplace_back().mutable_slash_block();
    const int64_t last = first == profile.first_offset() ? first : profile.last_offset();
    block.set_heads(1);
    block.set_first_offset(first);
    block.set_offsets(last - first + 1);
    block.set_prompts(profile.prompts().samples().count());
    for (int64_t offset = first; offset <= last; ++offset) {
      block.add_mean(1.0 / static_cast<double>(2 + offset + profile.prompts().samples().first_sample()));
      block.add_m2(0.25);
    }
  }
  return readings;
}

}  // namespace ropelab::api
