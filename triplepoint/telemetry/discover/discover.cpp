// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/discover/discover.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/table_writer.h"

namespace triplepoint::telemetry {
namespace {

std::string models_text(const std::vector<DeviceFacts>& devices) {
  std::map<std::string, int> count;
  for (const DeviceFacts& facts : devices)
    ++count[facts.device.name];
  return joined(
      mapped(count, [](const auto& of) { return fmt::format("{} x {}", of.second, of.first); }),
      ", ");
}

/// Bytes per second of all links of a GPU in one direction; nothing if a link does not say.
std::optional<BytesPerSecond> link_bandwidth(const DeviceFacts& facts) {
  std::optional<BytesPerSecond> sum;
  for (const LinkFacts& link : facts.links) {
    if (!link.bandwidth) return std::nullopt;
    sum = sum.value_or(BytesPerSecond()) + *link.bandwidth;
  }
  return sum;
}

int32_t link_count(const DeviceFacts& facts) {
  int32_t count = 0;
  for (const LinkFacts& link : facts.links)
    count += link.count;
  return count;
}

/// Links to another GPU of this node make a mesh; the others end in a switch.
spec::ScaleUpKind scale_up_of(const std::vector<DeviceFacts>& devices) {
  bool any = false, direct = false;
  for (const DeviceFacts& facts : devices)
    for (const LinkFacts& link : facts.links) {
      any = true;
      direct |= link.kind == LinkKind::xgmi || !link.remote_pci.empty();
    }
  if (!any) return spec::ScaleUpKind::pcie;
  return direct ? spec::ScaleUpKind::mesh : spec::ScaleUpKind::nvswitch;
}

void fill_links(const std::vector<DeviceFacts>& devices, NodeShape& shape) {
  shape.scale_up = scale_up_of(devices);
  shape.links = link_count(devices.front());
  shape.scale_up_bandwidth = link_bandwidth(devices.front());
  for (const DeviceFacts& facts : devices) {
    if (link_count(facts) == shape.links) continue;
    shape.remarks.push_back(fmt::format("GPU {} has {} links up, GPU {} has {}", facts.device.local,
                                        link_count(facts), devices.front().device.local,
                                        shape.links));
    shape.links = std::max(shape.links, link_count(facts));
    if (link_bandwidth(facts) > shape.scale_up_bandwidth)
      shape.scale_up_bandwidth = link_bandwidth(facts);
  }
}

/// The adapters that join nodes: InfiniBand and RoCE; without them, the fastest Ethernet.
void fill_nics(const std::vector<NicFacts>& all, NodeShape& shape) {
  std::vector<NicFacts> nics;
  for (const NicFacts& nic : all)
    if (nic.up && nic.bandwidth && nic.kind != NicKind::ethernet) nics.push_back(nic);
  if (nics.empty())
    for (const NicFacts& nic : all)
      if (nic.up && nic.bandwidth) nics.push_back(nic);
  if (nics.empty()) {
    shape.remarks.push_back("no network adapter says how fast it is");
    return;
  }
  const auto slower = [](const NicFacts& a, const NicFacts& b) {
    return a.bandwidth < b.bandwidth;
  };
  const NicFacts fastest = *std::ranges::max_element(nics, slower);
  shape.nic_bandwidth = fastest.bandwidth;
  for (const NicFacts& nic : nics) {
    if (nic.bandwidth == fastest.bandwidth)
      ++shape.nics;
    else
      shape.remarks.push_back(
          fmt::format("{} is slower than the others, and is left out", nic.name));
  }
}

}  // namespace

Result<NodeShape> shape_of(const Sensors& sensors) {
  const std::vector<DeviceFacts>& devices = sensors.devices;
  if (devices.empty())
    return error(
        "no driver reports a GPU here (a cluster description needs GPUs); run it on a node with "
        "GPUs, triplepoint doctor lists what is missing, triplepoint show clusters the described "
        "machines");
  const std::string& model = devices.front().device.name;
  if (std::ranges::any_of(devices,
                          [&](const DeviceFacts& facts) { return facts.device.name != model; }))
    return error("this node has {} (GPUs of a cluster are all equal); choose with --devices",
                 models_text(devices));
  const DeviceFacts& first = devices.front();
  NodeShape shape{.host = sensors.node.host,
                  .model = model,
                  .gpus = static_cast<int64_t>(devices.size()),
                  .memory = first.memory,
                  .power_limit = first.power_limit,
                  .power_limit_default = first.power_limit_default,
                  .power_limit_min = first.power_limit_min,
                  .max_clock = first.max_sm_clock};
  fill_links(devices, shape);
  fill_nics(sensors.node.nics, shape);
  return shape;
}

namespace {

using telemetry::NodeShape;

constexpr double small_message_b = 64e6;  // below, latency counts

std::string gigabits(BytesPerSecond bandwidth) {
  return fmt::format("{:.4g} Gb/s", bandwidth / (unit::Gb / unit::s));
}

/// Tables and their sources, as they are found.
class Draft {
 public:
  explicit Draft(std::string measured_by) : measured_by_(std::move(measured_by)) {}

