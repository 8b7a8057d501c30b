// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/token_source.h"

#include <map>
#include <set>

#include <doctest/doctest.h>
#include <unistd.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/scratch_folder.h"

namespace triplepoint::trainer {
namespace {

template <class T>
void put(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// The index of `count` tokens of this type in one document.
std::string index_of(uint8_t code, int32_t count) {
  std::string text("MMIDIDX\0\0", 9);
  put(text, uint64_t{1});
  put(text, code);
  put(text, uint64_t{1});
  put(text, uint64_t{2});
  put(text, count);
  put(text, int64_t{0});
  put(text, int64_t{0});
  put(text, int64_t{1});
  return text;
}

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

TEST_CASE("a Megatron dataset of any whole type gives its tokens") {
  const ScratchFolder folder;
  const auto dataset = [&](uint8_t code, auto zero) {
    std::string bin;
    for (int i = 0; i < 20; ++i)
      put(bin, static_cast<decltype(zero)>(i));
    folder.file("data.bin", bin);
    return folder.file("data.idx", index_of(code, 20));
  };
  for (const std::string& file :
       {dataset(1, uint8_t{}), dataset(3, int16_t{}), dataset(4, int32_t{}), dataset(5, int64_t{}),
        dataset(8, uint16_t{})}) {
    const auto source = open_tokens(file, {19, 20, 1});
    REQUIRE(source);
    const auto tokens = read(**source, 0, 19);
    for (int32_t i = 0; i < 20; ++i)
      CHECK(tokens[static_cast<size_t>(i)] == i);
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
  CHECK(refusal("/nowhere/at/all", {2, 256, 1}).find("/nowhere/at/all") == 0);
  folder.file("data.bin", std::string(40, 'a'));
  const std::string index = folder.file("data.idx", index_of(1, 40));
  CHECK(refusal(index, {8, 60, 1}).find("vocabulary") != std::string::npos);
  folder.file("data.idx", index_of(6, 40));
  CHECK(refusal(index, {8, 256, 1}).find("whole numbers") != std::string::npos);
  folder.file("data.idx", index_of(1, 40).substr(0, 50));
  CHECK(refusal(index, {8, 256, 1}).find("do not fit") != std::string::npos);
  folder.file("data.idx", "something else, quite long enough for a head of an index");
  CHECK(refusal(index, {8, 256, 1}).find("MMIDIDX") != std::string::npos);
}

}  // namespace triplepoint::trainer
