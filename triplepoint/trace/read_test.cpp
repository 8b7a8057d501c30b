// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/read.h"

#include <string>

#include <doctest/doctest.h>

#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/trace/kineto/samples_testing.h"

namespace triplepoint::trace {
namespace {

std::string sample(int32_t rank, uint64_t seed = 1, int layers = 3) {
  return kineto::sample_text(kineto::sample_step({.layers = layers, .seed = seed}, 1),
                             {.rank = rank});
}

TEST_CASE("a folder gives the traces in it, whatever they are called, and passes over the rest") {
  const ScratchFolder folder;
  folder.file("a/10.json", sample(10));
  folder.file("a/9.json", sample(9));
  folder.file("notes.txt", "not a trace");
  const Trace trace = read_traces({folder.folder()}).value();
  CHECK(trace.format == "kineto");
  CHECK(trace.timeline.num_ranks == 11);
  CHECK(trace.timeline.spans.front().rank == 9);
}

TEST_CASE("JSON that ends before its first event is called just that, and not another format") {
  const ScratchFolder folder;
  for (const char* text : {"{", "{\n", "{\n  \"schema", "[\n"}) {
    CAPTURE(text);
    const auto trace = read_traces({folder.file("cut.json", text)});
    REQUIRE(!trace);
    CHECK(trace.error().what.find("JSON that holds no known trace, or is cut short") !=
          std::string::npos);
  }
  CHECK(read_traces({folder.file("x.txt", "hello")}).error().what.find("of no known format") !=
        std::string::npos);
  CHECK(read_traces({folder.file("x.run", "")}).error().what.find("is empty") != std::string::npos);
}

TEST_CASE("the number of threads does not change what is read") {
  const ScratchFolder folder;
  for (int32_t rank = 0; rank < 5; ++rank)
    folder.file(std::to_string(rank), sample(rank, static_cast<uint64_t>(rank)));
  const Trace one = read_traces({folder.folder()}, {.threads = 1}).value();
  CHECK(read_traces({folder.folder()}, {.threads = 4}).value() == one);
}

TEST_CASE("what is no trace, or not there, is a sentence that names it") {
  const ScratchFolder folder;
  const auto why = [](const Result<Trace>& trace) { return trace ? "" : trace.error().what; };
  CHECK(why(read_trace(folder.file("x.txt", "hello"))).find("x.txt is no trace") !=
        std::string::npos);
  CHECK(why(read_trace(folder / "missing")).find("missing") != std::string::npos);
  CHECK(why(read_trace(folder.folder())).find("known are PyTorch") != std::string::npos);
  CHECK(!why(read_traces({})).empty());
}

TEST_CASE("a rank that is given wins over the file's") {
  const ScratchFolder folder;
  CHECK(read_trace(folder.file("x", sample(3)), {.rank = 5}).value().timeline.num_ranks == 6);
}

}  // namespace
}  // namespace triplepoint::trace
