// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/kineto/samples_testing.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "triplepoint/base/random.h"

namespace triplepoint::trace::kineto {

namespace {

using Kind = SampleEvent::Kind;

constexpr int64_t process = 4711, second_ns = 1'000'000'000;
// 2021 and 2022 write microseconds since 1970; since mid 2024 they are since this base.
constexpr int64_t base_ns = 1'711'964'646 * second_ns, since_base_ns = 4'458'676 * second_ns;

bool has_base(TraceVersion vintage) {
  return vintage >= TraceVersion::current;
}

bool on_device(Kind kind) {
  return kind == Kind::kernel || kind == Kind::copy || kind == Kind::set;
}

std::string time_text(TraceVersion vintage, int64_t ns, bool is_begin) {
  if (is_begin) ns += has_base(vintage) ? since_base_ns : sample_epoch_unix_ns(vintage);
  if (granularity_ns(vintage) == 1000) {
    // Some of 2021 wrote their numbers as text.
    return vintage == TraceVersion::year_2021 && is_begin ? fmt::format("\"{}\"", ns / 1000)
                                                          : fmt::format("{}", ns / 1000);
  }
  if (vintage == TraceVersion::early_2024) {
    std::string text = fmt::format("{}.{:03}", ns / 1000, ns % 1000);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  }
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

std::string category(const SampleEvent& event, TraceVersion vintage) {
  const bool old = vintage == TraceVersion::year_2021;
  switch (event.kind) {
    case Kind::op:
    case Kind::collective_op:
      return old ? "Operator" : "cpu_op";
    case Kind::python:
      return "python_function";
    case Kind::annotation:
      return "user_annotation";
    case Kind::launch:
      if (vintage == TraceVersion::mtia) return "mtia_runtime";
      if (vintage == TraceVersion::xpu) return "xpu_runtime";
      return old ? "Runtime" : "cuda_runtime";
    case Kind::kernel:
      if (vintage == TraceVersion::mtia) return "mtia_ccp_events";
      return old ? "Kernel" : "kernel";
    case Kind::copy:
      return old ? "Memcpy" : "gpu_memcpy";
    case Kind::set:
      return old ? "Memset" : "gpu_memset";
  }
  return "";
}

/// What the operator of a collective says; newer profilers copy it to the kernel.
std::string collective_arguments(const SampleEvent& event, const SampleFile& file) {
  return fmt::format(
      R"("Collective name": "{}", "In msg nelems": {}, "Out msg nelems": {}, "Group size": {}, )"
      R"("dtype": "BFloat16", "In split size": "[]", "Process Group Name": "3", )"
      R"("Process Group Description": "dp group", "Process Group Ranks": "[{}, {}]")",
      file.collective, event.elements, event.elements, file.world_size, file.rank, file.rank + 1);
}

bool is_collective(const SampleEvent& event) {
  return event.kind == Kind::kernel && event.elements >= 0;
}

std::string device_arguments(const SampleEvent& event, const SampleFile& file) {
  const TraceVersion vintage = file.vintage;
  std::string text = fmt::format(R"("device": {}, "stream": {}, "correlation": {})", file.rank % 8,
                                 event.place, event.correlation);
  if (vintage != TraceVersion::amd && vintage != TraceVersion::mtia) {
    const char* const key = vintage == TraceVersion::year_2021 ? "external id" : "External id";
    // Until 2023 this was the correlation once more.
    const int64_t id = vintage < TraceVersion::early_2024 ? event.correlation : event.external_id;
    text = fmt::format(R"("{}": {}, "queued": 0, "context": 1, )", key, id) + text;
  }
  if (event.kind != Kind::kernel)
    return text +
           fmt::format(R"x(, "bytes": {}, "memory bandwidth (GB/s)": 12.5)x", event.elements);
  if (vintage != TraceVersion::amd && vintage != TraceVersion::mtia)
    text +=
        R"(, "blocks per SM": 0.074074, "grid": [8, 2, 1], "block": [256, 1, 1], "est. achieved occupancy %": 38)";
  if (is_collective(event) && vintage == TraceVersion::current)
    text += ", " + collective_arguments(event, file);
  return text;
}

std::string arguments(const SampleEvent& event, const SampleFile& file) {
  if (on_device(event.kind)) return device_arguments(event, file);
  switch (event.kind) {
    case Kind::launch: {
      std::string text = fmt::format(R"("External id": {}, "cbid": 211, "correlation": {})",
                                     event.external_id, event.correlation);
      if (file.vintage == TraceVersion::amd) text += R"(, "grid": [8, 2, 1], "block": [256, 1, 1])";
      return text;
    }
    case Kind::python:
      return R"("Python parent id": 12, "Python id": 13, "Ev Idx": 7)";
    case Kind::collective_op:
      if (file.vintage == TraceVersion::amd || file.vintage == TraceVersion::current)
        return fmt::format(R"("External id": {}, )", event.external_id) +
               collective_arguments(event, file);
      return fmt::format(
          R"("External id": {}, "Input Dims": [[{}], [], []], "Input type": ["c10::BFloat16", "", ""])",
          event.external_id, event.elements);
    default:
      return fmt::format(
          R"("External id": {}, "Ev Idx": 3, "Input Dims": [[64, 1024], [1024], []], "Input type": ["float", "float", ""], "Concrete Inputs": ["", "", "1.5]}}"])",
          event.external_id);
  }
}

