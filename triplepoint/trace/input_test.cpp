// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/input.h"

#include <vector>

#include <doctest/doctest.h>
#include <isa-l/igzip_lib.h>
#include <zstd.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/random.h"

#include "triplepoint/trace/kineto/kineto.h"
#include "triplepoint/trace/kineto/samples_testing.h"
#include "triplepoint/trace/tar.h"

namespace triplepoint::trace {
namespace {

std::string some_text(size_t size) {
  std::string text;
  for (uint64_t i = 0; text.size() < size; ++i)
    text += std::to_string(random_bits({.seed = 1}, i)) + ", ";
  text.resize(size);
  return text;
}

std::string gzipped(const std::string& text) {
  std::string packed(text.size() + 65536, '\0');
  isal_zstream stream;
  isal_deflate_init(&stream);
  stream.gzip_flag = IGZIP_GZIP;
  stream.end_of_stream = 1;
  stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uint32_t>(text.size());
  stream.next_out = reinterpret_cast<uint8_t*>(packed.data());
  stream.avail_out = static_cast<uint32_t>(packed.size());
  REQUIRE(isal_deflate(&stream) == 0);
  packed.resize(stream.total_out);
  return packed;
}

std::string zstandard(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 1));
  return packed;
}

std::string tar_entry(const std::string& name, const std::string& text, char kind = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  std::string size = fmt::format("{:011o}", text.size());
  header.replace(124, size.size(), size);
  header[156] = kind;
  header.replace(257, 5, "ustar");
  std::string body = text;
  body.resize((text.size() + 511) / 512 * 512);
  return header + body;
}

/// All that an input gives, in pieces of a prime number of bytes; what stopped it, behind.
std::string drained(Input& input) {
  std::string all;
  for (;;) {
    const auto more = input.fill();
    while (!input.ahead().empty()) {
      const std::string_view part = input.ahead().substr(0, 99991);
      all += part;
      input.skip(part.size());
    }
    if (!more) return all + "\n" + more.error().what;
    if (!*more) return all;
  }
}

Input input_of(std::string bytes, bool overlap = false) {
  return must(Input::of(text_source(std::move(bytes)), "x", overlap));
}

TEST_CASE("packed data are restored, for every packer and unpacker") {
  for (const size_t size : {0, 1, 5, 511, 70000, 5 << 20}) {
    const std::string text = some_text(size);
    for (const std::string& bytes : {text, gzipped(text), zstandard(text)})
      for (const bool overlap : {false, true}) {
        Input input = input_of(bytes, overlap);
        CHECK(drained(input) == text);
        CHECK(input.position() == text.size());
        CHECK(!*input.fill());
      }
  }
}

TEST_CASE("a checksum or length that is wrong is told, although all bytes were read") {
  const std::string good = gzipped(some_text(5000));
  for (const size_t from_end : {size_t{8}, size_t{1}}) {  // the checksum, the length
    std::string bad = good;
    bad[bad.size() - from_end] = static_cast<char>(bad[bad.size() - from_end] ^ 1);
    for (const bool is_bad : {false, true}) {
      Input input = input_of(is_bad ? bad : good);
      const auto text = must(input.peek(5000));
      CHECK(text.size() == 5000);
      const auto damage = input.damage_behind();
      CHECK(damage.has_value() == is_bad);
      if (damage) CHECK(damage->what.find("checksum or length is wrong") != std::string::npos);
    }
  }
  CHECK(!input_of(some_text(100)).damage_behind());
}

TEST_CASE("gzip members one after the other are one text, and padding behind them is none") {
  Input input =
      input_of(gzipped("a") + gzipped("") + gzipped(some_text(300000)) + std::string(1000, '\0'));
  CHECK(drained(input) == "a" + some_text(300000));
}

TEST_CASE("a packed file that is cut off gives what came before, then a sentence") {
  const std::string text = some_text(1 << 20);
  for (const std::string& bytes : {gzipped(text), zstandard(text)})
    for (const bool overlap : {false, true}) {
      Input input = input_of(bytes.substr(0, bytes.size() / 2), overlap);
      const std::string got = drained(input);
      const size_t line = got.find('\n');
      REQUIRE(line != std::string::npos);
      CHECK(line > text.size() / 4);
      CHECK(text.starts_with(got.substr(0, line)));
      CHECK(got.find("damaged") != std::string::npos);
    }
}

