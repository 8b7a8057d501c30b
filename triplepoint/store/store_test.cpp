// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/store/store.h"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/random.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/store/store_database.h"
#include "triplepoint/store/store_tables.h"

namespace triplepoint::run {
namespace {

namespace fs = std::filesystem;

spec::Job small_job() {
  spec::Job job;
  job.name = "small";
  job.origin = "command line";
  job.model = {.name = "tiny",
               .num_layers = 4,
               .hidden_size = 256,
               .ffn_hidden_size = 1024,
               .num_attention_heads = 8,
               .num_query_groups = 8,
               .kv_channels = 32,
               .sequence_length = 128,
               .vocabulary_size = 1000};
  job.cluster.name = "bench";
  job.cluster.gpu.name = "toy";
  job.plan.global_batch_size = 8;
  return job;
}

Series noisy_series(const char* signal, int32_t device, size_t count) {
  Series series{.signal = signal, .device = device};
  for (size_t i = 0; i < count; ++i) {
    series.times.emplace_back(static_cast<int64_t>(i) * 100'000'000);
    series.values.push_back(500 + 100 * random_normal({.seed = 1}, i));
  }
  return series;
}

Timeline patterned() {
  Timeline t;
  t.num_ranks = 3;
  t.names = NameKind::kernels;
  t.intern({.name = "qkv", .kind = SpanKind::compute, .op_class = spec::OpClass::gemm});
  t.intern({.name = "grad \"norm\" \n \xc3\xa9",
            .kind = SpanKind::communication,
            .stream = Stream::communication,
            .op_class = spec::OpClass::communication,
            .collective = spec::Collective::all_reduce,
            .group = spec::GroupKind::model});
  PatternPiece layer{.repeat = 24, .length = Seconds(1.00000000049e-3), .first_layer = 7};
  layer.spans = {{.begin = Instant(0), .end = Instant(500), .flops = Flops(1.23456789e12)}};
  PatternPiece head{.repeat = 1, .length = 1 * unit::ms};
  t.patterns = {{.name = "forward", .pieces = {layer, head}}, {.name = "empty"}};
  for (int32_t rank : {0, 2})
    t.instances.push_back(
        {.begin = Instant(1000 + rank), .pattern = 0, .rank = rank, .stage = 1, .microbatch = 5});
  for (int32_t rank : {0, 1, 2})
    t.spans.push_back({.begin = Instant(-5),
                       .end = Instant(90),
                       .type = 1,
                       .rank = rank,
                       .wait = Seconds(1.0 / 3),
                       .bytes = Bytes(0.5),
                       .flops = Flops(0)});
  return t;
}

/// The same with what a profiler knows.
Timeline profiled() {
  Timeline t = patterned();
  t.lanes = {{.rank = 0, .stream = Stream::communication, .number = 7, .name = "stream 7"},
             {.rank = 2, .stream = Stream::host, .number = int64_t{1} << 40, .name = ""}};
  t.communicators = {{.name = "default_pg", .ranks = {0, 2, 1}, .size = 3}, {.name = "unknown"}};
  t.details = {{.lane = 0, .communicator = 0, .sequence = 12, .correlation = int64_t{1} << 50},
               {.lane = 1, .blocks = 108, .threads_per_block = 256, .occupancy = 37.5F},
               {.communicator = 1, .in_elements = 1 << 30, .out_elements = 8}};
  return t;
}

Run full_run() {
  Run run;
  run.manifest = {.origin = Origin::imported,
                  .fidelity = Fidelity::step,
                  .name = "r\xc3\xa9sum\xc3\xa9",
                  .job = small_job(),
                  .producer = "triplepoint 0.1.0",
                  .numbers = "00c0ffee00c0ffee",
                  .epoch_unix_ns = 1234567890123,
                  .fits_memory = true,
                  .notes = {"one", "", "three"},
                  .hosts = {"", "node1"},
                  .anchors = {{.node = 1, .instant = Instant(-7), .unix_ns = 1234567890116}},
                  .facts = {{"limit_cycle", "no"}}};
  run.numbers = {.duration_s = 600.5,
                 .num_steps = 3,
                 .power_peak_w = 701.25,
                 .epoch_monotonic_ns = 9'007'199'254'740'993,  // no double has it
                 .world_size = 16};
  run.shutdown = Shutdown{.device = 3, .die_c = 92.5, .time = 12.5 * unit::s};
  run.devices = {
      {.index = 4,
       .node = 1,
       .local = 0,
       .slot = 2,
       .name = "toy",
       .rank = 0,
       .uuid = "GPU-1",
       .pci = "0000:1b:00.0"},
      {.index = 5, .node = 1, .local = 1, .slot = 3, .name = "toy", .power_counted_on = 0}};
  run.core_waits = {{0, Seconds(1.0 / 3)}, {5, 2 * unit::ms}};
  run.steps = {{.begin = Instant(-5), .end = Instant(2000), .samples = 8, .tokens = 1024}};
  run.timeline = patterned();
  run.series = {noisy_series("power_w", 4, 1000),
                noisy_series("die_c", 4, 1000),
                {.signal = "fan_share",
                 .device = 1,
                 .of_node = true,
                 .times = {Instant(3)},
                 .values = {0.25}},
                {.signal = "empty", .device = 5}};
  run.sources = {{.signal = "power_w",
                  .device = 4,
                  .scope = Scope::module,
                  .kind = ReadingKind::average,
                  .sensor = "nvml field 186",
                  .period = 100 * unit::ms,
                  .window = Seconds(1.0 / 3)},
                 {.signal = "fan_share", .device = 1, .of_node = true, .scope = Scope::node}};
  run.summaries = {{.power_mean_w = 612.5, .throttle = {{"software_power_cap", 0.25}}},
                   {.die_peak_c = 71.25, .energy_ledger_j = {{"idle", 0.1}, {"compute", 1e300}}}};
  run.bottlenecks = {{.who = {5, 4},
                      .evidence = {{Evidence::Kind::clock, 1008, 1850.5}},
                      .cost = Seconds(1.0 / 3)},
                     {.of = Bottleneck::Of::node,
                      .who = {1},
                      .evidence = {{Evidence::Kind::host, 3, 1}},
                      .cost = Seconds()}};
  run.memory = {{.weights = Bytes(1),
                 .gradients = Bytes(2),
                 .optimizer = Bytes(3),
                 .activations = Bytes(4),
                 .logits = Bytes(5),
                 .buffers = Bytes(6),
                 .reserve = Bytes(7)}};
  run.memory_limit = 80 * unit::GiB;
  run.model_flops = Flops(1.0 / 3);
  run.hardware_flops = Flops(2.0 / 3);
  run.peak_flops = FlopsPerSecond(989.4e12);
  return run;
}

void check_equal(const Run& a, const Run& b) {
  CHECK(a.manifest.origin == b.manifest.origin);
  CHECK(a.manifest.fidelity == b.manifest.fidelity);
  CHECK(a.manifest.name == b.manifest.name);
  CHECK(a.manifest.job == b.manifest.job);
  CHECK(a.manifest.producer == b.manifest.producer);
  CHECK(a.manifest.epoch_unix_ns == b.manifest.epoch_unix_ns);
  CHECK(a.manifest.fits_memory == b.manifest.fits_memory);
  CHECK(a.manifest.notes == b.manifest.notes);
  CHECK(a.manifest.facts == b.manifest.facts);
  CHECK(a.numbers == b.numbers);
  CHECK(a.core_waits == b.core_waits);
  CHECK(a.shutdown == b.shutdown);
  CHECK(a.manifest.hosts == b.manifest.hosts);
  CHECK(a.manifest.anchors == b.manifest.anchors);
  CHECK(a.sources == b.sources);
  CHECK(a.devices == b.devices);
  CHECK(a.steps == b.steps);
  CHECK(a.timeline == b.timeline);
  CHECK(a.series == b.series);
  CHECK(a.summaries == b.summaries);
  CHECK(a.memory == b.memory);
  CHECK(a.memory_limit == b.memory_limit);
  CHECK(a.model_flops == b.model_flops);
  CHECK(a.hardware_flops == b.hardware_flops);
  CHECK(a.peak_flops == b.peak_flops);
}

TEST_CASE("what is loaded equals what was saved, bit for bit") {
  const ScratchFolder folder;
  for (const Run& run : {Run{}, full_run()}) {
    REQUIRE(save(run, folder.path("a.run")));
    const auto loaded = must(load(folder.path("a.run")));
    check_equal(loaded, run);
  }
}

/// Series as a transient has them: signals of a device side by side, nodes at the end; one lacks.
Run run_of_many_devices() {
  Run run = full_run();
  run.devices.clear();
  run.summaries.clear();
  run.series.clear();
  const std::vector<Instant> times = {Instant(10), Instant(20), Instant(35)};
  for (int32_t d = 0; d < 5000; ++d) {
    run.devices.push_back({.index = d, .node = d / 8, .local = d % 8, .slot = d % 8});
    DeviceSummary& summary = run.summaries.emplace_back();
    summary.power_mean_w = 500 + d;
    if (d % 2 == 0) summary.throttle["software_power_cap"] = 0.25;
    summary.energy_ledger_j = {{"idle", 1.0 * d}, {"leakage", 0.1}};
    for (const char* signal : {"power_w", "die_c"})
      if (d != 4321 || signal == std::string_view("die_c"))
        run.series.push_back({signal, d, false, times, {500.25 + d, 1.0 / (1 + d), 40.5}});
  }
  for (int32_t node = 0; node < 625; ++node)
    run.series.push_back({"inlet_c", node, true, {Instant(10)}, {25.0 + node}});
  return run;
}

TEST_CASE("a run of many devices is kept compactly, and what is loaded equals it") {
  const ScratchFolder folder;
  const Run run = run_of_many_devices();
  REQUIRE(save(run, folder.path("many.run")));
  const Run loaded = load(folder.path("many.run")).value();
  CHECK(loaded.series == run.series);
  CHECK(loaded.summaries == run.summaries);
  CHECK(loaded.devices == run.devices);
  CHECK(peek(folder.path("many.run")).value().summaries == run.summaries);
  const Database database = Database::open(folder.path("many.run")).value();
  CHECK(database.ask("SELECT count(*) FROM series").value() < 10);
  CHECK(database.ask("SELECT count(*) FROM summary_share").value() == 0);
  CHECK(database.ask("PRAGMA user_version").value() == 2);
}

TEST_CASE("of many devices, two series of one signal and device are both kept") {
  const ScratchFolder folder;
  Run run = run_of_many_devices();
  Series again = run.series[0];
  again.values.front() += 1;
  run.series.insert(run.series.begin() + 1, again);
  REQUIRE(save(run, folder.path("twice.run")));
  const auto loaded = must(load(folder.path("twice.run")));
  CHECK(loaded.series == run.series);
}

TEST_CASE("places of series that cannot be are named damage") {
  const ScratchFolder folder;
  REQUIRE(save(run_of_many_devices(), folder.path("many.run")));
  for (const char* change :
       {"UPDATE series SET stride = 1 WHERE id = 0",
        "UPDATE series SET devices = 9999999 WHERE id = 0",
        "UPDATE series SET devices = -1 WHERE id = 0", "UPDATE series SET id = 99999 WHERE id = 0",
        "UPDATE chunk SET owner = 7 WHERE part = 'summary_share'"}) {
    CAPTURE(change);
    fs::copy_file(folder.path("many.run"), folder.path("bad.run"),
                  fs::copy_options::overwrite_existing);
    {
      Database file = Database::create_file(folder.path("bad.run")).value();
      REQUIRE(file.execute(change));
    }
    const auto result = load(folder.path("bad.run"));
    REQUIRE(!result);
    CHECK(result.error().what.find("damaged") != std::string::npos);
  }
}

TEST_CASE("what a profiler knew of the spans is kept") {
  const ScratchFolder folder;
  Run run;
  run.timeline = profiled();
  REQUIRE(save(run, folder.path("a.run")));
  CHECK(load(folder.path("a.run")).value().timeline == profiled());
}

TEST_CASE("a file from before profilers were read has spans without details") {
  std::string bytes = to_bytes(full_run()).value();
  for (const std::string name : {"lane", "communicator"})
    for (const std::string& entry : {"table" + name + name, "CREATE TABLE " + name}) {
      const size_t at = bytes.find(entry);
      REQUIRE(at != std::string::npos);
      std::string other = entry;
      for (size_t i = other.find(name); i != std::string::npos; i = other.find(name))
        other.replace(i, 3, "old");
      bytes.replace(at, entry.size(), other);
    }
  CHECK(from_bytes(bytes, "old.run").value().timeline == patterned());
}

TEST_CASE("a file from before recordings has no sources, hosts, waits and addresses") {
  const ScratchFolder folder;
  const std::string path = folder.path("a.run");
  REQUIRE(save(full_run(), path));
  {
    Database old = Database::create_file(path).value();
    REQUIRE(
        old.execute("DROP TABLE source; DROP TABLE host; DROP TABLE clock_anchor; DROP TABLE "
                    "core_wait; ALTER TABLE device DROP COLUMN uuid; ALTER TABLE device DROP "
                    "COLUMN pci; ALTER TABLE device DROP COLUMN power_counted_on"));
  }
  Run expected = full_run();
  expected.sources.clear();
  expected.manifest.hosts.clear();
  expected.manifest.anchors.clear();
  expected.core_waits.clear();
  for (Device& device : expected.devices) {
    device.uuid = device.pci = "";
    device.power_counted_on.reset();
  }
  check_equal(load(path).value(), expected);
}

TEST_CASE("spans of a file that are in no order are put in order") {
  const ScratchFolder folder;
  const std::string path = folder.path("a.run");
  Run run;
  run.timeline = patterned();
  REQUIRE(save(run, path));
  const Span early{.begin = Instant(-9), .end = Instant(-8), .type = 1, .rank = 1};
  {
    Database file = Database::create_file(path).value();
    ColumnWriter writer = ColumnWriter::create(file).value();
    REQUIRE(write_spans(writer, {early}));
  }
  const std::vector<Span> spans = load(path).value().timeline.spans;
  REQUIRE(spans.size() == 4);
  CHECK(spans[1] == early);
}

TEST_CASE("equal runs are equal files") {
  CHECK(to_bytes(full_run()).value() == to_bytes(full_run()).value());
}

TEST_CASE("saving replaces the old file and leaves nothing beside it") {
  const ScratchFolder folder;
  REQUIRE(save(full_run(), folder.path("a.run")));
  REQUIRE(save(Run{}, folder.path("a.run")));
  CHECK(load(folder.path("a.run")).value().devices.empty());
  CHECK(std::distance(fs::directory_iterator(folder.folder()), fs::directory_iterator()) == 1);
}

TEST_CASE("a peek shows everything but timeline and series") {
  const ScratchFolder folder;
  Run run = full_run();
  REQUIRE(save(run, folder.path("a.run")));
  CHECK(load_manifest(folder.path("a.run")).value().job == run.manifest.job);
  run.timeline = {};
  run.series.clear();
  check_equal(peek(folder.path("a.run")).value(), run);
}

std::string why(const Result<Run>& result) {
  REQUIRE(!result);
  return result.error().what;
}

TEST_CASE("what is no run file is named so") {
  const ScratchFolder folder;
  CHECK(why(load(folder.path("missing.run"))).find("missing.run") != std::string::npos);
  CHECK(why(load(folder.folder().string())).find("folder") != std::string::npos);
  std::ofstream(folder.path("text.run")) << "step,power\n1,2\n";
  CHECK(why(load(folder.path("text.run"))).find("is no run file") != std::string::npos);
  std::ofstream(folder.path("empty.run")).close();
  CHECK(why(load(folder.path("empty.run"))).find("is no run file") != std::string::npos);
}

TEST_CASE("a database of another program is no run file") {
  Database other = Database::create().value();
  REQUIRE(other.execute("CREATE TABLE t(a)"));
  const std::string bytes = other.bytes().value();
  CHECK(why(from_bytes(bytes, "other.db")).find("another program") != std::string::npos);
}

TEST_CASE("a newer format is refused by its number") {
  Database newer = Database::create().value();
  REQUIRE(create_tables(newer));
  REQUIRE(newer.execute("PRAGMA user_version = 99"));
  const std::string message = why(from_bytes(newer.bytes().value(), "new.run"));
  CHECK(message.find("format version 99") != std::string::npos);
  CHECK(message.find("newer triplepoint") != std::string::npos);
}

TEST_CASE("a truncated file is named so, wherever it ends") {
  const std::string bytes = to_bytes(full_run()).value();
  for (size_t size : {size_t{20}, size_t{5000}, bytes.size() / 2, bytes.size() - 1})
    CHECK(why(from_bytes(bytes.substr(0, size), "half.run")).find("truncated") !=
          std::string::npos);
}

TEST_CASE("damaged bytes yield a run or a sentence, never a crash") {
  const std::string good = to_bytes(full_run()).value();
  int refused = 0;
  for (uint64_t round = 0; round < 400; ++round) {
    std::string bad = good;
    for (uint64_t i = 0; i < 1 + round % 20; ++i) {
      const RandomKey key{.seed = round};
      const auto where = as_size(random_uniform(key, 2 * i) * as_real(bad.size()));
      bad[where] = static_cast<char>(random_bits(key, 2 * i + 1));
    }
    const Result<Run> run = from_bytes(bad, "bad.run");
    if (!run) CHECK(run.error().what.find("; ") != std::string::npos);
    if (!run) ++refused;
  }
  CHECK(refused > 10);
}

TEST_CASE("a view or an endless recursion in the file is not followed") {
  Database evil = Database::create().value();
  REQUIRE(create_tables(evil));
  REQUIRE(evil.execute(
      "DROP TABLE step; CREATE VIEW step AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + "
      "1 FROM r) "
      "SELECT n AS position, n AS begin_ns, n AS end_ns, n AS samples, n AS tokens FROM r"));
  CHECK(!from_bytes(evil.bytes().value(), "evil.run"));
}

/// Limits the size of this process's files, as a full disk does.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST_CASE("where there is no room for a run, saving says so and the old file stays") {
  const ScratchFolder folder;
  REQUIRE(save(full_run(), folder.path("a.run")));
  {
    const SmallDisk disk(10000);
    const Result<bool> saved = save(Run{}, folder.path("a.run"));
    REQUIRE(!saved);
    CHECK(saved.error().what.find("cannot write") != std::string::npos);
  }
  CHECK(load(folder.path("a.run")).value().devices.size() == 2);
  CHECK(std::distance(fs::directory_iterator(folder.folder()), fs::directory_iterator()) == 1);
}

TEST_CASE("a place that cannot be written is a sentence") {
  const ScratchFolder folder;
  std::ofstream(folder.path("file")).close();
  CHECK(save(Run{}, folder.path("file/a.run")).error().what.find("cannot write") !=
        std::string::npos);
  if (::geteuid() == 0) {
    MESSAGE("read-only folders are not checked: root may write into them");
    return;
  }
  fs::permissions(folder.folder(), fs::perms::owner_read | fs::perms::owner_exec);
  CHECK(save(Run{}, folder.path("a.run")).error().what.find("cannot write") != std::string::npos);
  fs::permissions(folder.folder(), fs::perms::owner_all);
}

TEST_CASE("a job that this version cannot read does not lose the run") {
  Run run = full_run();
  Database file = Database::from_bytes(to_bytes(run).value(), "a.run").value();
  const std::string bytes = [&] {
    std::string copy = file.bytes().value();
    const size_t at = copy.find("num_attention_heads");
    REQUIRE(at != std::string::npos);
    copy.replace(at, 3, "xxx");
    return copy;
  }();
  const Run loaded = from_bytes(bytes, "a.run").value();
  CHECK(!loaded.manifest.job);
  CHECK(loaded.manifest.facts.count("unread_job") == 1);
  CHECK(loaded.series == run.series);
}

TEST_CASE("sensor readings take less than two bytes a value") {
  Run run;
  size_t values = 0;
  for (int32_t device = 0; device < 8; ++device) {
    Series power = noisy_series("power_instant_w", device, 6000);
    Series heat = power, clock = power, reasons = power;
    heat.signal = "die_c";
    clock.signal = "sm_clock_mhz";
    reasons.signal = "throttle_reasons";
    double celsius = 60;
    for (size_t i = 0; i < power.values.size(); ++i) {
      const RandomKey key{.seed = static_cast<uint64_t>(device)};
      power.values[i] = std::round(power.values[i] * 10) / 10;
      celsius += 0.05 * random_normal(key, i);
      heat.values[i] = std::round(celsius);
      clock.values[i] = 1980 - 15 * std::round(5 * random_uniform(key, i));
      reasons.values[i] = clock.values[i] < 1950 ? 4 : 0;
      values += 4;
    }
    for (Series* series : {&power, &heat, &clock, &reasons})
      run.series.push_back(*series);
  }
  const double bytes = as_real(to_bytes(run).value().size());
  CHECK(bytes / as_real(values) < 2);
}

}  // namespace
}  // namespace triplepoint::run
