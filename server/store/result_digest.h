// One digest for all that an experiment found.
#pragma once

#include <string>
#include <vector>

#include "server/store/results.h"

namespace ropelab::store {

// SHA-256 over the tables in name order (name, columns, then every cell: a null flag, then 8 bytes
// little-endian or a length-prefixed text) and the artifacts in name order (name, sha256). The experiment's
// id is not in it: equal runs are equal.
std::string ResultDigest(const std::vector<ResultTable>& tables,
                         const std::vector<ResultArtifact>& artifacts);

}  // namespace ropelab::store
