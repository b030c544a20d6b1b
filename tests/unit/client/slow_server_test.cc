// A server that is too busy for its first word, as a relay in front of one plays it.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "client/connection.h"
#include "tests/unit/client/fake_server.h"

namespace ropelab::client {
namespace {

using std::chrono::milliseconds;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Takes one connection, and hands its bytes on only after `silence`.
class Relay {
 public:
  Relay(const std::string& target, milliseconds silence) : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 8) != 0)
      return;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    const int target_port = std::stoi(target.substr(target.rfind(':') + 1));
    thread_ = std::thread([this, target_port, silence] {
      const int near = accept(listener_, nullptr, nullptr);
      std::this_thread::sleep_for(silence);
      const sockaddr_in there = Loopback(target_port);
      const int far = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(far, reinterpret_cast<const sockaddr*>(&there), sizeof(there)) == 0) Pump(near, far);
      close(far);
      close(near);
    });
  }
  ~Relay() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  // Until one side closes.
  static void Pump(int near, int far) {
    pollfd ends[2] = {{near, POLLIN, 0}, {far, POLLIN, 0}};
    while (poll(ends, 2, -1) > 0) {
      for (int side = 0; side < 2; ++side) {
        if (ends[side].revents == 0) continue;
        char bytes[4096];
        const ssize_t got = read(ends[side].fd, bytes, sizeof(bytes));
        if (got <= 0 || write(ends[1 - side].fd, bytes, static_cast<size_t>(got)) != got) return;
      }
    }
  }

  const int listener_;
  int port_ = 0;
  std::thread thread_;
};

TEST(Connection, GivesABusyServerTimeForItsFirstWord) {
  FakeServer server;
  server.list_corpora = [](v1::ListCorporaResponse*) { return grpc::Status::OK; };
  Relay relay(server.address(), milliseconds(1500));
  v1::ListCorporaResponse response;
  Connection connection(relay.address(), "");
  const absl::Status status =
      connection.Call(&Connection::Stub::ListCorpora, v1::ListCorporaRequest(), &response);
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace ropelab::client
