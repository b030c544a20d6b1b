// The stream over a real channel: what the reactor hands to the coordinator and back.
#include "server/api/worker_service.h"

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "ropelab/v1/worker_service.grpc.pb.h"

namespace ropelab::api {
namespace {

// Keeps what it is handed; a test consumes messages when it likes.
class RecordingCoordinator : public Coordinator {
 public:
  absl::Status Start() override { return absl::OkStatus(); }
  void Stop() override {}
  void ExperimentSubmitted(int64_t) override {}
  void Cancel(int64_t, const std::string&, absl::AnyInvocable<void(absl::Status)>) override {}
  LiveExperiment Live(int64_t) override { return {}; }
  std::vector<v1::ConnectedWorker> Workers() override { return {}; }
  std::vector<Holding> Holdings() override { return {}; }
  int64_t Subscribe(int64_t, std::function<void()>) override { return 0; }
  void Unsubscribe(int64_t) override {}
  int64_t LinkOpened(std::shared_ptr<WorkerLink> link) override {
    MutexLock lock(&mutex_);
    link_ = std::move(link);
    return 17;
  }
  void LinkMessage(int64_t link, v1::WorkerMessage message, std::function<void()> consumed) override {
    EXPECT_EQ(link, 17);
    MutexLock lock(&mutex_);
    messages_.push_back(std::move(message));
    consumed_.push_back(std::move(consumed));
  }
  void LinkClosed(int64_t link) override {
    EXPECT_EQ(link, 17);
    MutexLock lock(&mutex_);
    closed_ = true;
  }

  size_t messages() {
    MutexLock lock(&mutex_);
    return messages_.size();
  }
  bool closed() {
    MutexLock lock(&mutex_);
    return closed_;
  }
  std::shared_ptr<WorkerLink> link() {
    MutexLock lock(&mutex_);
    return link_;
  }
  void ConsumeOne() {
    std::function<void()> consumed;
    {
      MutexLock lock(&mutex_);
      ASSERT_FALSE(consumed_.empty());
      consumed = std::move(consumed_.front());
      consumed_.pop_front();
    }
    consumed();
  }

 private:
  Mutex mutex_;
  std::shared_ptr<WorkerLink> link_;
  std::vector<v1::WorkerMessage> messages_;
  std::deque<std::function<void()>> consumed_;
  bool closed_ = false;
};

class WorkerServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    ServiceContext context;
    context.coordinator = &coordinator_;
    service_ = MakeWorkerService(context);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::WorkerService::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    stream_ = stub_->Connect(&context_);
  }
  void TearDown() override { server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1)); }

  static bool Eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 1000; ++i) {
      if (holds()) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  static v1::WorkerMessage Draining() {
    v1::WorkerMessage message;
    message.mutable_draining();
    return message;
  }

  RecordingCoordinator coordinator_;
  std::unique_ptr<v1::WorkerService::CallbackService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::ServerMessage>> stream_;
};

TEST_F(WorkerServiceTest, ReadsTheNextMessageOnlyWhenTheLastWasConsumed) {
  ASSERT_TRUE(stream_->Write(Draining()));
  ASSERT_TRUE(stream_->Write(Draining()));
  ASSERT_TRUE(Eventually([&] { return coordinator_.messages() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(coordinator_.messages(), 1u);
  coordinator_.ConsumeOne();
  EXPECT_TRUE(Eventually([&] { return coordinator_.messages() == 2; }));
}

TEST_F(WorkerServiceTest, WritesInOrderAndClosesAfterWhatIsQueued) {
  ASSERT_TRUE(Eventually([&] { return coordinator_.link() != nullptr; }));
  for (int i = 1; i <= 100; ++i) {
    v1::ServerMessage message;
    message.mutable_acknowledgement()->set_sequence(i);
    coordinator_.link()->Send(std::move(message));
  }
  coordinator_.link()->Close(absl::UnavailableError("restarting"));
  v1::ServerMessage message;
  for (int i = 1; i <= 100; ++i) {
    ASSERT_TRUE(stream_->Read(&message)) << i;
    EXPECT_EQ(message.acknowledgement().sequence(), i);
  }
  EXPECT_FALSE(stream_->Read(&message));
  const grpc::Status status = stream_->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "restarting");
}

TEST_F(WorkerServiceTest, AClientThatVanishesClosesItsLink) {
  ASSERT_TRUE(stream_->Write(Draining()));
  ASSERT_TRUE(Eventually([&] { return coordinator_.messages() == 1; }));
  context_.TryCancel();
  EXPECT_TRUE(Eventually([&] { return coordinator_.closed(); }));
  coordinator_.ConsumeOne();  // late, after the stream ended: does nothing
  coordinator_.link()->Send(v1::ServerMessage());
  coordinator_.link()->Close(absl::OkStatus());
}

TEST_F(WorkerServiceTest, AHalfClosedStreamIsEnded) {
  stream_->WritesDone();
  v1::ServerMessage message;
  EXPECT_FALSE(stream_->Read(&message));
  EXPECT_TRUE(stream_->Finish().ok());
  EXPECT_TRUE(coordinator_.closed());
}

}  // namespace
}  // namespace ropelab::api
