#include "server/api/server_options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/api/address.h"

namespace ropelab::api {
namespace {

using testing::HasSubstr;

std::string Refusal(const ServerOptions& options) {
  return std::string(CheckServerOptions(options).message());
}

TEST(ServerOptions, DefaultsAreALoopbackServerWithASixthOfTheLeaseAsHeartbeat) {
  ServerOptions options;
  EXPECT_EQ(Refusal(options), "");
  EXPECT_EQ(CoordinatorOptionsOf(options).lease_ms, 30000);
  EXPECT_EQ(CoordinatorOptionsOf(options).heartbeat_ms, 5000);
}

TEST(ServerOptions, FractionsOfASecondAreKept) {
  ServerOptions options;
  options.lease_seconds = 1.5;
  EXPECT_EQ(Refusal(options), "");
  EXPECT_EQ(CoordinatorOptionsOf(options).lease_ms, 1500);
  EXPECT_EQ(CoordinatorOptionsOf(options).heartbeat_ms, 250);
}

TEST(ServerOptions, AHeartbeatOverAThirdOfTheLeaseIsRefused) {
  ServerOptions options;
  options.lease_seconds = 3;
  options.heartbeat_seconds = 1;
  EXPECT_EQ(Refusal(options), "");
  options.heartbeat_seconds = 1.01;
  EXPECT_THAT(Refusal(options), HasSubstr("--heartbeat-seconds 1.01"));
}

TEST(ServerOptions, OtherHostsAreLetInOnlyWhenInsecureIsSaid) {
  ServerOptions options;
  options.listen = "0.0.0.0:7400";
  EXPECT_THAT(Refusal(options), HasSubstr("--insecure"));
  options.tls_cert = "c.pem";
  options.tls_key = "k.pem";
  EXPECT_THAT(Refusal(options), HasSubstr("no bearer tokens"));
  options.insecure = true;
  EXPECT_EQ(Refusal(options), "");
}

TEST(ServerOptions, TlsFilesComeInPairs) {
  ServerOptions options;
  options.tls_cert = "c.pem";
  EXPECT_THAT(Refusal(options), HasSubstr("--tls-key"));
  options = ServerOptions();
  options.tls_client_ca = "ca.pem";
  EXPECT_THAT(Refusal(options), HasSubstr("--tls-client-ca"));
}

TEST(Address, KnowsWhatIsLoopback) {
  for (const char* local : {"127.0.0.1:1", "127.8.9.10:1", "localhost:1", "[::1]:1"}) {
    EXPECT_TRUE(ParseAddress("--listen", local)->IsLoopback()) << local;
  }
  for (const char* open : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "lab.example:1", "128.0.0.1:1"}) {
    EXPECT_FALSE(ParseAddress("--listen", open)->IsLoopback()) << open;
  }
}

TEST(Address, RefusesWhatDoesNotNameAHostAndAPort) {
  for (const char* wrong : {"", "7400", ":7400", "host:", "host:65536", "host:-1", "::1:7400", "host:http"}) {
    EXPECT_FALSE(ParseAddress("--listen", wrong).ok()) << wrong;
  }
  EXPECT_EQ(ParseAddress("--listen", "[::1]:7400")->Text(), "[::1]:7400");
}

}  // namespace
}  // namespace ropelab::api
