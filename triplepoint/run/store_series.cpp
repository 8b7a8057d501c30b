// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "triplepoint/run/store_items.h"
#include "triplepoint/run/store_timeline.h"

namespace triplepoint::run {

namespace {

/// Time axes, each stored once: a sampler reads many signals at one tick.
class Axes {
 public:
  explicit Axes(ColumnWriter& writer) : writer_(writer) {}

  Result<int64_t> number_of(const std::vector<Instant>& times) {
    const auto [found, is_new] = numbers_.emplace(&times, static_cast<int64_t>(numbers_.size()));
    if (!is_new) return found->second;
    std::vector<int64_t> nanoseconds(times.size());
    std::transform(times.begin(), times.end(), nanoseconds.begin(),
                   [](Instant t) { return t.nanoseconds(); });
    TPT_TRY(
        writer_.write({"axis", found->second, "time_ns"}, std::span<const int64_t>(nanoseconds)));
    return found->second;
  }

 private:
  struct ByContent {
    bool operator()(const std::vector<Instant>* a, const std::vector<Instant>* b) const {
      if (a == b) return false;
      if (a->size() != b->size()) return a->size() < b->size();
      return *a < *b;
    }
  };
  ColumnWriter& writer_;
  std::map<const std::vector<Instant>*, int64_t, ByContent> numbers_;
};

Result<std::vector<Instant>> read_axis(ColumnReader& reader, int64_t number,
                                       const std::string& file) {
  std::vector<Instant> times;
  for (int64_t t : TPT_TRY(reader.integers({"axis", number, "time_ns"})))
    if (!set_instant(times.emplace_back(), t) ||
        (times.size() > 1 && times.back() < times[times.size() - 2]))
      return error(fmt::format(
          "{} is damaged (time stamps go backwards); try the copy it was made from", file));
  return times;
}

}  // namespace

Result<bool> write_series(const Database& database, ColumnWriter& writer,
                          const std::vector<Series>& all) {
  Statement insert = TPT_TRY(database.prepare("INSERT INTO series VALUES(?,?,?,?,?)"));
  Axes axes(writer);
  for (size_t i = 0; i < all.size(); ++i) {
    const Series& series = all[i];
    const auto number = static_cast<int64_t>(i);
    const int64_t axis = TPT_TRY(axes.number_of(series.times));
    TPT_TRY(insert.bind(number)
                .bind(std::string_view(series.signal))
                .bind(int64_t{series.device})
                .bind(int64_t{series.of_node ? 1 : 0})
                .bind(axis)
                .run());
    TPT_TRY(writer.write({"series", number, "value"}, std::span<const double>(series.values)));
  }
  return true;
}

Result<bool> read_series(const Database& database, ColumnReader& reader, std::vector<Series>& all) {
  Statement row =
      TPT_TRY(database.prepare("SELECT id, signal, device, of_node, axis FROM series ORDER BY id"));
  std::map<int64_t, std::vector<Instant>> axes;
  while (TPT_TRY(row.next())) {
    Series series{.signal = row.text(1), .of_node = row.integer(3) != 0};
    const int64_t axis = row.integer(4);
    if (axes.count(axis) == 0) axes[axis] = TPT_TRY(read_axis(reader, axis, database.name()));
    series.times = axes[axis];
    series.values = TPT_TRY(reader.doubles({"series", row.integer(0), "value"}));
    if (!set_narrow(series.device, row.integer(2)) || series.values.size() != series.times.size())
      return error(fmt::format(
          "{} is damaged (series \"{}\" has {} values at {} times); try the copy it was made from",
          database.name(), series.signal, series.values.size(), series.times.size()));
    all.push_back(std::move(series));
  }
  return true;
}

}  // namespace triplepoint::run
