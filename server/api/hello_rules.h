// What the server takes from a worker that introduces itself. Pure.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "ropelab/v1/worker_service.pb.h"

namespace ropelab::api {

inline constexpr int32_t kProtocol = 1;

// Why this Hello is refused: a name that is missing, too long or no plain text; a protocol that is not spoken
// here; no numerics class; too much held or announced.
absl::Status CheckHello(const v1::Hello& hello);

// Takes out announcements whose names are no plain text (they would break lists that are a line each), and
// gives a problem to each whose configuration cannot be: planners multiply these numbers.
void CheckAnnouncements(v1::Hello& hello);

}  // namespace ropelab::api
