// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/token_source.h"

#include <map>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/base/scratch_folder.h"

namespace triplepoint::trainer {
namespace {

std::vector<int32_t> read(const TokenSource& source, int64_t sample, size_t length) {
  std::vector<int32_t> tokens(length + 1);
  source.read(sample, tokens);
  return tokens;
}

}  // namespace

TEST_CASE("synthetic words have at most four successors and stay inside of the vocabulary") {
  const auto source = make_synthetic_tokens({64, 50, 3});
  std::map<int32_t, std::set<int32_t>> successors;
  for (int64_t sample = 0; sample < 40; ++sample) {
    const auto tokens = read(*source, sample, 64);
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      CHECK((tokens[i] >= 0 && tokens[i] < 50));
      successors[tokens[i]].insert(tokens[i + 1]);
    }
  }
  CHECK(successors.size() > 20);
  for (const auto& [word, next] : successors)
    CHECK(next.size() <= 4);
}

TEST_CASE("a synthetic sample is the same whenever it is read and unlike others") {
  const auto source = make_synthetic_tokens({32, 100, 3});
  CHECK(read(*source, 11, 32) == read(*source, 11, 32));
  CHECK(read(*source, 11, 32) != read(*source, 12, 32));
  CHECK(read(*make_synthetic_tokens({32, 100, 4}), 11, 32) != read(*source, 11, 32));
}

TEST_CASE("every window of a file comes once per epoch") {
  for (const int64_t count : {1, 2, 7, 64, 100})
    for (const int64_t epoch : {0, 3}) {
      const Windows windows(count, 5);
      std::set<int64_t> seen;
      for (int64_t i = 0; i < count; ++i)
        seen.insert(windows.of_sample(epoch * count + i));
      CHECK(static_cast<int64_t>(seen.size()) == count);
    }
}

TEST_CASE("a text's bytes are its tokens") {
  const ScratchFolder folder;
  const std::string text = "to be, or not to be, that is the question";
  const std::string file = folder.file("text.txt", text);
  const auto source = open_tokens(file, {8, 256, 1});
  REQUIRE(source);
  for (int64_t sample = 0; sample < 5; ++sample) {
    std::string window;
    for (const int32_t token : read(**source, sample, 8))
      window += static_cast<char>(token);
    CHECK(text.find(window) % 8 == 0);
  }
}

TEST_CASE("data that cannot be used is refused with its name and a reason") {
  const ScratchFolder folder;
  const auto refusal = [](const std::string& data, const TokenNeeds& needs) {
    const auto source = open_tokens(data, needs);
    REQUIRE_FALSE(source);
    CHECK(source.error().what.find("; ") != std::string::npos);
    return source.error().what;
  };
  const std::string text = folder.file("short.txt", "abc");
  CHECK(refusal(text, {8, 256, 1}).find("less than one sequence") != std::string::npos);
  CHECK(refusal(text, {2, 100, 1}).find("256") != std::string::npos);
  CHECK(refusal("/nowhere/at/all", {2, 256, 1}).find("/nowhere/at/all") != std::string::npos);
}

}  // namespace triplepoint::trainer