void append(std::string& text, const SampleEvent& event, const SampleFile& file) {
  const bool device = on_device(event.kind);
  const std::string thread = device && file.vintage == TraceVersion::year_2021
                                 ? fmt::format("\"stream {}\"", event.place)
                                 : std::to_string(event.place);
  fmt::format_to(
      std::back_inserter(text),
      "  {{\n    \"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": {}, \"tid\": {},\n"
      "    \"ts\": {}, \"dur\": {},\n    \"args\": {{\n      {}\n    }}\n  }},\n",
      category(event, file.vintage), event.name, device ? file.rank % 8 : process, thread,
      time_text(file.vintage, event.begin_ns, true),
      time_text(file.vintage, event.length_ns, false), arguments(event, file));
  if (event.correlation >= 0)
    fmt::format_to(std::back_inserter(text),
                   "  {{\n    \"ph\": \"{}\", \"id\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {},\n"
                   "    \"cat\": \"{}\", \"name\": \"ac2g\"\n  }},\n",
                   device ? 'f' : 's', event.correlation, device ? file.rank % 8 : process, thread,
                   time_text(file.vintage, event.begin_ns, true),
                   file.vintage == TraceVersion::year_2021 ? "async" : "ac2g");
}

std::string head(const SampleFile& file) {
  return fmt::format(
      "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {{\n      \"id\": 0, \"name\": "
      "\"{}\", "
      "\"warpSize\": {}, \"numSms\": 132\n    }}\n  ],\n  \"distributedInfo\": {{\"backend\": "
      "\"nccl\", "
      "\"rank\": {}, \"world_size\": {}}},\n  \"traceEvents\": [\n",
      file.vintage == TraceVersion::amd ? "AMD Instinct Sample" : "Sample GPU",
      file.vintage == TraceVersion::amd ? 64 : 32, file.rank, file.world_size);
}

std::string tail(const SampleFile& file) {
  std::string text =
      "  {\n    \"ph\": \"X\", \"cat\": \"Trace\", \"ts\": 0, \"dur\": 1, \"pid\": \"Spans\", "
      "\"tid\": \"PyTorch Profiler\",\n"
      "    \"name\": \"PyTorch Profiler (0)\", \"args\": {\"Op count\": 0}\n  },\n"
      "  {\n    \"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\", \"pid\": \"\", "
      "\"tid\": \"\", \"ts\": 0\n  }\n"
      "  ],\n  \"traceName\": \"sample.json\",\n  \"displayTimeUnit\": \"ms\"";
  if (has_base(file.vintage)) text += fmt::format(",\n  \"baseTimeNanoseconds\": {}", base_ns);
  return text + "\n}";
}

/// Without line breaks and what follows them.
std::string joined(const std::string& text) {
  std::string line;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\n') {
      line.push_back(text[i]);
      continue;
    }
    while (i + 1 < text.size() && text[i + 1] == ' ')
      ++i;
  }
  return line;
}

/// Makes the events of a step one after the other.
class StepMaker {
 public:
  StepMaker(const SampleShape& shape, int64_t granularity)
      : shape_(shape), granularity_(granularity) {}

  std::vector<SampleEvent> make() && {
    const int64_t begin = host_;
    for (int layer = 0; layer < shape_.layers; ++layer) {
      for (int op = 0; op < shape_.ops_per_layer; ++op)
        add_op(op);
      add_collective();
    }
    add({Kind::annotation, "ProfilerStep#12", begin, std::max(host_, device_) - begin,
         main_thread});
    return std::move(events_);
  }

 private:
  static constexpr int64_t main_thread = 100, compute_stream = 7, collective_stream = 20;

  int64_t some(int64_t least, int64_t most) {
    const double share = random_uniform({.seed = shape_.seed}, draws_++);
    const auto ns = least + static_cast<int64_t>(share * static_cast<double>(most - least));
    return (ns / granularity_ + 1) * granularity_;
  }
  void add(SampleEvent event) { events_.push_back(std::move(event)); }

  /// A call on the host and what it launches, which begins after both the call and its stream.
  void launch(SampleEvent device, int64_t& stream_free, int64_t external_id) {
    const int64_t called = host_ + some(500, 2000), length = some(2000, 6000);
    device.correlation = ++correlation_;
    device.external_id = external_id;
    add({Kind::launch, "cudaLaunchKernel", called, length, main_thread, correlation_, external_id});
    device.begin_ns = std::max(called + length, stream_free) + some(500, 3000);
    stream_free = device.begin_ns + device.length_ns;
    add(std::move(device));
    host_ = called + length + some(500, 3000);
  }

