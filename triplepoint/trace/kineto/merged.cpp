// SPDX-License-Identifier: Apache-2.0
// A merged file is cut at the events that name a rank; each piece, behind the head of the file, is
// what the profiler writes of one rank. JSON has no line breaks inside of texts, so the line that
// begins such an event is found nowhere else.

#include <charconv>

#include "triplepoint/trace/kineto/kineto.h"

namespace triplepoint::trace {
namespace {

constexpr std::string_view begin_of_rank = ",\n{\"ph\":\"M\",\"name\":\"triplepoint_rank\",";
constexpr std::string_view events = "\"traceEvents\": [";
constexpr std::string_view first_event =
    R"({"ph":"M","name":"process_name","ts":0.000,"pid":-1,"tid":0,"args":{"name":"triplepoint"}})";
constexpr size_t most_merged_bytes = size_t{16} << 30;

/// The number behind "rank": in the event that names it; -1: none.
int32_t rank_in(std::string_view event) {
  constexpr std::string_view word = "\"rank\":";
  const size_t at = event.substr(0, 200).find(word);
  int32_t rank = -1;
  if (at != std::string_view::npos)
    std::from_chars(event.data() + at + word.size(), event.data() + event.size(), rank);
  return rank;
}

}  // namespace

std::string merged_rank_event(int32_t rank) {
  return fmt::format("{}\"ts\":0.000,\"pid\":{},\"tid\":0,\"args\":{{\"rank\":{}}}}}",
                     begin_of_rank, rank, rank);
}

bool looks_like_merged_kineto(std::string_view head) {
  const size_t at = head.find(events);
  return at != std::string_view::npos && head.substr(at + events.size()).starts_with("\n") &&
         head.substr(at + events.size() + 1).starts_with(first_event);
}

Result<std::vector<NamedTrace>> read_merged_kineto(Input& input, const ReadOptions& options) {
  const std::string text = TPT_TRY(input.rest(most_merged_bytes));
  const std::string head = text.substr(0, text.find(events) + events.size());
  std::vector<NamedTrace> traces;
  for (size_t begin = text.find(begin_of_rank); begin != std::string::npos;) {
    const size_t next = text.find(begin_of_rank, begin + 1);
    const std::string_view piece = std::string_view(text).substr(begin + 1, next - begin - 1);
    ReadOptions of_rank = options;
    of_rank.rank = rank_in(piece);
    if (*of_rank.rank < 0)
      return error("{}: a rank has no number (the file was changed); merge it again", input.name());
    const std::string name = fmt::format("{}: rank {}", input.name(), *of_rank.rank);
    Input one = Input::of_text(
        fmt::format("{}{}{}", head, piece, next == std::string::npos ? "" : "\n]}\n"), name);
    traces.push_back({name, TPT_TRY(read_kineto(one, of_rank))});
    begin = next;
  }
  if (traces.empty())
    return error("{}: no rank ran anything (the merged trace is empty)", input.name());
  return traces;
}

}  // namespace triplepoint::trace
