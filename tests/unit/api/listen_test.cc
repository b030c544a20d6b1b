#include "server/api/listen.h"

#include <future>

#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"

namespace ropelab::api {
namespace {

using testing::HasSubstr;

Listening ListenSomewhere() {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  absl::StatusOr<Listening> listening = Listen(options, {});
  EXPECT_TRUE(listening.ok()) << listening.status().ToString();
  return *std::move(listening);
}

std::string Bytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

TEST(Listen, GivesThePortThatItTook) {
  const Listening listening = ListenSomewhere();
  EXPECT_THAT(listening.address, testing::StartsWith("127.0.0.1:"));
  EXPECT_NE(listening.address, "127.0.0.1:0");
}

TEST(Listen, ASecondServerOnThePortIsRefusedByAddress) {
  const Listening first = ListenSomewhere();
  ServerOptions options;
  options.listen = first.address;
  const absl::StatusOr<Listening> second = Listen(options, {});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(first.address));
}

TEST(Listen, ThePortIsFreeAsSoonAsTheServerIsGone) {
  Listening first = ListenSomewhere();
  ServerOptions options;
  options.listen = first.address;
  const auto channel = grpc::CreateChannel(first.address, grpc::InsecureChannelCredentials());
  EXPECT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(5)));
  first.server->Shutdown(std::chrono::system_clock::now());
  first.server.reset();
  EXPECT_TRUE(Listen(options, {}).ok())
      << "the server closed first, so its side of the connection is in TIME_WAIT";
}

TEST(Listen, AnUnreadableCertificateIsNamed) {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.tls_cert = "/no/such/cert.pem";
  options.tls_key = "/no/such/key.pem";
  EXPECT_THAT(std::string(Listen(options, {}).status().message()), HasSubstr("--tls-cert /no/such/cert.pem"));
}

// One unary call to `method`, which needs no generated stub.
std::string CallRaw(const std::string& address, const std::string& method, const std::string& request) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  grpc::Slice slice(request);
  const grpc::ByteBuffer sent(&slice, 1);
  grpc::ByteBuffer received;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &sent, &received,
                 [&](grpc::Status status) { done.set_value(std::move(status)); });
  const grpc::Status status = done.get_future().get();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return status.ok() ? Bytes(received) : "";
}

TEST(Listen, AnswersTheHealthProtocol) {
  const Listening listening = ListenSomewhere();
  // grpc.health.v1.HealthCheckResponse { status: SERVING (1) or NOT_SERVING (2) }
  EXPECT_EQ(CallRaw(listening.address, "/grpc.health.v1.Health/Check", ""), std::string("\x08\x01"));
  listening.server->GetHealthCheckService()->SetServingStatus(false);
  EXPECT_EQ(CallRaw(listening.address, "/grpc.health.v1.Health/Check", ""), std::string("\x08\x02"));
}

TEST(Listen, ReflectionListsServices) {
  const Listening listening = ListenSomewhere();
  // grpc.reflection.v1alpha.ServerReflectionRequest { list_services: "" }; a stream of one message each way
  // reads like a call.
  const std::string answer =
      CallRaw(listening.address, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              std::string("\x3a\x00", 2));
  EXPECT_THAT(answer, HasSubstr("grpc.health.v1.Health"));
}

}  // namespace
}  // namespace ropelab::api