  /// One line of a table; `kind` and `cite` of its source.
  void set(const std::string& table, const std::string& key, const std::string& value,
           const std::string& kind = "measured", const std::string& cite = "") {
    tables_[table] += fmt::format("{} = {}\n", key, value);
    sources_[{kind, cite.empty() ? measured_by_ : cite}].push_back(table + "." + key);
  }
  void name(const std::string& table, const std::string& key, const std::string& word) {
    tables_[table] += fmt::format("{} = {}\n", key, toml_text(word));
  }
  std::string text() const {
    std::string all;
    for (const auto& [table, lines] : tables_)
      all += fmt::format("[{}]\n{}\n", table, lines);
    for (const auto& [source, keys] : sources_) {
      const std::string list = triplepoint::joined(
          mapped(keys, [](const std::string& key) { return toml_text(key); }), ", ");
      all += fmt::format("[[source]]\nkeys = [{}]\nkind = {}\ncite = {}\n\n", list,
                         toml_text(source.first), toml_text(source.second));
    }
    all.pop_back();
    return all;
  }

 private:
  std::string measured_by_;
  std::map<std::string, std::string> tables_;  // "cluster" sorts before "cluster.gpu"
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> sources_;
};

template <class T>
void compare(ClusterDraft& draft, const char* what, const std::optional<T>& found,
             const std::optional<T>& library, const char* source) {
  if (!found || !library || *library <= T()) return;
  draft.comparisons.push_back(
      {what, to_text(*found, 4), to_text(*library, 4), *found / *library, source});
}

/// Numbers of the GPU that differ from the library's by more than rounding: another memory size, a
/// lowered clock. Equal ones stay the library's, with their better sources.
void set_gpu(const NodeShape& shape, const spec::Gpu& gpu, Draft& draft) {
  draft.name("cluster.gpu", "base", gpu.name);
  const auto differs = [](auto found, auto held) {
    return found && (!held || std::abs(*found / *held - 1) > 0.005);
  };
  if (differs(shape.memory, gpu.memory))
    draft.set("cluster.gpu", "memory", spec::value_text(*shape.memory));
  if (differs(shape.power_limit_default, gpu.tdp))
    draft.set("cluster.gpu", "tdp", spec::value_text(*shape.power_limit_default));
  if (differs(shape.power_limit_min, gpu.min_power_limit))
    draft.set("cluster.gpu", "min_power_limit", spec::value_text(*shape.power_limit_min));
  if (differs(shape.max_clock, gpu.max_clock))
    draft.set("cluster.gpu", "max_clock", spec::value_text(*shape.max_clock));
}

void set_links(const NodeShape& shape, const spec::Cluster& base, Draft& draft) {
  const std::string table = "cluster.scale_up";
  if (shape.scale_up) draft.name(table, "kind", std::string(spec::enum_name(*shape.scale_up)));
  // The driver says the line rate, a datasheet what is left of it for data (NVLink 4: 26.6 and 25
  // GB/s a link), and the library's efficiencies are shares of the latter.
  const double ratio =
      shape.scale_up_bandwidth ? *shape.scale_up_bandwidth / base.scale_up.bandwidth : 1;
  if (!Comparison{.ratio = ratio}.agrees())
    draft.set(table, "bandwidth", spec::value_text(*shape.scale_up_bandwidth));
  const bool of_one_node = base.scale_up.domain_size == base.gpus_per_node;
  if (of_one_node) draft.set(table, "domain_size", spec::value_text(shape.gpus));
  if (shape.nics == 0 || !shape.nic_bandwidth) return;
  draft.set("cluster.scale_out", "nics_per_node", spec::value_text(shape.nics));
  draft.set("cluster.scale_out", "nic_bandwidth", toml_text(gigabits(*shape.nic_bandwidth)));
}

/// Fewer GPUs sit on the first slots of the library's chassis, more on copies of them: the air of
/// this node was not measured.
std::vector<spec::Slot> slots_for(const NodeShape& shape, const std::vector<spec::Slot>& known) {
  const auto count = as_size(shape.gpus);
  std::vector<spec::Slot> slots;
  for (std::size_t i = 0; i < count && !known.empty(); ++i)
    slots.push_back(known[i % known.size()]);
  for (spec::Slot& slot : slots)
    if (!slot.upstream_heating.empty()) slot.upstream_heating.resize(count);
  return slots;
}

void set_slots(const NodeShape& shape, const spec::Cluster& base, std::string& toml) {
  if (shape.gpus == base.gpus_per_node) return;
  const auto write = [&](const std::string& table, const spec::Chassis& chassis) {
    std::vector<spec::Slot> slots = slots_for(shape, chassis.slots);
    spec::TableWriter writer(nullptr, table);
    writer("slots", slots);
    toml += writer.text();
    toml += fmt::format(
        "\n[[source]]\nkeys = [\"{}.slots.*\"]\nkind = \"assumed\"\n"
        "cite = \"the slots of {}, for {} GPUs\"\n",
        table, base.name, shape.gpus);
  };
  write("cluster.chassis", base.chassis);
  if (base.liquid_chassis) write("cluster.liquid_chassis", *base.liquid_chassis);
}

/// Best bus bandwidth of an operation's large messages.
std::optional<BytesPerSecond> best_of(const trace::NcclTests& tests, std::string_view operation) {
  std::optional<BytesPerSecond> best;
  for (const trace::NcclTestRow& row : tests.rows)
    if (row.operation == operation && row.size / unit::B >= small_message_b && !row.in_place)
      best = std::max(best.value_or(BytesPerSecond()), row.bus_bandwidth);
  return best;
}

struct Tested {
  const char *operation, *key;
  double spec::ScaleUp::*up;
  double spec::ScaleOut::*out;
};
// Rings first: an all-reduce may be done by the switch, and then says nothing of the links.
constexpr Tested tested[] = {
    {"all_gather", "efficiency", &spec::ScaleUp::efficiency, &spec::ScaleOut::efficiency},
    {"reduce_scatter", "efficiency", &spec::ScaleUp::efficiency, &spec::ScaleOut::efficiency},
    {"all_reduce", "efficiency", &spec::ScaleUp::efficiency, &spec::ScaleOut::efficiency},
    {"all_to_all", "all_to_all_efficiency", &spec::ScaleUp::all_to_all_efficiency,
     &spec::ScaleOut::all_to_all_efficiency},
    {"alltoall", "all_to_all_efficiency", &spec::ScaleUp::all_to_all_efficiency,
     &spec::ScaleOut::all_to_all_efficiency},
    {"sendrecv", "point_to_point_efficiency", &spec::ScaleUp::point_to_point_efficiency,
     &spec::ScaleOut::point_to_point_efficiency},
};

/// Which bandwidth the tests were limited by: a GPU's links inside of a node, a GPU's share of the
/// adapters between nodes.
struct Limit {
  bool inside = true;
  BytesPerSecond bandwidth;
  std::string table, words;
};

std::optional<Limit> limit_of(const NodeShape& shape, const spec::Cluster& base,
                              const trace::NcclTests& tests) {
  Limit limit;
  limit.inside = tests.ranks <= shape.gpus;
  limit.table = limit.inside ? "cluster.scale_up" : "cluster.scale_out";
  limit.words = limit.inside ? "links" : "adapters";
  if (limit.inside) {
    limit.bandwidth = shape.scale_up_bandwidth.value_or(base.scale_up.bandwidth);
    return limit;
  }
  const auto nics = as_real(shape.nics > 0 ? shape.nics : base.scale_out.nics_per_node);
  // A ring that crosses nodes leaves each node over all its adapters.
  limit.bandwidth = nics * shape.nic_bandwidth.value_or(base.scale_out.nic_bandwidth);
  return limit.bandwidth > BytesPerSecond() ? std::optional(limit) : std::nullopt;
}

void use_tests(const NodeShape& shape, const spec::Cluster& base, const trace::NcclTests& tests,
               Draft& toml, ClusterDraft& draft) {
  const auto limit = limit_of(shape, base, tests);
  if (!limit) return;
  std::map<std::string, bool> done;
  for (const Tested& test : tested) {
    const auto reached = best_of(tests, test.operation);
    if (!reached) continue;
    const double share = *reached / limit->bandwidth;
    const double library = limit->inside ? base.scale_up.*test.up : base.scale_out.*test.out;
    draft.comparisons.push_back({fmt::format("{} over the {}' bandwidth, {} ranks", test.operation,
                                             limit->words, tests.ranks),
                                 fmt::format("{:.3g} ({})", share, to_text(*reached, 3)),
                                 fmt::format("{:.3g}", library), share / library, "nccl-tests"});
    if (share > 1) {
      draft.remarks.push_back(fmt::format(
          "{} is faster than the {} are: the switch reduces (NVLS), or links were not all counted",
          test.operation, limit->words));
      continue;
    }
    if (done[test.key]) continue;
    done[test.key] = true;
    toml.set(limit->table, test.key, fmt::format("{:.3f}", share), "measured",
             fmt::format("nccl-tests {} on {} ranks, largest messages: {} bus bandwidth",
                         test.operation, tests.ranks, to_text(*reached, 3)));
  }
  if (done.empty())
    draft.remarks.push_back(
        "the nccl-tests output has no large messages (64 MB and more) of operations that measure "
        "links");
}

void compare_all(const NodeShape& shape, const spec::Cluster& base, ClusterDraft& draft) {
  compare(draft, "links of one GPU, one direction", shape.scale_up_bandwidth,
          std::optional(base.scale_up.bandwidth), "driver");
  if (shape.nic_bandwidth)
    compare(draft, "adapters of a node, one direction",
            std::optional(as_real(shape.nics) * *shape.nic_bandwidth),
            std::optional(as_real(base.scale_out.nics_per_node) * base.scale_out.nic_bandwidth),
            "sysfs");
  compare(draft, "memory of one GPU", shape.memory, base.gpu.memory, "driver");
  compare(draft, "design power", shape.power_limit_default, base.gpu.tdp, "driver");
  compare(draft, "highest SM clock", shape.max_clock, base.gpu.max_clock, "driver");
  if (shape.scale_up && *shape.scale_up != base.scale_up.kind)
    draft.remarks.push_back(fmt::format(
        "GPUs are joined by {} here, in {} by {}; the library's latencies and efficiencies are "
        "used",
        spec::enum_name(*shape.scale_up), base.name, spec::enum_name(base.scale_up.kind)));
}

std::string title_of(const NodeShape& shape) {
  std::string title = fmt::format("{} x {}", shape.gpus, shape.model);
  if (shape.nics > 0 && shape.nic_bandwidth)
    title += fmt::format(", {} x {}", shape.nics, gigabits(*shape.nic_bandwidth));
  return title + fmt::format(" (found on {})", shape.host);
}

}  // namespace

Result<ClusterDraft> draft_cluster(const spec::Library& library, const NodeShape& shape,
                                   const std::optional<trace::NcclTests>& tests) {
  const auto gpu = spec::gpu_named(shape.model);
  const auto base_name = gpu ? spec::usual_cluster(*gpu) : std::nullopt;
  if (!base_name)
    return error(
        "no GPU of the library is a \"{}\" (its peaks and bandwidths are not known); describe it "
        "under gpus/ in the data folder, triplepoint show gpus shows examples",
        shape.model);
  const spec::Cluster base = TPT_TRY(spec::load_cluster(library, *base_name));
  ClusterDraft draft{.base = base.name, .gpu = base.gpu.name, .remarks = shape.remarks};
  Draft toml(fmt::format("driver and kernel of {}, triplepoint discover", shape.host));
  toml.name("cluster", "base", base.name);
  toml.name("cluster", "title", title_of(shape));
  toml.set("cluster", "num_nodes", "1");
  toml.set("cluster", "gpus_per_node", spec::value_text(shape.gpus));
  set_gpu(shape, base.gpu, toml);
  set_links(shape, base, toml);
  compare_all(shape, base, draft);
  if (tests) use_tests(shape, base, *tests, toml, draft);
  if (shape.power_limit && shape.power_limit_default &&
      *shape.power_limit < *shape.power_limit_default)
    draft.remarks.push_back(
        fmt::format("the power limit is {} now, {} by default; simulate with --power-limit \"{}\"",
                    to_text(*shape.power_limit), to_text(*shape.power_limit_default),
                    to_text(*shape.power_limit)));
  draft.toml = fmt::format("# What is not said here is as in {}.\n", base.name) + toml.text();
  set_slots(shape, base, draft.toml);
  return draft;
}

}  // namespace triplepoint::telemetry
