// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/http_request.h"

#include <doctest/doctest.h>

namespace triplepoint {
namespace {

using State = HttpHead::State;
constexpr std::size_t limit = 1000;

HttpHead get(const std::string& target) {
  return parse_http_head("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n", limit);
}

TEST_CASE("a request's path and query arrive decoded") {
  const HttpHead head = get("/runs/a%20b+c?gpu=1%2C2&text=a+b&empty");
  REQUIRE(head.state == State::complete);
  CHECK(head.request.path == "/runs/a b+c");
  CHECK(head.request.query.at("gpu") == "1,2");
  CHECK(head.request.query.at("text") == "a b");
  CHECK(head.request.query.at("empty").empty());
}

TEST_CASE("every beginning of a request is incomplete, and the whole is complete") {
  const std::string text = "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\n\r\n";
  for (std::size_t size = 0; size < text.size(); ++size)
    CHECK(parse_http_head(text.substr(0, size), limit).state == State::incomplete);
  const HttpHead head = parse_http_head(text + "GET /next", limit);
  CHECK(head.state == State::complete);
  CHECK(head.size == text.size());
  CHECK(head.request.header("accept") == "text/plain");
}

TEST_CASE("a path that leaves the tree is refused however it is written") {
  for (const char* target : {"/../etc/passwd", "/a/../../b", "/a/..", "/%2e%2e/b", "/a/%2E./b"})
    CHECK(get(target).status == 400);
  CHECK(get("/a..b/c..").state == State::complete);
}

TEST_CASE("what is no request gets the status that says why") {
  struct Case {
    const char* text;
    int status;
  };
  const Case cases[] = {
      {"POST / HTTP/1.1\r\nHost: a\r\n\r\n", 405},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET /\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET nowhere HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /%4 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /?a=%f HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", 413},
      {"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 413},
      {"\x16\x03\x01\r\n\r\n", 400},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.text);
    const HttpHead head = parse_http_head(wrong.text, limit);
    CHECK(head.state == State::refused);
    CHECK(head.status == wrong.status);
    CHECK(!head.problem.empty());
  }
}

TEST_CASE("a head that reaches the limit is refused, one byte less is waited for") {
  const std::string endless = "GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(2 * limit, 'x');
  CHECK(parse_http_head(endless.substr(0, limit), limit).status == 431);
  CHECK(parse_http_head(endless.substr(0, limit - 1), limit).state == State::incomplete);
}

TEST_CASE("HTTP/1.0 closes and HTTP/1.1 stays open, unless they say otherwise") {
  const auto stays = [](const std::string& text) {
    const HttpHead head = parse_http_head(text, limit);
    REQUIRE(head.state == State::complete);
    return head.request.keep_alive;
  };
  CHECK(stays("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  CHECK_FALSE(stays("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
  CHECK_FALSE(stays("GET / HTTP/1.0\r\n\r\n"));
  CHECK(stays("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
}

TEST_CASE("lines that end in a bare line feed are read, as people type them") {
  CHECK(parse_http_head("GET / HTTP/1.0\n\n", limit).state == State::complete);
}

}  // namespace
}  // namespace triplepoint
