// SPDX-License-Identifier: Apache-2.0
#include "trainer/machine/machine.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "triplepoint/base/json.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/mark/mark.h"

#include "trainer/comm/endpoint.h"
#include "trainer/comm/transport.h"
#include "trainer/runtime/world.h"

namespace triplepoint::trainer {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

/// Those this process may run on.
int64_t core_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return sysconf(_SC_NPROCESSORS_ONLN);
  return CPU_COUNT(&set);
}

/// One rank, four microbatches: no communication at all.
Result<spec::Job> job_of(const std::string& model, int64_t micro_batch_size) {
  spec::Job job = TPT_TRY(spec::parse_job(spec::default_library(),
                                          fmt::format(R"(
model = "{}"
cluster = "laptop"
stack = "triplepoint-train"
[plan]
micro_batch_size = {}
global_batch_size = 8
precision = "fp32"
optimizer = "fp32_adamw"
)",
                                                      model, micro_batch_size),
                                          "triplepoint-machine"));
  job.cluster.num_nodes = job.cluster.gpus_per_node = 1;
  return job;
}

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return as_real(now.tv_sec) + 1e-9 * as_real(now.tv_nsec);
}

/// Of one call: the best of some batches, so that an interruption spoils one of them only.
double time_of(double seconds, const std::function<void()>& work) {
  work();
  const double begin = thread_core_seconds();
  int64_t calls = 0;
  do
    work(), ++calls;
  while (thread_core_seconds() - begin < seconds / 5);
  double best = (thread_core_seconds() - begin) / as_real(calls);
  for (int batch = 0; batch < 4; ++batch) {
    const double from = thread_core_seconds();
    for (int64_t i = 0; i < calls; ++i)
      work();
    best = std::min(best, (thread_core_seconds() - from) / as_real(calls));
  }
  return best;
}

struct Operands {
  std::vector<float> a, b, c;
};

/// Forward: C[m, n] = A[m, k] B[n, k]'; input gradient: A[m, k] B[k, n]; weight gradient:
/// A[k, m]' B[k, n].
double gemm_seconds(Math& math, const GemmRow& row, Operands& operands, double seconds) {
  double sum = 0;
  for (int way = 0; way < 3; ++way) {
    Gemm gemm;
    gemm.m = row.m, gemm.n = row.n, gemm.k = row.k;
    gemm.a = operands.a.data(), gemm.b = operands.b.data(), gemm.c = operands.c.data();
    gemm.a_transposed = way == 2, gemm.b_transposed = way == 0;
    gemm.a_stride = way == 2 ? row.m : row.k;
    gemm.b_stride = way == 0 ? row.k : row.n;
    gemm.c_stride = row.n;
    gemm.beta = way == 2 ? 1 : 0;
    sum += time_of(seconds / 3, [&] { math.gemm(gemm); });
  }
  return sum / 3;
}

}  // namespace

Result<std::vector<TrainingRow>> measure_trainings(const MachineEffort& effort) {
  std::vector<TrainingRow> rows;
  for (const char* model : {"tiny-llama", "tiny-gpt"})
    for (const int64_t micro_batch_size : {1, 2, 4}) {
      const spec::Job job = TPT_TRY(job_of(model, micro_batch_size));
      TrainSettings settings;
      settings.steps = effort.steps;
      settings.peak_flops = 1;  // not asked for
      TrainingRow row{model, micro_batch_size, job.plan.global_batch_size, 1e9, 1e9};
      double before = 0;
      const OnStep on_step = [&](const StepResult& step, const TrainReport&) {
        const double now = process_core_seconds();
        if (before > 0) row.core_seconds = std::min(row.core_seconds, now - before);
        if (before > 0) row.wall_seconds = std::min(row.wall_seconds, step.seconds);
        before = now;
      };
      TPT_TRY(train_with_threads(job, settings, endpoint_settings(job, 60), on_step));
      rows.push_back(row);
    }
  return rows;
}

Result<MachineRows> measure_machine(const MachineEffort& effort) {
  const std::unique_ptr<Math> math = make_cpu_math();
  MachineRows rows;
  rows.processor = processor_name();
  rows.cores = core_count();
  rows.memory_bytes = as_real(sysconf(_SC_PHYS_PAGES)) * as_real(sysconf(_SC_PAGESIZE));
  rows.call_seconds = measure_call(*math);
  rows.copy_bytes_per_second = measure_copy(effort);
  rows.gemms = measure_gemms(*math, effort);
  rows.attentions = measure_attention(*math, effort);
  rows.links = measure_links(effort);
  rows.trainings = TPT_TRY(measure_trainings(effort));
  return rows;
}

