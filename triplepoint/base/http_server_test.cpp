// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/http_server.h"

#include <atomic>
#include <set>
#include <thread>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace triplepoint {
namespace {

/// A client that can do wrong what clients do wrong.
class Client {
 public:
  explicit Client(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{20, 0};  // a test that waits for ever says nothing
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = socket_ >= 0 &&
                 ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  bool send(std::string_view text) {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  void end_sending() { ::shutdown(socket_, SHUT_WR); }
  /// All that comes until the server closes; "(timeout)" if it does not.
  std::string rest() {
    std::string all;
    char buffer[65536];
    while (true) {
      const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
      if (count == 0) return all;
      if (count < 0) return all + "(timeout or reset)";
      all.append(buffer, static_cast<std::size_t>(count));
    }
  }
  /// One answer of a connection that stays open.
  std::string answer() {
    std::string all;
    char byte = 0;
    while (!all.ends_with("\r\n\r\n") && ::recv(socket_, &byte, 1, 0) == 1)
      all += byte;
    const std::size_t at = all.find("Content-Length: ");
    const std::size_t size = at == std::string::npos ? 0 : std::stoul(all.substr(at + 16));
    for (std::size_t i = 0; i < size && ::recv(socket_, &byte, 1, 0) == 1; ++i)
      all += byte;
    return all;
  }

 private:
  int socket_;
  bool connected_ = false;
};

/// A server on a free port, on its own thread, that says the path it was asked for.
class Serving {
 public:
  explicit Serving(HttpOptions options = {}) {
    auto opened = HttpServer::open(options, [this](const HttpRequest& request) {
      ++requests;
      HttpResponse response;
      response.body =
          request.path == "/big" ? std::string(8'000'000, 'x') : "you want " + request.path;
      return response;
    });
    REQUIRE(opened);
    server = std::move(*opened);
    thread_ = std::thread([this] { CHECK(server->serve()); });
  }
  ~Serving() {
    server->stop();
    thread_.join();
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  std::string once(const std::string& text) const {
    Client client(server->port());
    client.send(text);
    return client.rest();
  }

  std::unique_ptr<HttpServer> server;
  std::atomic<int> requests{0};

 private:
  std::thread thread_;
};

const std::string closing = " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const std::string keeping = " HTTP/1.1\r\nHost: localhost\r\n\r\n";

TEST_CASE("a request is answered, and HEAD is the same without its body") {
  const Serving serving;
  const std::string get = serving.once("GET /a%20b" + closing);
  CHECK(get.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(get.ends_with("\r\n\r\nyou want /a b"));
  const std::string head = serving.once("HEAD /a%20b" + closing);
  CHECK(head + "you want /a b" == get);
}

TEST_CASE("a connection carries many requests, also those sent ahead") {
  const Serving serving;
  Client client(serving.server->port());
  for (const char* path : {"/1", "/2", "/3"}) {
    client.send(std::string("GET ") + path + keeping);
    CHECK(client.answer().ends_with(std::string("you want ") + path));
  }
  client.send("GET /4" + keeping + "GET /5" + keeping);
  CHECK(client.answer().ends_with("/4"));
  CHECK(client.answer().ends_with("/5"));
}

TEST_CASE("a client that has ended sending still gets all answers") {
  const Serving serving;
  Client client(serving.server->port());
  client.send("GET /big" + keeping + "GET /last" + keeping);
  client.end_sending();
  const std::string all = client.rest();
  CHECK(all.size() > 8'000'000);
  CHECK(all.ends_with("you want /last"));
}

TEST_CASE("malformed requests are told so and cost the server nothing") {
  const Serving serving;
  for (const char* text : {"\r\n\r\nnonsense\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
                           "POST / HTTP/1.1\r\nHost: a\r\n\r\nbody that is not read"}) {
    const std::string answer = serving.once(text);
    CHECK(answer.starts_with("HTTP/1.1 4"));
    CHECK(answer.find("Connection: close") != std::string::npos);
  }
  CHECK(serving.requests == 0);
  CHECK(serving.once("GET /still-here" + closing).ends_with("you want /still-here"));
}

TEST_CASE("a head without end is refused with 431 although the client goes on sending") {
  const Serving serving;
  Client client(serving.server->port());
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(200'000, 'x'));
  CHECK(client.rest().starts_with("HTTP/1.1 431"));
}

HttpOptions impatient() {
  HttpOptions options;
  options.limits.head_time = 0.1 * unit::s;
  options.limits.idle_time = 0.1 * unit::s;
  options.limits.write_time = 0.1 * unit::s;
  return options;
}

TEST_CASE("who sends a request byte by byte runs out of time, others do not notice") {
  const Serving serving(impatient());
  Client slow(serving.server->port());
  slow.send("GET / HTTP/1.1\r\nX");
  CHECK(serving.once("GET /quick" + closing).ends_with("you want /quick"));
  CHECK(slow.rest().starts_with("HTTP/1.1 408"));
}

TEST_CASE("silent connections are closed") {
  const Serving serving(impatient());
  Client silent(serving.server->port());
  CHECK(silent.rest().empty());
  Client after_one(serving.server->port());
  after_one.send("GET /" + keeping);
  CHECK(after_one.rest().ends_with("you want /"));
}

TEST_CASE("a client that does not read blocks no other client") {
  const Serving serving;
  Client lazy(serving.server->port());
  lazy.send("GET /big" + keeping);
  CHECK(serving.once("GET /quick" + closing).ends_with("you want /quick"));
  CHECK(lazy.answer().size() > 8'000'000);
}

TEST_CASE("a thousand open connections leave the server answering") {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 2200) {
    MESSAGE("skipped: only ", files.rlim_cur, " files may be open here");
    return;
  }
  const Serving serving;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.push_back(std::make_unique<Client>(serving.server->port()));
    REQUIRE(clients.back()->connected());
  }
  CHECK(serving.once("GET /quick" + closing).ends_with("you want /quick"));
  for (const auto& client : clients)
    CHECK(client->send("GET /each" + keeping));
  for (const auto& client : clients)
    CHECK(client->answer().ends_with("you want /each"));
}

TEST_CASE("beyond its limit the server lets the silent go and serves the new") {
  HttpOptions options;
  options.limits.connections = 10;
  const Serving serving(options);
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 50; ++i)
    silent.push_back(std::make_unique<Client>(serving.server->port()));
  CHECK(serving.once("GET /quick" + closing).ends_with("you want /quick"));
  CHECK(silent.front()->rest().empty());
}

TEST_CASE("with a token, requests without it are refused") {
  HttpOptions options;
  options.token = "secret";
  const Serving serving(options);
  const auto ask = [&](const std::string& header) {
    return serving.once("GET /x HTTP/1.0\r\n" + header + "\r\n").substr(9, 3);
  };
  CHECK(ask("") == "401");
  CHECK(ask("Authorization: Bearer wrong!\r\n") == "401");
  CHECK(ask("Authorization: Bearer secre\r\n") == "401");
  CHECK(ask("Authorization: Basic Ondyb25n\r\n") == "401");
  CHECK(ask("Authorization: Basic %%%\r\n") == "401");
  CHECK(ask("Authorization: Bearer secret\r\n") == "200");
  CHECK(ask("Authorization: Basic bWU6c2VjcmV0\r\n") == "200");  // me:secret
}

TEST_CASE("a page of another name cannot read what is served on loopback") {
  const Serving serving;
  const auto ask = [&](const std::string& host) {
    return serving.once("GET / HTTP/1.0\r\nHost: " + host + "\r\n\r\n").substr(9, 3);
  };
  CHECK(ask("evil.example:9400") == "421");
  CHECK(ask("127.0.0.1.evil.example") == "421");
  CHECK(ask("LOCALHOST:9400") == "200");
  CHECK(ask("localhost.") == "200");
  for (const char* host : {"localhost:9400", "127.0.0.1:9400", "[::1]:9400", "10.1.2.3"})
    CHECK(ask(host) == "200");
}

TEST_CASE("an address that others reach needs a token or a yes") {
  const auto open = [](HttpOptions options) {
    return HttpServer::open(options, [](const HttpRequest&) { return HttpResponse(); });
  };
  const auto refused = open({.listen = "0.0.0.0:0"});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("127.0.0.1") != std::string::npos);
  CHECK_FALSE(open({.listen = ":0"}));
  CHECK_FALSE(open({.listen = "0.0.0.0:0", .token = ""}));
  CHECK(open({.listen = "0.0.0.0:0", .token = "secret"}));
  CHECK(open({.listen = ":0", .allow_everybody = true}));
}

TEST_CASE("what cannot be listened at is said in a sentence") {
  const Serving serving;
  const auto open = [](const std::string& listen) {
    return HttpServer::open({.listen = listen}, [](const HttpRequest&) { return HttpResponse(); });
  };
  for (const std::string& listen :
       {std::string("nonsense"), std::string("127.0.0.1:"), std::string("127.0.0.1:99999"),
        std::string("127.0.0.1:-1"), serving.server->address()}) {
    const auto refused = open(listen);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().what.find(listen) != std::string::npos);
  }
}

TEST_CASE("a handler's header cannot begin another one") {
  auto opened = HttpServer::open({}, [](const HttpRequest&) {
    HttpResponse response;
    response.headers = {{"X", "a\r\nSet-Cookie: b"}};
    return response;
  });
  REQUIRE(opened);
  std::thread thread([&] { CHECK((*opened)->serve()); });
  Client client((*opened)->port());
  client.send("GET / HTTP/1.0\r\n\r\n");
  CHECK(client.rest().find("\nSet-Cookie") == std::string::npos);
  (*opened)->stop();
  thread.join();
}

}  // namespace
}  // namespace triplepoint
