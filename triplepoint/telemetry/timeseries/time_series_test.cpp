// SPDX-License-Identifier: Apache-2.0
// Other samplers' files: what they hold, and that what is no reading is no number.
#include <algorithm>
#include <array>

#include <doctest/doctest.h>

#include "triplepoint/base/scratch_folder.h"
#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/timeseries/collector.h"
#include "triplepoint/telemetry/timeseries/reader.h"

namespace triplepoint::telemetry {
namespace {

using Values = std::vector<double>;

run::Run read(const std::string& text, const char* name = "gpus.csv",
              const TimeSeriesOptions& options = {}) {
  const ScratchFolder folder;
  const Path file = folder.file(name, text);
  CHECK(looks_like_time_series(file));
  const auto run = read_time_series(file, options);
  REQUIRE_MESSAGE(run.has_value(), run.error().what);
  return *run;
}

std::string refusal(const std::string& text, const TimeSeriesOptions& options = {}) {
  const ScratchFolder folder;
  const auto run = read_time_series(folder.file("gpus.csv", text), options);
  REQUIRE_FALSE(run);
  return run.error().what;
}

Values values_of(const run::Run& run, const char* signal, int32_t device) {
  const run::Series* const found = run::find_series(run, signal, device);
  return found == nullptr ? Values() : found->values;
}

bool says(const run::Run& run, const std::string& words) {
  return std::ranges::any_of(run.manifest.notes,
                             [&](const std::string& note) { return contains(note, words); });
}

double seconds(const run::Series& series, std::size_t i) {
  return (series.times[i] - Instant()) / unit::s;
}

TEST_CASE("the same readings are the same run, whichever sampler wrote them") {
  struct Written {
    const char *name, *producer, *text;
  };
  const std::array files = {
      Written{"smi.csv", "nvidia-smi",
              "WARNING: a GPU is asleep\n\n"
              "timestamp, index, temperature.gpu, power.draw.instant [W], clocks.current.sm [MHz]\n"
              "Tue Sep  8 07:20:00.250 UTC 2026, 0, 61, 412.50 W, 1755 MHz\n"
              "Tue Sep  8 07:20:00.250 UTC 2026, 1, 55, 401.00 W, 1800 MHz\n"
              "Tue Sep  8 07:20:01.250 UTC 2026, 0, 62, 413.50 W, 1740 MHz\n"
              "Tue Sep  8 07:20:01.250 UTC 2026, 1, 56, 402.00 W, 1785 MHz\n"},
      Written{"upper.csv", "another sampler",
              "TIMESTAMP,GPU_Index,temperature_C,power_W,SM_Clock_MHz\n"
              "2026-09-08T07:20:00.250Z,0,61,412.5,1755\n2026-09-08T07:20:00.250Z,1,55,401,1800\n"
              "2026-09-08T07:20:01.250Z,0,62,413.5,1740\n2026-09-08T07:20:01.250Z,1,56,402,1785\n"},
      Written{"zone.csv", "another sampler",
              "time;gpu;temp;power [mW];sm_clock [GHz]\n"
              "2026-09-08 09:20:00,250 +02:00;0;61,0;412500;1,755\n"
              "2026-09-08 09:20:00,250 +02:00;1;55,0;401000;1,8\n"
              "2026-09-08 09:20:01,250 +02:00;0;62,0;413500;1,74\n"
              "2026-09-08 09:20:01,250 +02:00;1;56,0;402000;1,785\n"},
      Written{"dmon.txt", "nvidia-smi",
              "#Date       Time        gpu    pwr  gtemp     sm   pclk\n"
              "#YYYYMMDD   HH:MM:SS    Idx      W      C      %    MHz\n"
              " 20260908   07:20:00.25   0  412.5     61     99   1755\n"
              " 20260908   07:20:00.25   1    401     55     99   1800\n"
              " 20260908   07:20:01.25   0  413.5     62     99   1740\n"
              " 20260908   07:20:01.25   1    402     56      -   1785\n"},
      Written{
          "wandb.json", "wandb",
          R"({"_timestamp":1788852000.25,"system.gpu.0.temp":61,"system.gpu.0.powerWatts":412.5,)"
          R"("system.gpu.0.smClock":1755,"system.gpu.1.temp":55,"system.gpu.1.powerWatts":401,)"
          R"("system.gpu.1.smClock":1800,"system.gpu.process.0.memoryTemp":60})"
          "\n"
          R"({"_timestamp":1788852001.25,"system.gpu.0.temp":62,"system.gpu.0.powerWatts":413.5,)"
          R"("system.gpu.0.smClock":1740,"system.gpu.1.temp":56,"system.gpu.1.powerWatts":402,)"
          R"("system.gpu.1.smClock":1785})"
          "\n"},
      Written{"range.json", "Prometheus",
              R"({"status":"success","data":{"resultType":"matrix","result":[)"
              R"({"metric":{"__name__":"DCGM_FI_DEV_GPU_TEMP","gpu":"0"},)"
              R"("values":[[1788852000.25,"61"],[1788852001.25,"62"]]},)"
              R"({"metric":{"__name__":"triplepoint_gpu_temperature_celsius","gpu":"1"},)"
              R"("values":[[1788852000.25,"55"],[1788852001.25,"56"]]},)"
              R"({"metric":{"__name__":"triplepoint_gpu_sm_clock_hertz","gpu":"0"},)"
              R"("values":[[1788852000.25,"1.755e9"],[1788852001.25,"1.74e9"]]},)"
              R"({"metric":{"__name__":"DCGM_FI_DEV_SM_CLOCK","gpu":"1"},)"
              R"("values":[[1788852000.25,"1800"],[1788852001.25,"1785"]]},)"
              R"({"metric":{"__name__":"DCGM_FI_DEV_POWER_USAGE_INSTANT","gpu":"0"},)"
              R"("values":[[1788852000.25,"412.5"],[1788852001.25,"413.5"]]},)"
              R"({"metric":{"__name__":"DCGM_FI_DEV_POWER_USAGE_INSTANT","gpu":"1"},)"
              R"("values":[[1788852000.25,"401"],[1788852001.25,"402"]]}]}})"}};
  for (const Written& file : files) {
    CAPTURE(std::string(file.name));
    const run::Run run = read(file.text, file.name);
    REQUIRE(run.devices.size() == 2);
    CHECK(run.manifest.producer == file.producer);
    CHECK(values_of(run, "memory_c", 0).empty());
    CHECK(run.manifest.epoch_unix_ns == 1'788'852'000'250'000'000);  // date -u -d ... +%s
    CHECK(values_of(run, "die_c", 0) == Values{61, 62});
    CHECK(values_of(run, "die_c", 1) == Values{55, 56});
    CHECK(values_of(run, "power_instant_w", 0) == Values{412.5, 413.5});
    CHECK(values_of(run, "power_instant_w", 1) == Values{401, 402});
    CHECK(values_of(run, "sm_clock_mhz", 0) == Values{1755, 1740});
    CHECK(values_of(run, "sm_clock_mhz", 1) == Values{1800, 1785});
    CHECK(seconds(*run::find_series(run, "die_c", 1), 1) == doctest::Approx(1));
  }
}

TEST_CASE("AMD's tools: junction and package, apart from NVIDIA's") {
  const std::array texts = {
      "device,Temperature (Sensor junction) (C),Current Socket Graphics Package Power (W),sclk "
      "clock "
      "speed:\ncard0,80.0,745.0,(2100Mhz)\ncard1,70.0,N/A,(2050Mhz)\n",
      "timestamp,gpu,gfx_activity,socket_power,gfx_0_clk,edge,hotspot,mem\n"
      "1788852000,0,100,745,2100,N/A,80,62\n1788852000,1,100,N/A,2050,N/A,70,61\n",
      R"x({"card0":{"Temperature (Sensor junction) (C)":"80.0",)x"
      R"x("Current Socket Graphics Package Power (W)":"745.0","sclk clock speed:":"(2100Mhz)"},)x"
      R"x("card1":{"Temperature (Sensor junction) (C)":"70.0","sclk clock speed:":"(2050Mhz)"}})x",
      R"([{"gpu":0,"usage":{"gfx_activity":{"value":100,"unit":"%"}},"power":{"socket_power":)"
      R"({"value":745,"unit":"W"}},"clock":{"gfx_0":{"clk":{"value":2100,"unit":"MHz"}}},)"
      R"("temperature":{"edge":"N/A","hotspot":{"value":80,"unit":"C"}}},)"
      R"({"gpu":1,"power":{"socket_power":"N/A"},"clock":{"gfx_0":{"clk":{"value":2050,"unit":)"
      R"("MHz"}}},"temperature":{"hotspot":{"value":70,"unit":"C"}}}])",
      // Of the exporter: clocks of all types and dies have one name.
      R"({"resultType":"matrix","result":[)"
      R"({"metric":{"__name__":"gpu_package_power","gpu_id":"0"},"values":[[1788852000,"745"]]},)"
      R"({"metric":{"__name__":"amd_gpu_junction_temperature","gpu_id":"1"},)"
      R"("values":[[1788852000,"70"]]},)"
      R"({"metric":{"__name__":"gpu_clock","gpu_id":"0","clock_type":"GPU_CLOCK_TYPE_SYSTEM",)"
      R"("clock_index":"0"},"values":[[1788852000,"2100"]]},)"
      R"({"metric":{"__name__":"gpu_clock","gpu_id":"0","clock_type":"GPU_CLOCK_TYPE_SYSTEM",)"
      R"("clock_index":"1"},"values":[[1788852000,"1900"]]},)"
      R"({"metric":{"__name__":"gpu_clock","gpu_id":"0","clock_type":"GPU_CLOCK_TYPE_VIDEO",)"
      R"("clock_index":"0"},"values":[[1788852000,"29"]]}]})"};
  for (const char* const text : texts) {
    CAPTURE(text);
    const run::Run run = read(text, *text == 'd' || *text == 't' ? "amd.csv" : "amd.json");
    REQUIRE(run.devices.size() == 2);
    CHECK(values_of(run, "junction_c", 1) == Values{70});
    CHECK(values_of(run, "sm_clock_mhz", 0) == Values{2100});
    CHECK(values_of(run, "power_instant_w", 0) == Values{745});
    CHECK(run::find_series(run, "power_instant_w", 1) == nullptr);
    CHECK(run::find_series(run, "die_c", 0) == nullptr);
  }
  CHECK(column_of("gpu_energy_consumed").unit == 1e-6);  // its exporter tells microjoules
}

TEST_CASE("in the table of dcgmi entities are two words, and a power violation is no power") {
  const run::Run run = read(
      "#Entity   POWER   TMPTR   SMCLK   PVIOL   DVCCTR\nID        W       C       MHz\n"
      "GPU 0     412.5   61      1755    12345   4\nGPU 3     N/A     55      1800    0       136\n"
      "#Entity   POWER   TMPTR   SMCLK   PVIOL   DVCCTR\nID        W       C       MHz\n"
      "GPU 0     413.5   62      1740    12345   0\nGPU 3     402     56      1785    0       "
      "136\n",
      "dmon.txt");
  REQUIRE(run.devices.size() == 2);
  CHECK(run.devices[1].local == 3);
  CHECK(values_of(run, "power_instant_w", 0) == Values{412.5, 413.5});
  CHECK(values_of(run, "throttle_reasons", 1) == Values{136, 136});
  CHECK(says(run, "1 s apart"));
  CHECK(says(run, "power_instant_w of GPU 3: 1 of 2 readings are not there"));
  CHECK(says(run, "not read: PVIOL"));
}

// Eight GPUs, twenty moments; any reading may be replaced by what is none.
std::string table_of(int gpu, int row, const std::string& temperature, const std::string& power) {
  std::string text = "timestamp, index, temperature.gpu, power.draw [W], clocks.current.sm [MHz]\n";
  for (int i = 0; i < 20; ++i)
    for (int g = 0; g < 8; ++g) {
      const bool here = g == gpu && (i == row || row < 0);
      text += fmt::format("2026/09/08 07:20:{:02}.000, {}, {}, {}, {} MHz\n", i, g,
                          here ? temperature : fmt::format("{}", 60 + g),
                          here ? power : fmt::format("{} W", 690 + g), 1800 - g);
    }
  return text;
}

TEST_CASE("an absent, implausible or broken reading is no number, changes no other, and is told") {
  const run::Run whole = read(table_of(-1, 0, "", ""));
  const std::array<const char*, 14> none = {
      "",     "N/A", "[N/A]", "ERR!", "[Unknown Error]", "[GPU is lost]", "nan", "0", "255", "-1",
      "2112", "168", "inf",   "None"};
  for (const char* const word : none)
    for (const int row : {-1, 0, 7, 19}) {
      CAPTURE(word);
      CAPTURE(row);
      const std::string power =
          word == std::string("168") || word == std::string("255") || word == std::string("2112")
              ? "-5 W"
              : word;
      const run::Run run = read(table_of(5, row, word, power));
      REQUIRE(run.devices.size() == 8);
      for (const run::Series& series : whole.series) {
        const bool hit = series.device == 5 && series.signal != "sm_clock_mhz";
        const Values now = values_of(run, series.signal.c_str(), series.device);
        CHECK(now.size() == (!hit ? 20 : row < 0 ? 0 : 19));
        for (const double value : now)
          CHECK(value == series.values.front());
      }
      CHECK(says(run, fmt::format("die_c of GPU 5: {} of 20 readings are", row < 0 ? 20 : 1)));
      CHECK(says(run, "power_average_w of GPU 5"));
    }
}

TEST_CASE("decimal commas are numbers, messages and cut rows are none") {
  const run::Run commas = read(
      "index, temperature.gpu, power.draw [W]\n0,\"62,5\",\"690,12 W\"\n1,\"60,0\",\"1000,5 W\"\n");
  CHECK(values_of(commas, "die_c", 0) == Values{62.5});
  CHECK(values_of(commas, "power_average_w", 1) == Values{1000.5});
  std::string text = table_of(-1, 0, "", "");
  const std::size_t at = text.find("2026/09/08 07:20:09");
  text.insert(at, "Unable to determine the device handle for GPU3: 0000:1D:00.0: Unknown Error\n");
  text.resize(text.size() - 20);
  const run::Run run = read(text);
  CHECK(says(run, "2 lines are no rows"));
  CHECK(values_of(run, "die_c", 7).size() == 19);
  CHECK(values_of(run, "die_c", 6).size() == 20);
  // A number may be cut, too.
  const run::Run cut = read("index, temperature.gpu\n0, 60\n1, 72\n0, 61\n1, 72\n0, 6");
  CHECK(values_of(cut, "die_c", 0) == Values{60, 61});
  CHECK(says(cut, "may be cut"));
}

TEST_CASE("GPUs are told apart by bus address, UUID, host or the order of rows") {
  const run::Run bus = read(
      "timestamp,pci.bus_id,temperature.gpu\n1788852000,00000000:43:00.0,61\n"
      "1788852000,00000000:1B:00.0,55\n");
  CHECK(values_of(bus, "die_c", 0) == Values{55});
  CHECK(bus.devices[0].pci == "0000:1b:00.0");
  const run::Run uuid =
      read("uuid,index,temperature.gpu\nGPU-0b8f2cd5-1111-2222-3333-444444444444,3,61\n");
  CHECK(uuid.devices[0].uuid == "GPU-0b8f2cd5-1111-2222-3333-444444444444");
  CHECK(uuid.devices[0].local == 3);
  const run::Run hosts =
      read("host,index,temp_c\nberta,0,60\nanna,0,61\nberta,1,62\n32-39,32-39,\n");
  CHECK(hosts.manifest.hosts == std::vector<std::string>{"berta", "anna"});
  CHECK(hosts.devices[2].node == 1);
  CHECK(says(hosts, "1 rows name no single GPU"));
  const run::Run nodes = read("gpu,temp_c\n5,60\n", "gpus.csv", {.gpus_per_node = 4});
  CHECK(nodes.devices[0].node == 1);
  const run::Run bare = read(
      "timestamp, power.draw [W]\n1788852000.5, 300 W\n1788852000.5, 200 W\n"
      "1788852001.5, 301 W\n1788852001.5, 201 W\n");
  CHECK(values_of(bare, "power_average_w", 1) == Values{200, 201});
  CHECK(says(bare, "the 2 rows of each time are taken to be of 2 GPUs"));
}

/// A power series a GPU: its labels, its watts.
std::string answer_of(const std::vector<std::pair<std::string, int>>& series, int seconds = 40) {
  std::string text;
  for (const auto& [labels, watts] : series) {
    text +=
        fmt::format("{}{{\"metric\":{{\"__name__\":\"DCGM_FI_DEV_POWER_USAGE\",{}}},\"values\":[",
                    text.empty() ? "" : ",", labels);
    for (int i = 0; i < seconds; ++i)
      text += fmt::format("{}[{},\"{}\"]", i > 0 ? "," : "", 1788852000 + i, watts + i % 7);
    text += "]}";
  }
  return R"({"status":"success","data":{"resultType":"matrix","result":[)" + text + "]}}";
}

TEST_CASE("series of a query are GPUs by UUID, else by the labels that tell them apart") {
  struct Told {
    const char *one, *other;
    std::size_t gpus;
    const char* note;
  };
  const std::array all = {
      Told{R"("gpu":"0","kubernetes_node":"a")", R"("gpu":"0","kubernetes_node":"b")", 2, ""},
      Told{R"("gpu":"0","exported_instance":"a")", R"("gpu":"0","exported_instance":"b")", 2, ""},
      Told{R"("gpu":"0","rack":"a","job":"x")", R"("gpu":"0","rack":"b","job":"x")", 2, "(rack)"},
      Told{R"("gpu":"0","Hostname":"n","cluster":"a")", R"("gpu":"0","Hostname":"n","cluster":"b")",
           2, "(cluster)"},
      Told{R"("gpu":"0","UUID":"GPU-aa")", R"("gpu":"0","UUID":"GPU-bb")", 2, "several UUIDs"}};
  for (const Told& told : all) {
    CAPTURE(std::string(told.other));
    const run::Run run = read(answer_of({{told.one, 500}, {told.other, 600}}), "a.json");
    REQUIRE(run.devices.size() == told.gpus);
    CHECK(run.devices[1].node == 1);
    CHECK(run.manifest.hosts.size() == 2);
    CHECK(values_of(run, "power_average_w", 1).front() == 600);
    CHECK(*run.numbers.recording_s == 39);
    CHECK((told.note == std::string() || says(run, told.note)));
  }
}

TEST_CASE("a GPU that several series tell counts once, and is refused where they differ") {
  const std::array<std::array<const char*, 3>, 3> all = {
      {{R"("gpu":"0","Hostname":"n","job":"a")", R"("gpu":"0","Hostname":"n","job":"b")", "job"},
       {R"("gpu":"0","Hostname":"n","GPU_I_ID":"7")", R"("gpu":"0","Hostname":"n","GPU_I_ID":"8")",
        "MIG"},
       {R"("gpu":"0","UUID":"GPU-aa","pod":"p")", R"("gpu":"0","UUID":"GPU-aa","pod":"q")",
        "pod"}}};
  for (const auto& row : all) {
    const std::string one = row[0], other = row[1], word = row[2];
    CAPTURE(other);
    const run::Run run = read(answer_of({{one, 500}, {other, 500}}), "a.json");
    CHECK(run.devices.size() == 1);
    CHECK(values_of(run, "power_average_w", 0).size() == 40);
    CHECK((says(run, "count once") || says(run, word)));
    CHECK(contains(refusal(answer_of({{one, 500}, {other, 300}})), "at the same times"));
  }
  // What a MIG instance tells of itself is no GPU's; one pod after another is the same GPU.
  std::string busy = answer_of({{R"("gpu":"0","GPU_I_ID":"7")", 0}, {R"("gpu":"0")", 500}});
  busy.replace(busy.find("DCGM_FI_DEV_POWER_USAGE"), 23, "DCGM_FI_PROF_SM_ACTIVE");
  const run::Run parts = read(busy, "a.json");
  CHECK(run::find_series(parts, "sm_active", 0) == nullptr);
  CHECK(says(parts, "DCGM_FI_PROF_SM_ACTIVE of MIG instances"));
}

TEST_CASE("a table of two nodes tells both by any word for a machine, or by UUID, or is refused") {
  const auto table = [](const std::string& title, const char* other, bool one_by_one) {
    std::string text = "timestamp," + title + ",index,power.draw [W]\n", second;
    for (int i = 0; i < 60; ++i)
      for (const int node : {0, 1}) {
        std::string& to = one_by_one && node == 1 ? second : text;
        to += fmt::format("{},{},0,{}\n", 1788852000 + i + (one_by_one ? 0.25 * node : 0),
                          node == 0 ? "GPU-aa" : other, 400 + 100 * node + i % 5);
      }
    return text + second;
  };
  for (const char* const title :
       {"node_name", "nodename", "server", "machine", "worker", "host_name", "uuid"}) {
    CAPTURE(std::string(title));
    const run::Run run = read(table(title, "GPU-bb", false));
    CHECK(run.devices.size() == 2);
    CHECK(*run.numbers.recording_energy_j == doctest::Approx(904 * 59).epsilon(0.01));
  }
  for (const bool one_by_one : {false, true}) {
    const std::string said = refusal(table("shelf", "b", one_by_one));
    CHECK(contains(said, "GPU 0 come twice for the same times"));
    CHECK(contains(said, "titled host"));
  }
}

TEST_CASE("rows that name no GPU are refused where they may be of several") {
  const auto table = [](int gpus, const char* form, double apart, double every) {
    std::string text = "timestamp, power.draw [W]\n";
    for (int i = 0; i < 20; ++i)
      for (int gpu = 0; gpu < gpus; ++gpu)
        text += fmt::format("{}, {} W\n",
                            fmt::format(fmt::runtime(form), 1788852000 + i * every + gpu * apart),
                            300 + 10 * gpu);
    return text;
  };
  CHECK(contains(refusal(table(8, "{:.3f}", 0.007, 1)), "several GPUs in turn"));
  CHECK(contains(refusal(table(2, "{:.3f}", 0.003, 1)), "--query-gpu=timestamp,index"));
  CHECK(contains(refusal(table(4, "{:.0f}", 0, 1)), "4 rows of a whole second"));
  CHECK(contains(refusal(table(3, "{:.3f}", 0, 1) + "1788852020.0, 1 W\n1788852021.0, 1 W\n"),
                 "from 1 to 3 rows"));
  CHECK(read(table(4, "{:.3f}", 0, 1)).devices.size() == 4);
  CHECK(read(table(4, "{:.0f}", 0, 5)).devices.size() == 4);
  CHECK(says(read(table(1, "{:.0f}", 0, 1)), "all are taken to be of one"));
  CHECK(contains(refusal("timestamp,power\n1788852000,4800\n1788852001,4800\n"), "a sum over"));
}

TEST_CASE("what looks like readings and is no table of them is refused as what it is") {
  const std::array all = {
      std::pair("0, 60, 598.00 W, 1700 MHz\n1, 63, 602.00 W, 1690 MHz\n",
                "without a line of titles"),
      std::pair("2026/09/08 07:20:00.000, 0, 60, 598.00\n", "without a line of titles"),
      std::pair("\"Time\",\"GPU 0\"\n\"2026-09-08 07:20:00\",\"600 W\"\n",
                "titles name no known quantity (Time, GPU 0, ...)"),
      std::pair("timestamp,gpu0,gpu1\n1788852000,60,61\n", "titles name no known quantity"),
      std::pair("Tue Sep  8 07:20:00 2026\n+----+\n| NVIDIA-SMI 550.54  Driver Version: 550.54 |\n",
                "the screen or XML of nvidia-smi"),
      std::pair(R"({"status":"error","errorType":"bad_data","error":"parse error"})",
                "an error that Prometheus answered"),
      std::pair("# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).\n"
                "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",Hostname=\"n\"} 60\n",
                "one scrape of an exporter"),
      std::pair("DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",Hostname=\"n\"} 60\n",
                "one scrape of an exporter")};
  for (const auto& [text, why] : all) {
    const ScratchFolder folder;
    const Path file = folder.file("a.csv", text);
    CHECK_FALSE(looks_like_time_series(file));
    CHECK(contains(why_no_time_series(file).value_or(""), why));
    CHECK(contains(refusal(text), why));
  }
  CHECK(contains(refusal(R"({"data":{"resultType":"matrix","result":[]}})"), "holds no series"));
  const ScratchFolder folder;
  for (const char* const text :
       {"a: 1\nb: 2\n", "name,value\na,1\n", "#!/bin/bash\nnvidia-smi\n", ""})
    CHECK_FALSE(why_no_time_series(folder.file("b", text)));
  CHECK_FALSE(why_no_time_series(folder.folder()));
  const auto empty = read_time_series(folder.folder());
  REQUIRE_FALSE(empty);
  CHECK(contains(empty.error().what, "no .csv or .json file"));
}

TEST_CASE("GPUs that are numbered from 1 on are of one node, and keep their numbers") {
  std::string text = "index,temp_c\n";
  for (int gpu = 1; gpu <= 8; ++gpu)
    text += fmt::format("{},{}\n", gpu, 50 + gpu);
  const run::Run run = read(text);
  CHECK(run.devices.back().node == 0);
  CHECK(run.devices.back().local == 8);
  CHECK(run.devices.back().slot == 7);
}

TEST_CASE("counters, shares and bits of dcgm-exporter are what they are") {
  for (const auto& metric :
       {std::pair("DCGM_FI_DEV_POWER_VIOLATION", run::ReadingKind::counter),
        std::pair("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", run::ReadingKind::counter),
        std::pair("DCGM_FI_PROF_SM_ACTIVE", run::ReadingKind::average),
        std::pair("DCGM_FI_DEV_POWER_USAGE", run::ReadingKind::average),
        std::pair("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", run::ReadingKind::bits),
        std::pair("DCGM_FI_DEV_GPU_TEMP", run::ReadingKind::instant)})
    CHECK_MESSAGE(column_of(metric.first).kind == metric.second, metric.first);
}

TEST_CASE("reasons are read as bits or as words") {
  const run::Run run = read(
      "index,clocks_event_reasons.active,clocks_event_reasons.sw_thermal_slowdown,"
      "clocks_event_reasons.hw_power_brake_slowdown,temperature.gpu\n"
      "0,0x0000000000000080,Active,Not Active,60\n1,[N/A],Not Active,Active,60\n");
  CHECK(values_of(run, "throttle_reasons", 0) == Values{160});
  CHECK(values_of(run, "throttle_reasons", 1) == Values{128});
}

TEST_CASE("of several sets of GPUs one has to be chosen, by a name that is there") {
  const std::string two = "snapshot_id,index,temp_c\na,0,60\nb,0,50\n";
  CHECK(contains(refusal(two), "--row: a, b"));
  CHECK(contains(refusal(two, {.row = "c"}), "no rows of \"c\""));
  CHECK(values_of(read(two, "gpus.csv", {.row = "b"}), "die_c", 0) == Values{50});
  CHECK(contains(refusal("60,61\n"), "a first line with titles is needed"));
}

TEST_CASE(
    "clocks that go back, gaps and repeated stamps are told, and energy is that of all rows") {
  const auto rows = [](auto&& time_of) {
    std::string text = "time,power0\n";
    for (int i = 0; i < 600; ++i)
      if (const double at = time_of(i); at > 0) text += fmt::format("{:.3f},{}\n", at, 400);
    return text;
  };
  const run::Run set = read(rows([](int i) { return 1.7e9 + i - (i >= 300 ? 3600 : 0); }));
  CHECK(says(set, "the clock goes back"));
  CHECK(*set.numbers.recording_energy_j == doctest::Approx(400.0 * 599).epsilon(0.01));
  const run::Run gap = read(rows([](int i) { return i > 100 && i < 400 ? 0 : 1.7e9 + i; }));
  CHECK(says(gap, "no readings for 299 s in all, 1 times, first from 100 s on"));
  CHECK(*gap.numbers.recording_s == doctest::Approx(300));
  CHECK(*gap.numbers.recording_energy_j == doctest::Approx(400.0 * 300).epsilon(0.01));
  const run::Run shuffled = read(rows([](int i) { return 1.7e9 + i * 7 % 600; }));
  CHECK_FALSE(says(shuffled, "goes back"));
  CHECK(run::find_series(shuffled, "power_instant_w", 0)->times.size() == 600);
  // The end of summer time: an hour comes twice.
  std::string twice = "Time,Power\n";
  for (int i = 0; i < 5400; ++i) {
    const int of_day = 9000 + (i >= 1800 ? i - 3600 : i);
    twice += fmt::format("2025-10-26 {:02}:{:02}:{:02}.000000000,400000\n", of_day / 3600,
                         of_day / 60 % 60, of_day % 60);
  }
  const run::Run hour = read(twice, "gpu3.power.csv");
  CHECK(hour.devices[0].local == 3);
  CHECK(run::find_series(hour, "power_instant_w", 0)->times.size() == 5400);
  CHECK(*hour.numbers.recording_energy_j == doctest::Approx(400.0 * 5399).epsilon(0.01));
  CHECK(says(hour, "an hour that comes twice"));
  // And its beginning: an hour that does not come.
  std::string jump = "Time,Power\n";
  for (int i = 0; i < 600; ++i)
    jump += fmt::format("2025-03-30 {:02}:{:02}:{:02}.000000000,400000\n", i < 300 ? 1 : 3,
                        i < 300 ? 55 + i / 60 : (i - 300) / 60, i % 60);
  const run::Run summer = read(jump, "gpu3.power.csv");
  CHECK(*summer.numbers.recording_energy_j == doctest::Approx(400.0 * 599).epsilon(0.01));
  CHECK(says(summer, "to summer time"));
}

TEST_CASE("dates with the day or the month first are what other rows' are, or refused") {
  const auto table = [](const char* first, const char* second) {
    return fmt::format("timestamp,index,power.draw [W]\n{},0,600\n{},0,610\n", first, second);
  };
  for (const auto& [first, second] : {std::pair("9/18/2025 11:59:59 AM", "9/18/2025 12:00:00 PM"),
                                      {"18.09.2025 11:59:59", "18.09.2025 12:00:00"},
                                      {"09/12/2025 23:59:59", "09/13/2025 00:00:00"},
                                      {"12/09/2025 23:59:59", "13/09/2025 00:00:00"},
                                      {"05/06/2025 23:59:59", "05/07/2025 00:00:00"}}) {
    CHECK(*read(table(first, second)).numbers.recording_s == doctest::Approx(1));
  }
  CHECK(contains(refusal(table("05/06/2025 10:00:00", "05/06/2025 10:00:01")), "day or the month"));
  CHECK(contains(refusal(table("13/06/2025 10:00:00", "06/13/2025 10:00:01")), "day or the month"));
}

TEST_CASE("watts that no board takes are no watts, and the unit that they may be in is told") {
  for (const auto& [cell, unit] : {std::pair("612130", "mW"), {"612130000", "uW"}}) {
    const run::Run run = read(table_of(5, -1, "60", cell));
    CHECK(values_of(run, "power_average_w", 5).empty());
    CHECK(values_of(run, "power_average_w", 4).size() == 20);
    CHECK(says(run, fmt::format("(\"{}\", in {}?", cell, unit)));
  }
}

TEST_CASE("a table of which no row is read is refused with the cause and an example") {
  const std::string titles = "timestamp, index, power.draw [W]\n";
  for (const auto& [row, part] :
       {std::pair("11/01/2026 10:00:07, 0, 600 W\n", "may have the day or the month first"),
        {"noon, 0, 600 W\n", "3 have a time that is not known"},
        {"2026/11/01 10:00:07, 0, 600,95 W\n", "if commas are decimal, separate the cells"}}) {
    const std::string said = refusal(titles + row + row + row);
    CHECK(contains(said, part));
    CHECK(contains(said, std::string(row).substr(0, 4)));
  }
}

TEST_CASE("module power is no GPU's, and counters begin at their first value") {
  const run::Run run = read(
      "timestamp,index,module.power.draw.instant [W],total_energy_consumption [mJ]\n"
      "1788852000,0,2300.00 W,5000000\n1788852001,0,2300.00 W,5700000\n1788852002,0,2300.00 "
      "W,10\n"
      "1788852003,0,2300.00 W,700010\n");
  CHECK(values_of(run, "module_power_w", 0).size() == 4);
  CHECK(run::find_series(run, "power_instant_w", 0) == nullptr);
  CHECK(values_of(run, "energy_j", 0) == Values{0, 700, 700, 1400});
}

// Windows.

constexpr const char* window_titles =
    "start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy\n";

TEST_CASE("windows are kept: steps among others, by any name, of any length") {
  const run::Run steps = read(std::string(window_titles) +
                              "1700000000,step,10,5000,3000\n1700000010,step,10,5000,3000\n"
                              "1700000020,step,2,1000,600\n");
  REQUIRE(steps.steps.size() == 3);
  CHECK(*steps.summaries[0].energy_j + *steps.summaries[1].energy_j ==
        doctest::Approx(17600.0 / 3));
  CHECK(*steps.numbers.recording_energy_j == 17600);
  CHECK(*steps.summaries[0].power_mean_w == 500);
  const run::Run epochs = read(std::string(window_titles) +
                               "1700000000,epoch_0,10,5000,0\n1700000010,epoch_1,40,20000,0\n"
                               "1700000050,epoch_2,40,20000,0\n");
  CHECK(epochs.steps.size() == 3);
  CHECK(*epochs.numbers.recording_s == 90);
  CHECK(*epochs.numbers.recording_energy_j == 45000);
  const run::Run nested =
      read(std::string(window_titles) +
           "1700000000,training,20,9000,9000\n1700000000,batch 1, lr 2,10,4000,2400\n"
           "1700000001,forward,3,1500,900\n1700000004,forward,3,1500,900\n"
           "1700000010,batch 2, lr 2,10,4000,2400\n1700000012,forward,0,0,0\n");
  CHECK(nested.steps.size() == 2);
  CHECK(*nested.summaries[1].energy_j == 2400);
  CHECK(says(nested, "2 windows forward"));
  CHECK(says(nested, "1 windows training"));
  CHECK(says(nested, "1 windows have no duration"));
}

TEST_CASE("energies of CPUs and memory stay apart, codecarbon's too") {
  const run::Run zeus = read(
      "start_time,window_name,elapsed_time,gpu0_energy,cpu0_energy,dram0_energy\n"
      "1700000000,step,10,5000,1500,200\n1700000010,step,10,5000,1500,200\n");
  CHECK(*zeus.numbers.recording_energy_j == 10000);
  CHECK(zeus.numbers.recording_cpu_energy_j == 3000);
  const run::Run carbon = read(
      "timestamp,project_name,run_id,duration,emissions,cpu_energy,gpu_energy,ram_energy\n"
      "2026-09-08T07:20:00,p,a,100,0.1,0.01,0.1,0.001\n"
      "2026-09-08T07:22:00,p,a,200,0.2,0.02,0.2,0.002\n");
  CHECK(carbon.manifest.producer == "codecarbon");
  CHECK(*carbon.numbers.recording_s == 200);
  CHECK(*carbon.numbers.recording_energy_j == doctest::Approx(0.2 * 3.6e6));
}

TEST_CASE("a table may be packed, and cut, and its times may be of a day") {
  const char* const text = "time,gpu,power_w\n07:59:59.5,0,300\n08:00:00,0,310\n08:00:00.5,0,320\n";
  const run::Run run = read(text);
  CHECK_FALSE(run.manifest.epoch_unix_ns);
  CHECK(values_of(run, "power_instant_w", 0) == Values{300, 310, 320});
  // gzip -n of it, without the trailer
  constexpr std::array<unsigned char, 60> packed = {
      31,  139, 8,  0,  0,   0,  0,   0,  2,  255, 43,  201, 204, 77, 213, 73,  47,  40, 213, 41,
      200, 47,  79, 45, 138, 47, 231, 50, 48, 183, 50,  181, 4,   34, 61,  83,  29,  3,  29,  99,
      3,   3,   46, 3,  11,  43, 3,   3,  32, 2,   113, 13,  17,  92, 136, 188, 145, 1,  23,  0};
  const run::Run cut = read({packed.begin(), packed.end()});
  CHECK(values_of(cut, "power_instant_w", 0).size() >= 2);
  CHECK(says(cut, "what was there is read"));
}

TEST_CASE("a folder of something else is not taken for a recording") {
  const ScratchFolder folder;
  folder.file("results.csv", "name,value\na,1\n");
  folder.file("power.csv", "1700000000.0,300\n");
  CHECK_FALSE(looks_like_time_series(folder.folder()));
  CHECK_FALSE(looks_like_time_series(folder / "no such file"));
  CHECK_FALSE(looks_like_time_series(folder.file("trace.json", R"({"traceEvents":[]})")));
}

TEST_CASE("tables of processes, of several runs and of unknown times are refused by name") {
  CHECK(refusal("# gpu pid type sm mem command\n# Idx # C/G % % name\n 0 12 C 99 40 python\n")
            .find("processes") != std::string::npos);
  CHECK(refusal("\"Step\",\"a - system/gpu.0.powerWatts\",\"b - system/gpu.0.powerWatts\"\n"
                "\"1\",\"650\",\"300\"\n")
            .find("2 runs (a, b)") != std::string::npos);
  CHECK(contains(refusal("elapsed_time_ms,gpu,power_w\n0,0,650\n500,0,651\n"), "elapsed_time_ms"));
  CHECK(contains(refusal("timestamp,gpu_power_w\n1,4939\n2,6472\n3,6470\n"), "3 of 3 readings"));
  const run::Run run = read(
      "timestamp_ns,gpu_id,power_mw\n1762000000100000000,0,650000\n"
      "1762000000600000000,0,651000\n");
  CHECK(seconds(*run::find_series(run, "power_instant_w", 0), 1) == doctest::Approx(0.5));
}

TEST_CASE("cells with commas are numbers where tabs part them") {
  const run::Run run = read(
      "timestamp\tindex\tpower.draw [W]\n"
      "2026/09/08 07:20:00.250\t0\t\"412,50 W\"\n"
      "2026/09/08 07:20:01.250\t0\t\"413,50 W\"\n");
  CHECK(values_of(run, "power_average_w", 0) == Values{412.5, 413.5});
}

TEST_CASE("amd-smi's monitor: units stand apart, and its memory's share is no temperature") {
  const run::Run table = read(
      "TIMESTAMP  GPU  XCP  POWER  PWR_CAP  GPU_T  MEM_T  GFX_CLK  GFX%  MEM%  VRAM_USAGE\n"
      "1740823200  0  0  600 W  750 W  61 °C  N/A  2100 MHz  99 %  40 %  10.1/192.0 GB\n"
      "1740823201  0  0  610 W  750 W  62 °C  52 °C  2100 MHz  99 %  41 %  10.1/192.0 GB\n");
  const run::Run csv = read(
      "timestamp,gpu,xcp,power_usage,power_cap,hotspot_temperature,memory_temperature,gfx_clk,"
      "gfx,"
      "mem\n1740823200,0,0,600,750,61,N/A,2100,99,40\n1740823201,0,0,610,750,62,52,2100,99,41\n");
  for (const run::Run* run : {&table, &csv}) {
    CHECK(values_of(*run, "power_instant_w", 0) == Values{600, 610});
    CHECK(values_of(*run, "junction_c", 0) == Values{61, 62});
    CHECK(values_of(*run, "memory_c", 0) == Values{52});
    CHECK(values_of(*run, "memory_utilization", 0) == Values{40 * 0.01, 41 * 0.01});
  }
}

TEST_CASE("partitions of a package have its power, and one that lacks it by chance has none") {
  const auto table = [](const std::vector<int>& silent) {
    std::string text = "timestamp,gpu,socket_power,hotspot\n";
    for (int second = 0; second < 20; ++second)
      for (int gpu = 0; gpu < 16; ++gpu)
        text += fmt::format("{},{},{},70\n", 1740823200 + second, gpu,
                            holds(silent, gpu) ? "N/A" : "900");
    return text;
  };
  std::vector<int> most;
  for (int gpu = 0; gpu < 16; ++gpu)
    if (gpu % 8 != 0) most.push_back(gpu);
  const run::Run packages = read(table(most));
  CHECK(packages.devices.back().node == 0);
  CHECK(says(packages, "every 8 GPUs are parts of one"));
  CHECK_FALSE(says(packages, "of 2 of 16 GPUs"));
  const run::Run lost = read(table({3}));
  CHECK(says(lost, "of 15 of 16 GPUs; GPU 3 had no readings of power"));
}

TEST_CASE("rows of MIG instances are no GPUs', and a counter that begins again is told") {
  std::string mig = "#Entity   POWER      GRACT\nID\n", reset = "timestamp,index,energy [J]\n";
  for (int i = 0; i < 20; ++i) {
    mig += "GPU 0  612.2  0.91\nGPU-I 0  N/A  0.95\nGPU-CI 0  N/A  0.95\n";
    reset += fmt::format("{},0,{}\n", 1740823200 + i, 600 * (i < 10 ? 5000 + i : i - 10));
  }
  const run::Run instances = read(mig);
  CHECK(instances.devices.size() == 1);
  CHECK(says(instances, "40 rows are of MIG instances"));
  CHECK(says(read(reset), "counters began again 1 times"));
}

TEST_CASE("windows and runs without the energy of a GPU are in no sum") {
  const run::Run zeus = read(
      "start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy\n"
      "1740823200,step_0,10,5000,5100\n1740823210,step_1,10,nan,5100\n"
      "1740823220,step_2,10,5000,5100\n");
  CHECK(*zeus.numbers.recording_energy_j == 20200);
  CHECK(*zeus.numbers.recording_s == 20);
  CHECK(says(zeus, "1 windows lack"));
  const run::Run carbon = read(
      "timestamp,run_id,duration,emissions,cpu_energy,gpu_energy\n"
      "2026-09-08T07:20:00,a,100,0.1,0.01,0.1\n2026-09-08T07:22:00,b,50,0.2,0.02,\n");
  CHECK(*carbon.numbers.recording_s == 100);
  CHECK(says(carbon, "1 of 2 runs tell no energy"));
}

}  // namespace
}  // namespace triplepoint::telemetry
