#include "server/api/listen.h"

#include <grpc/support/log.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "server/api/address.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

constexpr int kMessageBytes = 4 << 20;

absl::StatusOr<std::string> ReadPem(const std::string& flag, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, " cannot be read, or is empty"));
  }
  return text.str();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> Credentials(const ServerOptions& options) {
  if (options.tls_cert.empty()) {
    return grpc::InsecureServerCredentials();
  }
  grpc::SslServerCredentialsOptions tls;
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  ROPELAB_ASSIGN_OR_RETURN(pair.cert_chain, ReadPem("--tls-cert", options.tls_cert));
  ROPELAB_ASSIGN_OR_RETURN(pair.private_key, ReadPem("--tls-key", options.tls_key));
  tls.pem_key_cert_pairs.push_back(std::move(pair));
  if (!options.tls_client_ca.empty()) {
    ROPELAB_ASSIGN_OR_RETURN(tls.pem_root_certs, ReadPem("--tls-client-ca", options.tls_client_ca));
    tls.client_certificate_request = GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  return grpc::SslServerCredentials(tls);
}

void SetLimits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMessageBytes);
  builder.SetMaxSendMessageSize(kMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 256);  // of one connection
  // Two servers on one port would each get half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A peer that vanished without a word is noticed after 20 s, idle connections too.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Workers and clients may ping as often.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
}

void LogFromGrpc(gpr_log_func_args* line) {
  spdlog::debug("grpc: {}", line->message);
}

}  // namespace

void RouteGrpcLog() {
  gpr_set_log_function(&LogFromGrpc);
}

absl::StatusOr<Listening> Listen(const ServerOptions& options, const std::vector<grpc::Service*>& services) {
  ROPELAB_ASSIGN_OR_RETURN(Address address, ParseAddress("--listen", options.listen));
  ROPELAB_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ServerCredentials> credentials, Credentials(options));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetLimits(builder);
  int bound = 0;
  builder.AddListeningPort(address.Text(), credentials, &bound);
  for (grpc::Service* service : services) {
    builder.RegisterService(service);
  }
  Listening listening;
  listening.server = builder.BuildAndStart();
  if (listening.server == nullptr || bound == 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", address.Text(),
        ": either another process (a second ropelab-server?) has the port, or the host is not an "
        "address of this machine",
        options.tls_cert.empty() ? "" : ", or the certificate and the key do not fit",
        "; --listen names another address, and port 0 takes a free one"));
  }
  address.port = bound;
  listening.address = address.Text();
  return listening;
}

}  // namespace ropelab::api
