#include "worker/session/options.h"

#include <CLI/CLI.hpp>
#include <string>

#include "common/host_port.h"
#include "common/printable.h"
#include "common/version.h"
#include "worker/session/byte_size.h"
#include "worker/session/cache_dir.h"

namespace ropelab::session {
namespace {

constexpr char kExample[] =
    "Example:\n"
    "  ropelab-worker --server 127.0.0.1:7400 --models ./models\n"
    "serves every checkpoint ./models/NAME (a directory with a config.json) to the server on this host.\n"
    "Commands that need no server (ropelab-worker COMMAND --help explains one):\n"
    "  inspect    tensors of one prompt, as the engine computes them\n"
    "  verify     holds a checkpoint against itself, and against expected.safetensors beside it\n"
    "  tokenize   token ids of texts, a JSON line each\n"
    "  plant      writes a checkpoint whose slash heads are known\n"
    "  numerics   the numerics class of this worker and what it is made of";

std::string CheckServer(const std::string& target) {
  return std::string(CheckHostPort("address", target).message());
}

std::string CheckLabel(const std::string& label) {
  const size_t equals = label.find('=');
  return equals == std::string::npos || equals == 0 ? "'" + label + "' is not KEY=VALUE" : "";
}

std::string CheckId(const std::string& id) {
  constexpr size_t kIdBytes = 200;
  return id.empty() || id.size() > kIdBytes || !IsPlainText(id)
             ? "a name has 1 to 200 bytes of UTF-8 without control characters"
             : "";
}

// Puts the bytes in the text's place.
std::string SizeToBytes(std::string& text) {
  const absl::StatusOr<int64_t> bytes = ParseByteSize(text);
  if (!bytes.ok()) return std::string(bytes.status().message());
  text = std::to_string(*bytes);
  return "";
}

}  // namespace

ParsedCommandLine ParseCommandLine(int argc, char** argv) {
  ParsedCommandLine parsed;
  WorkerOptions& options = parsed.options;
  options.cache_dir = DefaultCacheDir();
  CLI::App app("Measures on the models that it holds, for a ropelab server.", "ropelab-worker");
  app.footer(kExample);
  app.set_version_flag("--version", Build());
  app.add_option("--server", options.server.target, "HOST:PORT of the server")
      ->required()
      ->check(CLI::Validator(CheckServer, "HOST:PORT"));
  app.add_option("--models", options.models, "directories that hold one directory per model")->delimiter(',');
  app.add_option("--device", options.device, "cpu or cuda:N")->capture_default_str();
  app.set_config("--config", "", "read flags from a file, a line each: server=\"127.0.0.1:7400\"")
      ->check(CLI::ExistingFile);
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.add_option("--metrics", options.metrics, "HOST:PORT of /metrics and /healthz, port 0: a free one")
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "threads that compute (default: the CPUs this process may use)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--memory-limit", options.memory_limit,
                 "bytes for models and activations, as in 6g or 500MiB (default: four fifths of the memory)")
      ->transform(CLI::Validator(SizeToBytes, "", "size"))
      ->type_name("SIZE");
  app.add_option("--id", options.id, "this worker's name (default: host/device/number)")
      ->check(CLI::Validator(CheckId, "NAME"));
  app.add_option("--label", options.labels, "KEY=VALUE, shown with the worker; may be repeated")
      ->check(CLI::Validator(CheckLabel, "KEY=VALUE"));
  app.add_option("--cache-dir", options.cache_dir,
                 "where weights hashes and the reports of verify are remembered")
      ->capture_default_str();
  app.add_option("--token-file", options.token_file, "file with the worker's token");
  app.add_option("--tls-ca", options.server.tls_ca,
                 "PEM file of the authority that signed the server's certificate");
  app.add_flag("--insecure", options.server.insecure, "speak in plain text with a server on another host");
  try {
    app.parse(argc, argv);
    parsed.run = true;
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = app.exit(error) == 0 ? 0 : 2;
  }
  return parsed;
}

}  // namespace ropelab::session
