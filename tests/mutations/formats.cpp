// SPDX-License-Identifier: Apache-2.0
#include "formats.h"

#include "triplepoint/base/lists.h"

#include "triplepoint/store/store_database.h"

namespace triplepoint::mutations {

Field* Record::find(const std::string& key) {
  for (Field& field : fields)
    if (field.key == key) return &field;
  return nullptr;
}

std::string Record::at(const std::string& key) const {
  for (const Field& field : fields)
    if (field.key == key) return field.text.value_or("");
  return "";
}

namespace {

using Records = std::vector<Record>;

constexpr int64_t unix_s = 1'735'689'600;  // 2025-01-01
constexpr int kernels = 14;
constexpr const char* gemm = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas";
constexpr const char* all_reduce = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(Args)";

Field number(std::string key, std::string text) {
  return {std::move(key), std::move(text), true};
}
Field number(std::string key, int64_t value) {
  return number(std::move(key), std::to_string(value));
}
Field word(std::string key, std::string text) {
  return {std::move(key), std::move(text), false};
}

/// What each of `kernels` launches does; ns since the training began.
struct Kernel {
  int64_t number, launched, begin, length;
  bool talks;
};
std::vector<Kernel> training() {
  return numbered(kernels, [](int64_t i) {
    return Kernel{i + 1, 1'000'000 + i * 400'000, 1'050'000 + i * 400'000,
                  230'000 + 7'000 * (i % 5), i % 4 == 3};
  });
}
std::string us(int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

// JSON -----------------------------------------------------------------------------------------

/// {"a": 1, "args": {"b": 2}} of the fields a and args/b; absent ones are left out.
std::string object(const Record& record) {
  std::string text = "{", inner;
  std::string section;
  const auto close = [&] {
    if (!section.empty())
      text += fmt::format("{}\"{}\": {{{}}}", text == "{" ? "" : ", ", section, inner);
    section.clear(), inner.clear();
  };
  for (const Field& field : record.fields) {
    if (!field.text) continue;
    const std::string value = field.is_number ? *field.text : "\"" + *field.text + "\"";
    const size_t slash = field.key.find('/');
    const std::string part = slash == field.key.npos ? "" : field.key.substr(0, slash);
    if (part != section) close();
    section = part;
    std::string& into = part.empty() ? text : inner;
    into += fmt::format("{}\"{}\": {}", into == "{" || into.empty() ? "" : ", ",
                        field.key.substr(part.empty() ? 0 : slash + 1), value);
  }
  close();
  return text + "}";
}

std::string joined_objects(const Records& records, const char* between) {
  std::string text;
  for (const Record& record : records)
    text += (text.empty() ? "" : between) + object(record);
  return text;
}

// Kineto ---------------------------------------------------------------------------------------

Record event(const char* category, std::string name, std::string process, std::string thread,
             int64_t base, int64_t begin, int64_t length) {
  return {category,
          {word("ph", "X"), word("cat", category), word("name", std::move(name)),
           number("pid", std::move(process)), number("tid", std::move(thread)),
           number("ts", us(base + begin)), number("dur", us(length))}};
}

Records kineto(int64_t base, const char* launch, const char* compute) {
  Records all = {
      event("user_annotation", "ProfilerStep#1", "100", "100", base, 950'000, kernels * 400'000)};
  for (const Kernel& k : training()) {
    all.push_back(event("cuda_runtime", launch, "100", "100", base, k.launched, 5'000));
    all.back().fields.push_back(number("args/correlation", k.number));
    all.push_back(event("kernel", k.talks ? all_reduce : compute, "0", k.talks ? "20" : "7", base,
                        k.begin, k.length));
    Record& kernel = all.back();
    kernel.fields.push_back(number("args/device", 0));
    kernel.fields.push_back(number("args/stream", k.talks ? 20 : 7));
    kernel.fields.push_back(number("args/correlation", k.number));
    if (!k.talks) continue;
    kernel.fields.push_back(number("args/In msg nelems", 1'048'576));
    kernel.fields.push_back(number("args/Group size", 8));
    kernel.fields.push_back(word("args/Collective name", "allreduce"));
  }
  return all;
}

std::string kineto_object(const Records& records) {
  return fmt::format(
      "{{\"schemaVersion\": 1, \"distributedInfo\": {{\"rank\": 3, \"world_size\": 8}}, "
      "\"baseTimeNanoseconds\": {}, \"traceEvents\": [\n{}\n]}}\n",
      unix_s * 1'000'000'000, joined_objects(records, ",\n"));
}

/// Device events as a begin and an end each.
std::string kineto_pairs(const Records& records) {
  Records all;
  for (const Record& record : records) {
    all.push_back(record);
    if (record.kind != "kernel") continue;
    Record end = {
        "end", {word("ph", "E"), number("pid", record.at("pid")), number("tid", record.at("tid"))}};
    const double begin = std::atof(record.at("ts").c_str()),
                 length = std::atof(record.at("dur").c_str());
    if (record.at("ts").empty() || record.at("dur").empty()) continue;  // an end is lost with it
    end.fields.push_back(number("ts", fmt::format("{:.3f}", begin + length)));
    all.back().find("ph")->text = "B";
    all.back().find("dur")->text.reset();
    all.push_back(std::move(end));
  }
  return kineto_object(all);
}

/// Two processes, as SGLang merges them.
Records kineto_processes() {
  Records all;
  for (const char* const prefix : {"[TP00] ", "[TP01] "})
    for (Record record : kineto(0, "cudaLaunchKernel", gemm)) {
      Field& process = *record.find("pid");
      process = word("pid", prefix + *process.text);
      all.push_back(std::move(record));
    }
  return all;
}

// Databases ------------------------------------------------------------------------------------

/// Records as rows of the table that their kind names.
std::string database(const Records& records, const std::vector<std::string>& first) {
  auto made = run::Database::create();
  std::string sql;
  for (const std::string& statement : first)
    sql += statement + ";";
  for (const Record& record : records) {
    std::string keys, values;
    for (const Field& field : record.fields) {
      keys += (keys.empty() ? "" : ",") + fmt::format("\"{}\"", field.key);
      const bool plain = field.text &&
                         field.text->find_first_not_of("-0123456789") == field.text->npos &&
                         !field.text->empty();
      values += (values.empty() ? "" : ",") + (!field.text ? "NULL"
                                               : plain     ? *field.text
                                                           : fmt::format("'{}'", *field.text));
    }
    sql += fmt::format("INSERT INTO {} ({}) VALUES ({});", record.kind, keys, values);
  }
  if (!made || !made->execute(sql.c_str())) return "";
  return *made->bytes();
}

constexpr int64_t process_id = (int64_t{1} << 48) + 10 * 0x1000000;

Records nsys() {
  Records all = {{"NVTX_EVENTS",
                  {number("start", 950'000), number("end", 950'000 + kernels * 400'000),
                   number("eventType", 59), word("text", "iteration 7"),
                   number("globalTid", process_id + 10)}}};
  for (const Kernel& k : training()) {
    all.push_back({"CUPTI_ACTIVITY_KIND_RUNTIME",
                   {number("start", k.launched), number("end", k.launched + 5'000),
                    number("globalTid", process_id + 10), number("correlationId", k.number),
                    number("nameId", 3)}});
    all.push_back({"CUPTI_ACTIVITY_KIND_KERNEL",
                   {number("start", k.begin), number("end", k.begin + k.length),
                    number("globalPid", process_id), number("deviceId", 0),
                    number("streamId", k.talks ? 20 : 7), number("correlationId", k.number),
                    number("demangledName", k.talks ? 2 : 1), number("gridX", 64)}});
  }
  return all;
}

std::string nsys_file(const Records& records) {
  return database(
      records,
      {"CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)",
       fmt::format("INSERT INTO StringIds VALUES (1,'{}'),(2,'{}'),(3,'cudaLaunchKernel_v7000')",
                   gemm, all_reduce),
       "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, \"end\", globalPid, deviceId, streamId, "
       "correlationId, demangledName, gridX)",
       "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, \"end\", globalTid, correlationId, "
       "nameId)",
       "CREATE TABLE NVTX_EVENTS (start, \"end\", eventType, text, globalTid)",
       "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs)",
       fmt::format("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES ({})",
                   unix_s * 1'000'000'000)});
}

constexpr const char* guid = "_00000000_1111_2222_3333_444444444444";

Records rocpd() {
  Records all;
  for (const Kernel& k : training()) {
    all.push_back({fmt::format("rocpd_event{}", guid),
                   {number("id", 2 * k.number), number("stack_id", k.number)}});
    all.push_back(
        {fmt::format("rocpd_region{}", guid),
         {number("start", k.launched), number("end", k.launched + 5'000), number("pid", 1),
          number("tid", 1), number("name_id", 1), number("event_id", 2 * k.number)}});
    all.push_back({fmt::format("rocpd_kernel_dispatch{}", guid),
                   {number("start", k.begin), number("end", k.begin + k.length), number("pid", 1),
                    number("agent_id", 4), number("kernel_id", k.talks ? 2 : 1),
                    number("stream_id", k.talks ? 20 : 7), number("event_id", 2 * k.number)}});
  }
  return all;
}

std::string rocpd_file(const Records& records) {
  return database(
      records,
      {fmt::format("CREATE TABLE rocpd_string{} (id, string)", guid),
       fmt::format("INSERT INTO rocpd_string{} VALUES (1,'hipLaunchKernel')", guid),
       fmt::format("CREATE TABLE rocpd_info_kernel_symbol{} (id, display_name)", guid),
       fmt::format("INSERT INTO rocpd_info_kernel_symbol{} VALUES (1,'Cijk_Alik_Bljk'),(2,'{}')",
                   guid, all_reduce),
       fmt::format("CREATE TABLE rocpd_event{} (id, stack_id)", guid),
       fmt::format("CREATE TABLE rocpd_region{} (start, \"end\", pid, tid, name_id, event_id)",
                   guid),
       fmt::format("CREATE TABLE rocpd_kernel_dispatch{} (start, \"end\", pid, agent_id, "
                   "kernel_id, stream_id, event_id)",
                   guid)});
}

Records rpd() {
  Records all;
  for (const Kernel& k : training())
    all.push_back({"rocpd_op",
                   {number("start", k.begin), number("end", k.begin + k.length), number("gpuId", 0),
                    number("queueId", k.talks ? 20 : 7), number("description_id", k.talks ? 2 : 1),
                    number("opType_id", 3)}});
  return all;
}

std::string rpd_file(const Records& records) {
  return database(
      records,
      {"CREATE TABLE rocpd_string (id, string)",
       fmt::format("INSERT INTO rocpd_string VALUES (1,'Cijk_Alik_Bljk'),(2,'{}'),"
                   "(3,'KernelExecution')",
                   all_reduce),
       "CREATE TABLE rocpd_op (start, \"end\", gpuId, queueId, description_id, opType_id)"});
}

// Tables ---------------------------------------------------------------------------------------

/// The titles in the first line, a record a row; what is absent is an empty cell.
std::string table(const Records& records, const char* between) {
  std::string text;
  const auto row = [&](const Record& record, bool of_titles) {
    std::string line;
    for (const Field& field : record.fields)
      line += (line.empty() ? "" : between) +
              (of_titles ? field.key : field.text.value_or("") + (field.text ? "" : " "));
    text += line + "\n";
  };
  if (!records.empty()) row(records.front(), true);
  for (const Record& record : records)
    row(record, false);
  return text;
}

Records rocprof(const char* name, const char* begin, const char* end, const char* queue) {
  Records all;
  for (const Kernel& k : training())
    all.push_back({"row",
                   {word(name, k.talks ? "ncclDevKernel_AllReduce" : "Cijk_Alik_Bljk"),
                    number(queue, k.talks ? 20 : 7), number(begin, k.begin),
                    number(end, k.begin + k.length)}});
  return all;
}

std::string commas(const Records& records) {
  return table(records, ",");
}

// Flight recorder and nccl-tests ---------------------------------------------------------------

Records flight_recorder() {
  Records all;
  constexpr int64_t ms = 1'000'000;
  for (int64_t i = 0; i < kernels; ++i) {
    const int64_t issued = unix_s * 1000 * ms + i * 10 * ms;
    all.push_back(
        {"entry",
         {number("record_id", i), number("pg_id", 0), word("process_group", "0"),
          number("collective_seq_id", i + 1), word("profiling_name", "nccl:all_reduce"),
          number("time_created_ns", issued), number("time_discovered_started_ns", issued + 50'000),
          number("time_discovered_completed_ns", issued + 1'200'000), number("duration_ms", "1.0"),
          number("input_sizes", "[[4096]]"), number("input_dtypes", "[\"BFloat16\"]"),
          number("output_sizes", "[[4096]]"), word("state", "completed"),
          number("is_p2p", "false")}});
  }
  return all;
}

std::string flight_recorder_file(const Records& records) {
  return fmt::format(
      "{{\"version\": \"2.10\", \"pg_config\": {{\"0\": {{\"name\": \"0\", \"desc\": "
      "\"default_pg\", \"ranks\": \"[0, 1, 2, 3]\"}}}}, \"entries\": [{}]}}",
      joined_objects(records, ",\n"));
}

// Logs -----------------------------------------------------------------------------------------

std::string clock_of(int64_t s) {
  return fmt::format("2025-01-01 10:{:02}:{:02}", s / 60, s % 60);
}

Records steps(int64_t seconds) {
  Records all;
  for (int64_t i = 1; i <= kernels; ++i)
    all.push_back({"line",
                   {number("stamp", clock_of(i * seconds)), number("step", i),
                    number("time", fmt::format("{}", seconds * 1000 + i % 3))}});
  return all;
}

/// Lines of a form that has {stamp}, {step} and {time} (ms).
std::string lines(const Records& records, const char* form) {
  std::string text;
  for (const Record& record : records) {
    std::string line = form;
    for (const Field& field : record.fields)
      if (const size_t at = line.find("{" + field.key + "}"); at != line.npos)
        line.replace(at, field.key.size() + 2, field.text.value_or(""));
    text += line + "\n";
  }
  return text;
}

Format log_format(const char* name, const char* form) {
  return {name, "train.log", [] { return steps(10); },
          [form](const Records& records) { return lines(records, form); }};
}

// Telemetry ------------------------------------------------------------------------------------

constexpr int gpus = 4, rows = 8;

/// Titles and values of one reading of one GPU; the time and the GPU come before.
Records readings(const char* time, const char* gpu, const std::vector<Field>& values) {
  Records all;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t g = 0; g < gpus; ++g) {
      Record record{"row", {number(time, unix_s + row), number(gpu, g)}};
      for (Field field : values) {
        field.text = std::to_string(std::stoll(*field.text) + row % 3 + 2 * g);
        record.fields.push_back(std::move(field));
      }
      all.push_back(std::move(record));
    }
  return all;
}

std::string dmon(const Records& records) {
  std::string text = "#Entity POWER TMPTR SMCLK GPUTL\nID W C MHz %\n";
  for (const Record& record : records) {
    std::string line = "GPU " + record.at("gpu");
    for (const char* const key : {"POWER", "TMPTR", "SMCLK", "GPUTL"})
      line += "  " + (record.at(key).empty() ? "N/A" : record.at(key));
    text += line + "\n";
  }
  return text;
}

std::string wandb(const Records& records) {
  return joined_objects(records, "\n") + "\n";
}
Records wandb_records() {
  Records all;
  for (int64_t row = 0; row < rows * 3; ++row) {
    Record record{"row", {number("_timestamp", unix_s + row)}};
    for (int64_t g = 0; g < 2; ++g) {
      record.fields.push_back(number(fmt::format("system.gpu.{}.temp", g), 60 + row % 4));
      record.fields.push_back(number(fmt::format("system.gpu.{}.powerWatts", g), 650 + row % 4));
    }
    all.push_back(std::move(record));
  }
  return all;
}

Records prometheus_records() {
  Records all;
  for (int64_t g = 0; g < gpus; ++g)
    for (int64_t row = 0; row < rows; ++row)
      all.push_back({"value",
                     {word("gpu", std::to_string(g)), number("time", unix_s + row),
                      word("value", std::to_string(60 + g + row % 3))}});
  return all;
}
std::string prometheus(const Records& records) {
  std::string series, values, gpu;
  const auto close = [&] {
    if (!values.empty())
      series += fmt::format(
          "{}{{\"metric\": {{\"__name__\": \"DCGM_FI_DEV_GPU_TEMP\", \"gpu\": \"{}\", "
          "\"Hostname\": \"a\"}}, \"values\": [{}]}}",
          series.empty() ? "" : ",", gpu, values);
    values.clear();
  };
  for (const Record& record : records) {
    if (record.at("gpu") != gpu) close();
    gpu = record.at("gpu");
    values +=
        fmt::format("{}[{}, \"{}\"]", values.empty() ? "" : ",",
                    record.at("time").empty() ? "null" : record.at("time"), record.at("value"));
  }
  close();
  return fmt::format(
      "{{\"status\": \"success\", \"data\": {{\"resultType\": \"matrix\", \"result\": [{}]}}}}",
      series);
}

Records zeus_power() {
  Records all;
  for (int64_t row = 0; row < 4 * rows; ++row)
    all.push_back({"row",
                   {number("time", fmt::format("{}.250", unix_s + row)),
                    number("power0", fmt::format("{}.5", 500 + row % 5)),
                    number("power1", fmt::format("{}.5", 300 + row % 5))}});
  return all;
}

Format table_format(const char* name, const char* time, const char* gpu,
                    std::vector<Field> values) {
  return {name, "telemetry.csv", [=] { return readings(time, gpu, values); }, commas, true};
}

std::vector<Format> trace_formats() {
  return {
      {"Kineto", "rank.json", [] { return kineto(0, "cudaLaunchKernel", gemm); }, kineto_object},
      {"Kineto, a list of events since 1970", "rank.json",
       [] { return kineto(unix_s * 1'000'000'000, "cudaLaunchKernel", gemm); },
       [](const Records& r) { return "[" + joined_objects(r, ",\n") + "]"; }},
      {"Kineto of AMD", "rank.json", [] { return kineto(0, "hipLaunchKernel", "Cijk_Alik_Bljk"); },
       kineto_object},
      {"Kineto, begins and ends", "rank.json", [] { return kineto(0, "cudaLaunchKernel", gemm); },
       kineto_pairs},
      {"Kineto of two processes", "merged.json", kineto_processes, kineto_object},
      {"Nsight Systems", "report.sqlite", nsys, nsys_file},
      {"rocpd", "results.db", rocpd, rocpd_file},
      {"RPD", "trace.rpd", rpd, rpd_file},
      {"rocprofv3 CSV", "kernel_trace.csv",
       [] { return rocprof("Kernel_Name", "Start_Timestamp", "End_Timestamp", "Queue_Id"); },
       commas},
      {"rocprof CSV", "results.csv",
       [] { return rocprof("KernelName", "BeginNs", "EndNs", "queue-id"); }, commas},
      {"flight recorder", "nccl_trace_rank_2", flight_recorder, flight_recorder_file},
      log_format("Megatron",
                 " [{stamp}] iteration {step}/ 1000 | consumed samples: 1 | elapsed time per "
                 "iteration (ms): {time} | global batch size: 128 | lm loss: 2.3 |"),
      log_format("DeepSpeed",
                 "[{stamp},123] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, "
                 "skipped=0, lr=[1e-05]"),
      log_format("torchtitan",
                 "[titan] {stamp},123 - root - INFO - step: {step}  loss:  7.6  "
                 "memory: 66.91GiB(37.51%)  tps: 10,050  mfu: 13.99%"),
  };
}

std::vector<Format> telemetry_formats() {
  return {
      {"nvidia-smi", "smi.csv", [] { return smi_records(gpus, rows, -1, {}); }, smi_text, true},
      table_format("rocm-smi", "timestamp", "device",
                   {number("Temperature (Sensor junction) (C)", 60),
                    number("Current Socket Graphics Package Power (W)", 700)}),
      table_format("amd-smi", "timestamp", "gpu",
                   {number("socket_power", 700), number("hotspot", 70), number("gfx_0_clk", 1800)}),
      {"amd-smi JSON", "amd.json",
       [] {
         return readings("timestamp", "gpu",
                         {number("power/socket_power", 700), number("temperature/hotspot", 70)});
       },
       [](const Records& r) { return "[" + joined_objects(r, ",") + "]"; }, true},
      {"wandb", "events.json", wandb_records, wandb, true},
      {"Prometheus", "query.json", prometheus_records, prometheus, true},
      {"Zeus", "power.csv", zeus_power, commas, true},
      {"dcgmi dmon", "dmon.txt",
       [] {
         return readings("time", "gpu",
                         {number("POWER", 650), number("TMPTR", 60), number("SMCLK", 1800),
                          number("GPUTL", 90)});
       },
       dmon, true},
  };
}

}  // namespace

std::vector<Record> smi_records(int64_t count, int64_t samples, int64_t changed,
                                const std::vector<std::pair<std::string, std::string>>& change) {
  Records all;
  for (int64_t row = 0; row < samples; ++row)
    for (int64_t g = 0; g < count; ++g) {
      const int64_t noise = (row * 7 + g * 3) % 4;
      Record record{
          "row",
          {number("timestamp", fmt::format("2026/09/08 07:{:02}:{:02}.279", row / 60, row % 60)),
           number("index", g), number("temperature.gpu", 60 + noise),
           number("power.draw [W]", fmt::format("{}.00 W", 640 + noise)),
           number("enforced.power.limit [W]", "700.00 W"),
           number("clocks.current.sm [MHz]", fmt::format("{} MHz", 1755 - 15 * (noise / 2))),
           number("utilization.gpu [%]", "100 %"),
           number("clocks_event_reasons.active", "0x0000000000000000")}};
      for (const auto& [title, value] : change)
        if (g == changed) record.find(title)->text = value;
      all.push_back(std::move(record));
    }
  return all;
}

std::string smi_text(const std::vector<Record>& records) {
  return table(records, ", ");
}

std::vector<Format> all_formats() {
  std::vector<Format> all = trace_formats();
  for (Format& format : telemetry_formats())
    all.push_back(std::move(format));
  return all;
}

}  // namespace triplepoint::mutations
