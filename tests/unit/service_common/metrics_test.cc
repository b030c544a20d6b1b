#include "common/service/metrics.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace ropelab {
namespace {

std::string HttpGet(const std::string& address, const std::string& path) {
  const size_t colon = address.rfind(':');
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(std::atoi(address.substr(colon + 1).c_str())));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &peer.sin_addr);
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&peer), sizeof(peer)), 0);
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  EXPECT_EQ(write(connection, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = read(connection, buffer, sizeof(buffer))) > 0;) {
    answer.append(buffer, static_cast<size_t>(n));
  }
  close(connection);
  return answer;
}

TEST(MetricsEndpoint, ServesMetricsAndHealth) {
  auto registry = std::make_shared<prometheus::Registry>();
  prometheus::BuildCounter()
      .Name("ropelab_things_total")
      .Help("Things.")
      .Register(*registry)
      .Add({})
      .Increment(3);
  std::string problem;
  auto endpoint = MetricsEndpoint::Start("127.0.0.1:0", registry, [&] { return problem; });
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const std::string address = (*endpoint)->address();
  EXPECT_NE(HttpGet(address, "/metrics").find("ropelab_things_total 3"), std::string::npos);
  EXPECT_NE(HttpGet(address, "/healthz").find("200 OK"), std::string::npos);
  problem = "the disk is full";
  const std::string sick = HttpGet(address, "/healthz");
  EXPECT_NE(sick.find("503 "), std::string::npos) << sick;
  EXPECT_NE(sick.find("the disk is full"), std::string::npos) << sick;
}

TEST(MetricsEndpoint, SaysThatAPortIsTaken) {
  auto registry = std::make_shared<prometheus::Registry>();
  auto first = MetricsEndpoint::Start("127.0.0.1:0", registry, [] { return ""; });
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = MetricsEndpoint::Start((*first)->address(), registry, [] { return ""; });
  ASSERT_FALSE(second.ok());
  const std::string message(second.status().message());
  EXPECT_EQ(message,
            "metrics cannot listen on " + (*first)->address() +
                ": another process has the port; --metrics names another address, and port 0 takes a "
                "free one");
}

TEST(MetricsEndpoint, RefusesAnAddressWithoutAPort) {
  auto endpoint =
      MetricsEndpoint::Start("127.0.0.1", std::make_shared<prometheus::Registry>(), [] { return ""; });
  EXPECT_EQ(endpoint.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ropelab