Json json_of(const MachineRows& rows) {
  Json gemms = Json::array(), attentions = Json::array(), links = Json::array(),
       trainings = Json::array();
  for (const GemmRow& row : rows.gemms)
    gemms.push_back({{"m", row.m}, {"n", row.n}, {"k", row.k}, {"seconds", row.seconds}});
  for (const AttentionRow& row : rows.attentions)
    attentions.push_back({{"batch", row.shape.sequences},
                          {"heads", row.shape.heads},
                          {"length", row.shape.length},
                          {"head_dim", row.shape.head_dim},
                          {"backward", row.backward},
                          {"flops", row.flops},
                          {"seconds", row.seconds}});
  for (const LinkRow& row : rows.links)
    links.push_back({{"collective", row.collective},
                     {"ranks", row.ranks},
                     {"bytes", row.bytes},
                     {"core_seconds", row.core_seconds},
                     {"wall_seconds", row.wall_seconds}});
  for (const TrainingRow& row : rows.trainings)
    trainings.push_back({{"model", row.model},
                         {"micro_batch_size", row.micro_batch_size},
                         {"global_batch_size", row.global_batch_size},
                         {"core_seconds", row.core_seconds},
                         {"wall_seconds", row.wall_seconds}});
  return {{"processor", rows.processor},
          {"cores", rows.cores},
          {"memory_bytes", rows.memory_bytes},
          {"call_seconds", rows.call_seconds},
          {"copy_bytes_per_second", rows.copy_bytes_per_second},
          {"gemm", gemms},
          {"attention", attentions},
          {"links", links},
          {"training", trainings}};
}

