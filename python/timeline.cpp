// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/timeline.h"

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include <pybind11/stl.h>

#include "triplepoint/run/export.h"
#include "triplepoint/spec/names.h"

#include "python/run.h"
#include "python/wait.h"

namespace triplepoint::python {
namespace py = pybind11;
namespace {

/// The spans as columns; the lengths of all are equal.
struct SpanColumns {
  std::vector<int64_t> rank, begin_ns, end_ns, type, stage, microbatch, layer;
  std::vector<double> wait_s, bytes, flops;

  void add(const run::Span& span) {
    rank.push_back(span.rank);
    begin_ns.push_back(span.begin.nanoseconds());
    end_ns.push_back(span.end.nanoseconds());
    type.push_back(span.type);
    stage.push_back(span.stage);
    microbatch.push_back(span.microbatch);
    layer.push_back(span.layer);
    wait_s.push_back(span.wait / unit::s);
    bytes.push_back(span.bytes / unit::B);
    flops.push_back(span.flops / unit::FLOP);
  }
};

template <class T>
py::object column(const std::shared_ptr<const SpanColumns>& owner, const std::vector<T>& values) {
  return py::cast(Column{owner, values.data(), static_cast<py::ssize_t>(values.size()),
                         !std::is_same_v<T, double>});
}

/// What a span's type says, by its number.
py::list types_of(const run::Timeline& timeline) {
  py::list list;
  for (const run::SpanType& type : timeline.types) {
    py::dict one;
    one["name"] = type.name;
    one["kind"] = run::span_kind_name(type.kind);
    one["collective"] = type.collective ? py::cast(spec::enum_name(*type.collective)) : py::none();
    one["group"] = type.group ? py::cast(spec::enum_name(*type.group)) : py::none();
    list.append(one);
  }
  return list;
}

}  // namespace

std::vector<int32_t> ranks_of(const Run& run) {
  std::set<int32_t> ranks;
  for (const run::Span& span : run.run().timeline.spans)
    ranks.insert(span.rank);
  for (const run::PatternInstance& instance : run.run().timeline.instances)
    ranks.insert(instance.rank);
  return {ranks.begin(), ranks.end()};
}

py::dict timeline_of(const Run& run, std::optional<int32_t> rank) {
  const auto columns = wait_for<std::shared_ptr<const SpanColumns>>(
      [run, rank](Work&) -> Result<std::shared_ptr<const SpanColumns>> {
        auto all = std::make_shared<SpanColumns>();
        run::for_each_span(run.run().timeline, rank.value_or(-1),
                           [&](const run::Span& span) { all->add(span); });
        return all;
      });
  py::dict table;
  table["types"] = types_of(run.run().timeline);
  table["type"] = column(columns, columns->type);
  table["rank"] = column(columns, columns->rank);
  table["begin_ns"] = column(columns, columns->begin_ns);
  table["end_ns"] = column(columns, columns->end_ns);
  table["stage"] = column(columns, columns->stage);
  table["microbatch"] = column(columns, columns->microbatch);
  table["layer"] = column(columns, columns->layer);
  table["wait_s"] = column(columns, columns->wait_s);
  table["bytes"] = column(columns, columns->bytes);
  table["flops"] = column(columns, columns->flops);
  return table;
}

}  // namespace triplepoint::python