  void add_op(int op) {
    static constexpr const char* names[] = {
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
        "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>(int)",
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t>>()",
        "Memcpy DtoD (Device -> Device)", "Memset (Device)"};
    static constexpr Kind kinds[] = {Kind::kernel, Kind::kernel, Kind::kernel, Kind::copy,
                                     Kind::set};
    const auto which = static_cast<size_t>(op) % std::size(names);
    const int64_t begin = host_, id = ++external_id_;
    SampleEvent device{kinds[which], names[which], 0, some(2000, 80000), compute_stream};
    if (kinds[which] != Kind::kernel) device.elements = 4096;
    launch(std::move(device), device_, id);
    add({Kind::op, fmt::format("aten::op_{}", which), begin, host_ - begin, main_thread, -1, id});
    if (shape_.python)
      add({Kind::python, fmt::format("torch/nn/modules/module.py({}): _call_impl", 1000 + op),
           begin, host_ - begin, main_thread});
  }

  void add_collective() {
    const int64_t begin = host_, id = ++external_id_;
    const int64_t elements = 1024 * (1 + (external_id_ % 7));
    launch({.kind = Kind::kernel,
            .name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long)",
            .length_ns = some(20000, 200000),
            .place = collective_stream,
            .elements = elements},
           collective_, id);
    add({.kind = Kind::collective_op,
         .name = "record_param_comms",
         .begin_ns = begin,
         .length_ns = host_ - begin,
         .place = main_thread,
         .external_id = id,
         .elements = elements});
  }

  const SampleShape& shape_;
  int64_t granularity_;
  std::vector<SampleEvent> events_;
  int64_t host_ = 0, device_ = 0, collective_ = 0;  // until when each is busy
  int64_t correlation_ = 0, external_id_ = 0;
  uint64_t draws_ = 0;
};

/// The text of a step whose numbers that grow from step to step stand at fixed places.
class RepeatingSource : public Source {
 public:
  RepeatingSource(const SampleShape& shape, uint64_t bytes) : bytes_(bytes), pending_(head(file_)) {
    std::vector<SampleEvent> events = sample_step(shape, 1);
    for (const SampleEvent& event : events)
      step_ns_ = std::max(step_ns_, event.begin_ns + event.length_ns);
    for (SampleEvent& event : events) {
      if (event.correlation >= 0) event.correlation += first_correlation;
      correlations_ += on_device(event.kind) ? 1 : 0;
      append(step_, event, file_);
    }
    find_numbers("\"ts\": ", times_);
    find_numbers("\"correlation\": ", ids_);
  }

  Result<size_t> read(std::span<char> room) override {
    if (used_ == pending_.size()) next();
    const size_t size = std::min(room.size(), pending_.size() - used_);
    std::memcpy(room.data(), pending_.data() + used_, size);
    used_ += size;
    return size;
  }

 private:
  static constexpr int64_t first_correlation = 1'000'000'000;  // as many digits in every step

  void find_numbers(std::string_view key, std::vector<size_t>& places) const {
    for (size_t at = step_.find(key); at != std::string::npos; at = step_.find(key, at + 1))
      places.push_back(at + key.size());
  }

  /// Adds to the number at `at`, point or not; it keeps its width.
  void add_at(size_t at, int64_t number) {
    size_t end = at;
    while ((step_[end] >= '0' && step_[end] <= '9') || step_[end] == '.')
      ++end;
    for (size_t i = end; i > at && number > 0; --i) {
      if (step_[i - 1] == '.') continue;
      number += step_[i - 1] - '0';
      step_[i - 1] = static_cast<char>('0' + number % 10);
      number /= 10;
    }
  }

  void next() {
    used_ = 0;
    made_ += pending_.size();
    if (ended_) return pending_.clear();
    if (made_ >= bytes_) {
      ended_ = true;
      pending_ = tail(file_);
      return;
    }
    if (steps_++ > 0) {
      for (const size_t at : times_)
        add_at(at, step_ns_);
      for (const size_t at : ids_)
        add_at(at, correlations_);
    }
    pending_ = step_;
  }

  SampleFile file_;
  uint64_t bytes_, made_ = 0;
  std::string step_, pending_;
  size_t used_ = 0;
  std::vector<size_t> times_, ids_;
  int64_t step_ns_ = 0, correlations_ = 0, steps_ = 0;
  bool ended_ = false;
};

}  // namespace

int64_t granularity_ns(TraceVersion vintage) {
  if (vintage == TraceVersion::early_2024) return 250;
  return vintage < TraceVersion::early_2024 ? 1000 : 1;
}

int64_t sample_epoch_unix_ns(TraceVersion) {
  return base_ns + since_base_ns;
}

std::string sample_text(const std::vector<SampleEvent>& events, const SampleFile& file) {
  std::string text = head(file);
  for (const SampleEvent& event : events)
    append(text, event, file);
  text += tail(file);
  return file.one_line ? joined(text) : text;
}

std::vector<SampleEvent> sample_step(const SampleShape& shape, int64_t granularity) {
  return StepMaker(shape, granularity).make();
}

std::unique_ptr<Source> endless_sample(const SampleShape& shape, uint64_t bytes) {
  return std::make_unique<RepeatingSource>(shape, bytes);
}

}  // namespace triplepoint::trace::kineto
