#include "client/connection.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/host_port.h"

namespace ropelab::client {
namespace {

// A list of a study's tasks is the largest answer; everything else is held to 4 MiB by the server.
constexpr int kMaxReceiveBytes = 64 << 20;
constexpr int kConnectMs = 10000;

}  // namespace

absl::Status CheckAddress(const std::string& server) {
  return CheckHostPort("the server's address", server);
}

absl::StatusOr<std::string> CleanToken(const std::string& source, const std::string& text) {
  std::string token(absl::StripAsciiWhitespace(text));
  if (token.empty() || !std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7F; })) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " holds no token: it must be one line of printable ASCII without spaces"));
  }
  return token;
}

Connection::Connection(std::string server, std::string token)
    : server_(std::move(server)), token_(std::move(token)) {}

Connection::Stub& Connection::stub() {
  if (stub_ == nullptr) {
    stub_ = v1::ExperimentService::NewStub(channel());
  }
  return *stub_;
}

Connection::HeadScoreStub& Connection::head_scores() {
  if (head_scores_ == nullptr) {
    head_scores_ = v1::HeadScoreService::NewStub(channel());
  }
  return *head_scores_;
}

const std::shared_ptr<grpc::Channel>& Connection::channel() {
  if (channel_ != nullptr) {
    return channel_;
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  // A server that is stopped, or a host that vanished, ends a call that has no deadline.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
  // The server is a machine of the lab: a proxy for the web knows no way there.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Without a pool of its own a new channel would inherit the old one's back-off.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // By its name a pause; gRPC gives an attempt to connect so long, too. A busy server needs time for its
  // first word.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  channel_ = grpc::CreateCustomChannel(server_, grpc::InsecureChannelCredentials(), arguments);
  return channel_;
}

void Connection::Prepare(grpc::ClientContext* context) const {
  if (!token_.empty()) {
    context->AddMetadata("authorization", absl::StrCat("Bearer ", token_));
  }
}

}  // namespace ropelab::client
