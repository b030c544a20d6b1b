#include "server/api/server_options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "server/api/address.h"

namespace ropelab::api {
namespace {

constexpr int kUsage = 2;

void AddFlags(CLI::App& app, ServerOptions& options) {
  app.set_version_flag("--version", Build());
  app.set_config("--config", "", "Read flags from a file, a line each: listen=\"127.0.0.1:7400\"")
      ->check(CLI::ExistingFile);
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.add_option("--data-dir", options.data_dir, "Where the database and the artifacts live")->required();
  app.add_option("--listen", options.listen, "Address for clients and workers; port 0 takes a free one")
      ->capture_default_str();
  app.add_option("--metrics", options.metrics, "Address of /metrics and /healthz (IPv4)")
      ->capture_default_str();
  app.add_option(
         "--corpora", options.corpora,
         "Folder whose *.txt and *.jsonl files and sub-folders of *.txt files are corpora, each by its stem")
      ->check(CLI::ExistingDirectory);
  app.add_option("--tls-cert", options.tls_cert, "The server's certificate chain, PEM")
      ->check(CLI::ExistingFile);
  app.add_option("--tls-key", options.tls_key, "Its private key, PEM")->check(CLI::ExistingFile);
  app.add_option("--tls-client-ca", options.tls_client_ca, "Demand client certificates signed by these, PEM")
      ->check(CLI::ExistingFile);
  app.add_flag("--insecure", options.insecure, "Accept that whoever reaches the address may do everything");
  app.add_option("--lease-seconds", options.lease_seconds, "How long a silent worker keeps its task")
      ->capture_default_str();
  app.add_option("--heartbeat-seconds", options.heartbeat_seconds,
                 "Between two heartbeats of a worker; a sixth of the lease when left out");
  app.add_option("--max-attempts", options.max_attempts, "Attempts that may fail before a task is given up")
      ->capture_default_str();
  app.add_option("--keep-readings", options.keep_readings_days,
                 "Days that readings are kept; left out: for ever");
  app.footer("Example: ropelab-server --data-dir /var/lib/ropelab --listen 127.0.0.1:7400");
}

absl::Status CheckTls(const ServerOptions& options, const Address& listen) {
  const bool tls = !options.tls_cert.empty();
  if (tls != !options.tls_key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key go together: give both or neither");
  }
  if (!options.tls_client_ca.empty() && !tls) {
    return absl::InvalidArgumentError(
        "--tls-client-ca checks TLS clients: it needs --tls-cert and --tls-key");
  }
  if (listen.IsLoopback() || options.insecure) {
    return absl::OkStatus();
  }
  if (!tls) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--listen ", options.listen,
        " is reachable from other hosts, and nothing would be encrypted or checked: listen on 127.0.0.1, or "
        "say --insecure if everyone who reaches this address may submit and cancel"));
  }
  return absl::InvalidArgumentError(absl::StrCat("--listen ", options.listen,
                                                 " is reachable from other hosts; TLS would encrypt, but "
                                                 "this version has no bearer tokens, so users are not "
                                                 "told apart: listen on 127.0.0.1, or say --insecure if "
                                                 "everyone who can connect may submit and cancel"));
}

absl::Status CheckTimes(const ServerOptions& options) {
  if (!(options.lease_seconds >= 0.1 && options.lease_seconds <= 86400)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--lease-seconds ", options.lease_seconds, ": 0.1 to 86400 seconds are possible"));
  }
  if (!(options.heartbeat_seconds >= 0 && std::isfinite(options.heartbeat_seconds))) {
    return absl::InvalidArgumentError(
        absl::StrCat("--heartbeat-seconds ", options.heartbeat_seconds, ": a number above 0 is needed"));
  }
  // In milliseconds, as it travels.
  const CoordinatorOptions times = CoordinatorOptionsOf(options);
  if (times.heartbeat_ms < 1 || times.heartbeat_ms * 3 > times.lease_ms) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--heartbeat-seconds ", options.heartbeat_seconds, ": at most a third of the lease (",
        options.lease_seconds / 3, " s) and at least 0.001 s, so that two lost ones cost no lease"));
  }
  return absl::OkStatus();
}

}  // namespace

std::variant<ServerOptions, int> ParseServerOptions(int argc, char** argv) {
  ServerOptions options;
  CLI::App app("Plans experiments on attention heads, leases their tasks to workers and keeps the results.",
               "ropelab-server");
  AddFlags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  return options;
}

absl::Status CheckServerOptions(const ServerOptions& options) {
  ROPELAB_ASSIGN_OR_RETURN(const Address listen, ParseAddress("--listen", options.listen));
  ROPELAB_RETURN_IF_ERROR(ParseAddress("--metrics", options.metrics).status());
  ROPELAB_RETURN_IF_ERROR(CheckTls(options, listen));
  ROPELAB_RETURN_IF_ERROR(CheckTimes(options));
  if (options.max_attempts < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-attempts ", options.max_attempts, ": a task needs at least 1 attempt"));
  }
  if (!(options.keep_readings_days >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--keep-readings ", options.keep_readings_days, ": a number of days is needed"));
  }
  return absl::OkStatus();
}

CoordinatorOptions CoordinatorOptionsOf(const ServerOptions& options) {
  CoordinatorOptions result;
  result.lease_ms = std::llround(options.lease_seconds * 1000);
  const double heartbeat =
      options.heartbeat_seconds > 0 ? options.heartbeat_seconds : options.lease_seconds / 6;
  result.heartbeat_ms = std::llround(heartbeat * 1000);
  result.max_attempts = options.max_attempts;
  return result;
}

}  // namespace ropelab::api
