// How a client knows that a server speaks, and not the connection to it.
#pragma once

namespace ropelab {

// The binary details of an UNAVAILABLE that a server sent itself. One that gRPC makes up, because nobody was
// reached or the connection broke, has none.
inline constexpr char kFromServer[] = "ropelab.from-server";

}  // namespace ropelab