TEST_CASE("a small packed file that is cut off gives its beginning, too") {
  const std::string text = some_text(3000), bytes = gzipped(text);
  Input input = input_of(bytes.substr(0, bytes.size() - 40));
  const std::string got = drained(input);
  CHECK(text.starts_with(got.substr(0, 500)));
}

TEST_CASE("damaged bytes end in a sentence or in other bytes, never in a crash") {
  for (const std::string& good : {gzipped(some_text(5000)), zstandard(some_text(5000))})
    for (size_t at = 4; at < good.size(); at += 7) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 0x55);
      auto input = Input::of(text_source(std::move(bad)), "x", false);
      if (input)
        CHECK(drained(*input).size() < 100000);
      else
        CHECK(input.error().what.find("damaged") != std::string::npos);
    }
}

TEST_CASE("a packed trace with a wrong check sum is read, and the damage is said") {
  const std::string text = kineto::sample_text(kineto::sample_step({.layers = 2}, 1), {});
  for (const size_t from_end : {size_t{8}, size_t{4}}) {  // check sum, length
    std::string bytes = gzipped(text);
    bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 1);
    Input input = input_of(bytes);
    const Trace trace = read_kineto(input, {}).value();
    CHECK(trace.skipped.truncated);
    REQUIRE(trace.skipped.notes.size() == 1);
    CHECK(trace.skipped.notes[0].find("damaged") != std::string::npos);
  }
  Input whole = input_of(gzipped(text));
  CHECK(!read_kineto(whole, {}).value().skipped.truncated);
}

TEST_CASE("what unpacks beyond all measure is an error") {
  Input input = input_of(zstandard(std::string(300 << 20, ' ')));
  size_t seen = 0;
  Result<bool> more = true;
  while ((more = input.fill()) && *more) {
    seen += input.ahead().size();
    input.skip(input.ahead().size());
  }
  REQUIRE(!more);
  CHECK(more.error().what.find("times its size") != std::string::npos);
  CHECK(seen <= (260 << 20));
}

TEST_CASE("zeros follow what is ahead, so that scans need no check of the end") {
  Input input = Input::of_text(some_text(100), "x");
  REQUIRE(*input.fill());
  for (size_t i = 0; i < Input::padding; ++i)
    CHECK(input.ahead().data()[input.ahead().size() + i] == '\0');
}

TEST_CASE(
    "a peek gives as much as it was asked for, and rest gives all or says that it is too much") {
  Input input = Input::of_text(some_text(3 << 20), "x");
  CHECK(input.peek(2 << 20)->size() >= (2 << 20));
  CHECK(input.peek(1 << 30)->size() == (3 << 20));
  CHECK(*input.rest(4 << 20) == some_text(3 << 20));
  Input other = Input::of_text(some_text(3 << 20), "x");
  CHECK(!other.rest(1 << 20));
}

TEST_CASE("a tar gives its files, with long names, past folders and links") {
  const std::string long_name = std::string(150, 'd') + "/rank1.json";
  const std::string bytes = tar_entry("folder/", "", '5') + tar_entry("a", some_text(1000)) +
                            tar_entry("link", "", '2') +
                            tar_entry("././@LongLink", long_name, 'L') + tar_entry("d", "two") +
                            tar_entry("x", fmt::format("30 path={}\n", "pax"), 'x') +
                            tar_entry("e", "") + std::string(1024, '\0');
  REQUIRE(looks_like_tar(bytes));
  Input archive = input_of(gzipped(bytes));
  Tar tar(archive);
  std::vector<std::pair<std::string, std::string>> found;
  while (const auto entry = *tar.next()) {
    Input input = *Input::of(tar.contents(), entry->name);
    found.emplace_back(entry->name, entry->name == long_name ? "left" : drained(input));
  }
  CHECK(found == std::vector<std::pair<std::string, std::string>>{
                     {"a", some_text(1000)}, {long_name, "left"}, {"pax", ""}});
}

TEST_CASE("a tar that is cut off is named so") {
  const std::string bytes = tar_entry("a", some_text(5000));
  Input archive = input_of(bytes.substr(0, 2000));
  Tar tar(archive);
  REQUIRE(*tar.next());
  Input input = *Input::of(tar.contents(), "a");
  CHECK(drained(input).find("cut off") != std::string::npos);
}

}  // namespace
}  // namespace triplepoint::trace
