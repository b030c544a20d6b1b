#include "worker/session/credentials.h"

#include <grpc/support/log.h>

#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "spdlog/spdlog.h"

namespace ropelab::session {
namespace {

constexpr int kMostMessageBytes = 4 << 20;

absl::StatusOr<std::string> ReadWhole(const std::string& path, const std::string& flag) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": cannot be read or is empty"));
  }
  return text.str();
}

}  // namespace

bool IsLoopback(const std::string& target) {
  const std::string host = target.substr(0, target.rfind(':'));
  return host == "localhost" || host == "[::1]" || absl::StartsWith(host, "127.");
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const ServerAddress& address) {
  if (!address.tls_ca.empty()) {
    grpc::SslCredentialsOptions options;
    ROPELAB_ASSIGN_OR_RETURN(options.pem_root_certs, ReadWhole(address.tls_ca, "--tls-ca"));
    return grpc::SslCredentials(options);
  }
  if (!IsLoopback(address.target) && !address.insecure) {
    return absl::InvalidArgumentError(
        absl::StrCat("--server ", address.target,
                     " is not on this host: give --tls-ca FILE, or --insecure to speak in plain text"));
  }
  return grpc::InsecureChannelCredentials();
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target,
                                           const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostMessageBytes);
  arguments.SetMaxSendMessageSize(kMostMessageBytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

void RouteGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args* line) { spdlog::debug("grpc: {}", line->message); });
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  ROPELAB_ASSIGN_OR_RETURN(const std::string text, ReadWhole(path, "--token-file"));
  return std::string(absl::StripAsciiWhitespace(text));
}

}  // namespace ropelab::session
