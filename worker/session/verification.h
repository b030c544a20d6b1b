// Reports of the parity gate beside the worker's other caches: `ropelab-worker verify` writes one, the worker
// sends it along with the weights hash, the server prints it in provenance.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "ropelab/v1/model.pb.h"

namespace ropelab::session {

// <cache_dir>/verification-<weights hash>-<config hash>-<engine version>.json.
std::string VerificationPath(const std::string& cache_dir, const std::string& weights_hash,
                             const std::string& config_hash, const std::string& engine_version);

// Replaces an older report in one step; makes the directory. The file is a JSON object: format, weights_hash,
// config_hash and the message. Errors name the file.
absl::Status WriteVerification(const std::string& cache_dir, const std::string& weights_hash,
                               const std::string& config_hash, const v1::Verification& verification);

// Names, sizes and times of all reports there, in order of name: differs when one came, went or was replaced.
std::string VerificationsStamp(const std::string& cache_dir);

// The report of these weights and this config by this engine. Nothing where there is none. One that is
// damaged, too large or of another model counts as none, with a warning in the log that names the file.
std::optional<v1::Verification> ReadVerification(const std::string& cache_dir,
                                                 const std::string& weights_hash,
                                                 const std::string& config_hash);

}  // namespace ropelab::session
