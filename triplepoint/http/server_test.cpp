// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/http/server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include <arpa/inet.h>
#include <doctest/doctest.h>
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
    REQUIRE(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view text) { ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  void end_sending() { ::shutdown(socket_, SHUT_WR); }
  /// All that comes until the server closes, or until the text has come.
  std::string rest(std::string_view until = "\1") {
    std::string all;
    std::array<char, 65536> buffer{};
    while (!all.ends_with(until)) {
      const ssize_t count = ::recv(socket_, buffer.data(), buffer.size(), 0);
      if (count == 0) return all;
      if (count < 0) return all + "(timeout or reset)";
      all.append(buffer.data(), as_size(count));
    }
    return all;
  }
  bool is_answered(std::string_view end) { return rest(end).ends_with(end); }

 private:
  int socket_;
};

/// A server on a free port, on its own thread, that says the path it was asked for.
class Serving {
 public:
  explicit Serving(HttpOptions options = {}) {
    auto opened = HttpServer::open(options, [this](const HttpRequest& request) {
      ++requests;
      last = request;
      return HttpResponse{
          .body = request.path == "/big" ? std::string(8'000'000, 'x') : "you want " + request.path,
          .headers = {{"X", "a\r\nSet-Cookie: b"}}};
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
  bool is_alive() const { return once("GET /alive HTTP/1.0\r\n\r\n").ends_with("you want /alive"); }

  std::unique_ptr<HttpServer> server;
  std::atomic<int> requests{0};
  HttpRequest last;  // read when its answer has come

 private:
  std::thread thread_;
};

const std::string closing = " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const std::string keeping = " HTTP/1.1\r\nHost: localhost\r\n\r\n";

TEST_CASE("a request is answered, and HEAD is the same without its body") {
  const Serving serving;
  const std::string get = serving.once("GET /a%20b+c?gpu=1%2C2&text=a+b&empty" + closing);
  CHECK(get.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(get.ends_with("\r\n\r\nyou want /a b+c"));
  CHECK(serving.last.query ==
        std::map<std::string, std::string>{{"gpu", "1,2"}, {"text", "a b"}, {"empty", ""}});
  CHECK(serving.last.header("host") == "localhost");
  CHECK(serving.once("HEAD /a%20b+c" + closing).ends_with("\r\n\r\n"));
  CHECK(serving.once("GET http://localhost/x" + closing).ends_with("you want /x"));
}

TEST_CASE("a handler's header cannot begin another one") {
  CHECK(Serving().once("GET /" + closing).find("\nSet-Cookie") == std::string::npos);
}

TEST_CASE("a connection carries many requests, also those sent ahead") {
  const Serving serving;
  Client client(serving.server->port());
  for (const std::string path : {"/1", "/2", "/3"}) {
    client.send("GET " + path + keeping);
    CHECK(client.is_answered("you want " + path));
  }
  client.send("GET /big" + keeping + "GET /last" + keeping);
  client.end_sending();
  const std::string all = client.rest();
  CHECK(all.size() > 8'000'000);
  CHECK(all.ends_with("you want /last"));
}

TEST_CASE("what is no request is refused, reaches no handler and costs the server nothing") {
  const Serving serving;
  const std::string local = "Host: localhost\r\n";
  const std::pair<std::string, std::string> cases[] = {
      {"POST / HTTP/1.1\r\n" + local + "\r\nbody that is not read", "405"},
      {"G@T / HTTP/1.1\r\n" + local + "\r\n", "405"},
      {"GET / HTTP/2.0\r\n" + local + "\r\n", "505"},
      {"GET / HTTP/1.1\r\n\r\n", "400"},
      {"GET /\r\n\r\n", "400"},
      {"GET nowhere" + closing, "400"},
      {"GET /%zz" + closing, "400"},
      {"GET /%4" + closing, "400"},
      {"GET /a%00b" + closing, "400"},
      {"GET /a%0d%0ab" + closing, "400"},
      {"GET /?a=%f" + closing, "400"},
      {"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\n" + local + local + "\r\n", "400"},
      {"GET / HTTP/1.1\r\n" + local + " folded: b\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\n" + local + "Content-Length: 5\r\n\r\n", "413"},
      {"GET / HTTP/1.1\r\n" + local + "Content-Length: 0\r\nContent-Length: 5\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\n" + local + "Transfer-Encoding: chunked\r\n\r\n", "413"},
      {"GET /../etc/passwd" + closing, "400"},
      {"GET /a/../../b" + closing, "400"},
      {"GET /a/.." + closing, "400"},
      {"GET /%2e%2e/b" + closing, "400"},
      {"GET /a/%2E./b" + closing, "400"},
      {"GET /..%2fb" + closing, "400"}};
  for (const auto& refused : cases) {
    CAPTURE(refused.first);
    const std::string answer = serving.once(refused.first);
    CHECK(answer.substr(0, 12) == "HTTP/1.1 " + refused.second);
    CHECK(answer.find("Connection: close") != std::string::npos);
  }
  for (const char* text : {"\r\n\r\nnonsense\r\n\r\n", "\x16\x03\x01\r\n\r\n"})
    CHECK(serving.once(text).find("200") == std::string::npos);  // closed without a word
  CHECK(serving.requests == 0);
  CHECK(serving.is_alive());
}

TEST_CASE("a head without end is refused with 431 although the client goes on sending") {
  const Serving serving;
  CHECK(serving.once("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(200'000, 'x'))
            .starts_with("HTTP/1.1 431"));
  CHECK(serving.once("GET /" + std::string(200'000, 'x')).starts_with("HTTP/1.1 4"));
}

TEST_CASE("who is silent or sends byte by byte runs out of time, others do not notice") {
  HttpOptions options;
  options.limits.request_time = 0.1 * unit::s;
  const Serving serving(options);
  Client slow(serving.server->port()), silent(serving.server->port());
  std::jthread drip([&](const std::stop_token& stop) {
    for (slow.send("GET / HTTP/1.1\r\nX: "); !stop.stop_requested(); slow.send("x"))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  CHECK(serving.is_alive());
  CHECK(silent.rest().empty());
  CHECK(slow.rest().find("200") == std::string::npos);
  Client after_one(serving.server->port());
  after_one.send("GET /" + keeping);
  CHECK(after_one.rest().ends_with("you want /"));
}

TEST_CASE("who does not read blocks no other client") {
  const Serving serving;
  Client lazy(serving.server->port());
  lazy.send("GET /big" + keeping);
  CHECK(serving.is_alive());
  CHECK(lazy.rest("x").size() > 1000);
}

/// More files than that may be open in this process.
bool may_open(rlim_t count) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur >= count) return true;
  MESSAGE("skipped: only ", files.rlim_cur, " files may be open here");
  return false;
}

TEST_CASE("a thousand open connections are all answered") {
  if (!may_open(4000)) return;
  const Serving serving;
  std::vector<std::unique_ptr<Client>> clients =
      numbered(1000, [&](int i) { return std::make_unique<Client>(serving.server->port()); });
  CHECK(serving.is_alive());
  for (const auto& client : clients)
    client->send("GET /each" + keeping);
  CHECK(std::ranges::all_of(
      clients, [](const auto& client) { return client->is_answered("you want /each"); }));
}

TEST_CASE("two thousand slow clients take no place from those who ask") {
  if (!may_open(6000)) return;
  const Serving serving;
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 2000; ++i) {
    slow.push_back(std::make_unique<Client>(serving.server->port()));
    slow.back()->send("GET / HTTP/1.1\r\nX: ");
  }
  const auto before = std::chrono::steady_clock::now();
  CHECK(serving.is_alive());
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(5));
  CHECK(slow.front()->rest().find("200") == std::string::npos);  // the first have had to go
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
  for (const char* host : {"localhost:9400", "LOCALHOST:9400", "localhost.", "127.0.0.1:9400",
                           "[::1]:9400", "10.1.2.3"})
    CHECK(ask(host) == "200");
}

TEST_CASE("an address that others reach needs a token or a yes") {
  const auto open = [](const HttpOptions& options) {
    return HttpServer::open(options, [](const HttpRequest&) { return HttpResponse(); });
  };
  const auto refused = open({.listen = "0.0.0.0:0"});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("127.0.0.1") != std::string::npos);
  CHECK_FALSE(open({.listen = ":0"}));
  CHECK_FALSE(open({.listen = "0.0.0.0:0", .token = ""}));
  CHECK(open({.listen = "0.0.0.0:0", .token = "secret"}));
  CHECK(open({.listen = ":0", .allow_everybody = true}));
  const auto taken = open({});
  for (const std::string& listen :
       {std::string("nonsense"), std::string("127.0.0.1:"), std::string("127.0.0.1:99999"),
        std::string("127.0.0.1:-1"), (*taken)->address()}) {
    const auto wrong = open({.listen = listen});
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().what.find(listen) != std::string::npos);
  }
}

}  // namespace
}  // namespace triplepoint