double thread_core_seconds() {
  return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

double process_core_seconds() {
  return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

std::vector<GemmRow> measure_gemms(Math& math, const MachineEffort& effort) {
  std::vector<GemmRow> rows;
  for (const int64_t m : {64, 128, 256, 512})
    for (const int64_t n : {128, 256, 512, 1024})
      for (const int64_t k : {64, 128, 256, 1024})
        rows.push_back({m, n, k, 0});
  Operands operands;
  for (std::vector<float>* each : {&operands.a, &operands.b, &operands.c})
    each->assign(size_t{1024} * 1024, 0.001F);
  for (GemmRow& row : rows)
    row.seconds = gemm_seconds(math, row, operands, effort.seconds);
  return rows;
}

std::vector<AttentionRow> measure_attention(Math& math, const MachineEffort& effort) {
  std::vector<AttentionRow> rows;
  for (const int64_t length : {64, 128, 256})
    for (const int64_t head_dim : {32, 64})
      for (const bool backward : {false, true}) {
        AttentionRow row;
        row.shape.sequences = 2, row.shape.length = length;
        row.shape.heads = row.shape.groups = 4;
        row.shape.head_dim = head_dim;
        row.backward = backward;
        const double products = backward ? 10 : 4;  // flops per pair and number of a head, halved
        row.flops = products * 0.5 * as_real(int64_t{8} * length * length * head_dim);
        const auto tokens = as_size(2 * length);
        const std::vector<float> start(tokens * as_size(row.shape.width()), 0.01F);
        std::vector<float> qkv = start, out(tokens * as_size(4 * head_dim), 0.01F);
        const std::vector<float> out_gradient(out.size(), 0.01F);
        std::vector<float> sums(tokens * 4);
        math.attention(row.shape, qkv.data(), out.data(), sums.data());
        row.seconds = time_of(effort.seconds, [&] {
          if (!backward) return math.attention(row.shape, qkv.data(), out.data(), sums.data());
          std::memcpy(qkv.data(), start.data(), start.size() * sizeof(float));
          math.attention_backward(row.shape, qkv.data(), out.data(), out_gradient.data(),
                                  sums.data());
        });
        rows.push_back(row);
      }
  return rows;
}

double measure_call(Math& math) {
  std::vector<float> x(16, 1), y(16, 1);
  return time_of(0.01, [&] { math.add(16, x.data(), y.data()); });
}

double measure_copy(const MachineEffort& effort) {
  std::vector<float> from(size_t{1} << 24, 1), to(size_t{1} << 24);
  const auto bytes = as_real(from.size() * sizeof(float));
  return 2 * bytes /
         time_of(effort.seconds, [&] { std::memcpy(to.data(), from.data(), from.size() * 4); });
}

namespace {

using spec::Collective;

struct Case {
  Collective collective;
  int64_t numbers;
};

struct CaseArrays {
  std::vector<float> whole, other;
};

void run_case(Communicator& all, const Case& one, CaseArrays& arrays) {
  const int64_t p = all.size(), me = all.index();
  const std::span<float> whole = arrays.whole, other = arrays.other;
  const auto block = other.subspan(0, as_size(one.numbers * (me + 1) / p - one.numbers * me / p));
  switch (one.collective) {
    case Collective::all_reduce:
      return all.all_reduce(whole).wait();
    case Collective::all_gather:
      return all.all_gather(block, whole).wait();
    case Collective::reduce_scatter:
      return all.reduce_scatter(whole, block).wait();
    case Collective::all_to_all:
    case Collective::broadcast:
      break;  // the trainer has none
    case Collective::send_recv:
      if (me == 0) return all.send(whole, 1, 0).wait();
      if (me == 1) return all.receive(whole, 0, 0).wait();
  }
}

LinkRow measure(Communicator& all, const Case& one, double seconds) {
  CaseArrays arrays;
  const auto count = as_size(one.numbers);
  arrays.whole.assign(count, 0), arrays.other.assign(count, 0);
  LinkRow row{.collective = std::string(spec::name_of(one.collective)),
              .ranks = all.size(),
              .bytes = as_real(one.numbers * 4)};
  const double bytes_per_second = 2e9;
  const auto rounds =
      static_cast<int>(std::clamp(seconds * bytes_per_second / (row.bytes + 10'000), 5.0, 2000.0));
  run_case(all, one, arrays);
  all.barrier();
  row.wall_seconds = 1e9;
  const double begin = thread_core_seconds();
  for (int i = 0; i < rounds; ++i) {
    const int64_t from = triplepoint_now();
    run_case(all, one, arrays);
    row.wall_seconds = std::min(row.wall_seconds, as_real(triplepoint_now() - from) * 1e-9);
  }
  row.core_seconds = (thread_core_seconds() - begin) / rounds;
  all.barrier();
  return row;
}

void measure_on(int ranks, const MachineEffort& effort, std::vector<LinkRow>& rows) {
  std::vector<std::thread> threads;
  std::vector<std::vector<LinkRow>> of_rank(as_size(ranks));
  auto transports = thread_transports(ranks);
  for (size_t rank = 0; rank < transports.size(); ++rank)
    threads.emplace_back([&, rank] {
      Endpoint endpoint(std::move(transports[rank]));
      std::vector<int> everybody(as_size(ranks));
      std::iota(everybody.begin(), everybody.end(), 0);
      const auto all = endpoint.communicator(spec::GroupKind::data, everybody);
      for (const Collective collective : {Collective::all_reduce, Collective::all_gather,
                                          Collective::reduce_scatter, Collective::send_recv})
        for (const int64_t numbers : {64, 4096, 16'384, 65'536, 262'144, 1'048'576})
          of_rank[rank].push_back(measure(*all, {collective, numbers}, effort.seconds));
    });
  for (std::thread& thread : threads)
    thread.join();
  for (size_t i = 0; !of_rank.empty() && i < of_rank.front().size(); ++i) {
    LinkRow row = of_rank.front()[i];
    const size_t taking_part = row.collective == "send_recv" ? 2 : of_rank.size();
    row.core_seconds = 0;
    for (size_t rank = 0; rank < taking_part; ++rank) {
      row.core_seconds += of_rank[rank][i].core_seconds / as_real(taking_part);
      row.wall_seconds = std::max(row.wall_seconds, of_rank[rank][i].wall_seconds);
    }
    rows.push_back(row);
  }
}

}  // namespace

std::vector<LinkRow> measure_links(const MachineEffort& effort) {
  std::vector<LinkRow> rows;
  for (const int ranks : {2, 4})
    measure_on(ranks, effort, rows);
  return rows;
}

}  // namespace triplepoint::trainer
