// SPDX-License-Identifier: Apache-2.0
// The self-check of GPUs, with a shell script in the trainer's place.
#include "triplepoint/study/gpu_check.h"

#include <filesystem>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/scratch_folder.h"

namespace triplepoint::study {
namespace {

constexpr const char* begin_of_script = R"(#!/bin/sh
index=none
list=no
while [ $# -gt 0 ]; do
  [ "$1" = --device-index ] && index=$2
  [ "$1" = --list-gpus ] && list=yes
  shift
done
summary() {
  echo "{\"steps\": [{\"loss\": 6.5, \"gradient_norm\": 1.5}, {\"loss\": $1, \"gradient_norm\": 1.25}]}"
}
gpus() {
  printf '{"driver_cuda": "12.4", "cublaslt": "libcublasLt.so.12", "gpus": ['
  printf '{"gpu": 0, "name": "NVIDIA H100"}'
  [ $1 -gt 1 ] && printf ', {"gpu": 1, "name": "NVIDIA H100"}'
  [ $1 -gt 2 ] && printf ', {"gpu": 2, "name": "NVIDIA H100"}'
  echo ']}'
}
)";

class ScriptedTrainer {
 public:
  explicit ScriptedTrainer(const std::string& script)
      : file_(scratch_.file("trainer", begin_of_script + script)) {
    std::filesystem::permissions(file_, std::filesystem::perms::owner_all);
  }
  Result<GpuCheck> check(Seconds limit = 20 * unit::s) {
    printed.clear();
    return check_gpu_training({.trainer = file_,
                               .flags = {"--device-libraries", "/opt/cuda"},
                               .limit = limit,
                               .stopped = [] { return false; },
                               .say = [this](const std::string& line) { printed += line; }});
  }
  std::string printed;

 private:
  ScratchFolder scratch_;
  Path file_;
};

void contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CHECK(text.find(part) != std::string::npos);
}

TEST_CASE("GPUs that train as the processor does are ok, one by one and together") {
  ScriptedTrainer trainer(R"(
[ $list = yes ] && gpus 2 && exit 0
[ $index = 1 ] && echo 'triplepoint-train: rank 0: a plain kernel multiplies' >&2
[ $index = none ] && summary 6.25 || summary 6.2500001
)");
  const auto check = trainer.check();
  REQUIRE_MESSAGE(check, check.error().what);
  CHECK(check->works());
  REQUIRE(check->results.size() == 3);
  CHECK(check->results[2].who == "gpus 0-1");
  CHECK(check->results[0].remarks.empty());
  CHECK(check->results[1].remarks.size() == 2);  // of both precisions
  contains(trainer.printed, "driver for CUDA 12.4, cuBLASLt: libcublasLt.so.12\n");
  contains(trainer.printed,
           "gpu 0     NVIDIA H100  ok: 2 steps as on the CPU (loss and gradient norm within "
           "1.6e-08 in fp32 and 1.6e-08 in bf16)");
  contains(trainer.printed, "note: rank 0: a plain kernel multiplies\n");
  const Json json = gpu_check_json(*check);
  CHECK(json["works"] == true);
  CHECK(json["results"].size() == 3);
}

TEST_CASE("each GPU that fails says how, and the others are checked") {
  ScriptedTrainer trainer(R"(
[ $list = yes ] && gpus 3 && exit 0
case $index in
  0) echo 'triplepoint-train: the GPU'"'"'s memory is full (use a smaller batch)' >&2; exit 1 ;;
  1) summary 6.5 ;;
  2) kill -SEGV $$ ;;
  *) summary 6.25 ;;
esac
)");
  const auto check = trainer.check();
  REQUIRE_MESSAGE(check, check.error().what);
  CHECK_FALSE(check->works());
  REQUIRE(check->results.size() == 3);  // not together
  contains(check->results[0].text, "fp32: the GPU's memory is full (use a smaller batch); bf16: ");
  contains(check->results[1].text,
           "loss 6.5 and gradient norm 1.25 of step 2 instead of 6.25 and 1.25 (off by 4.0e-02");
  contains(check->results[2].text, "died by signal 11");
  contains(trainer.printed, "gpu 1     NVIDIA H100  failed: fp32: loss");
}

TEST_CASE("a GPU that hangs is given up after the time limit") {
  ScriptedTrainer trainer(R"(
[ $list = yes ] && gpus 1 && exit 0
[ $index = 0 ] && sleep 100
summary 6.25
)");
  const auto check = trainer.check(1 * unit::s);
  REQUIRE_MESSAGE(check, check.error().what);
  CHECK_FALSE(check->works());
  contains(check->results[0].text, "still running after 1 s");
  contains(check->results[0].text, "Xid");
}

TEST_CASE("a machine without GPUs or plug-in is told why") {
  ScriptedTrainer trainer(R"(
echo 'triplepoint-train: libcuda.so.1 was not found; install the driver of NVIDIA' >&2
exit 1
)");
  const auto check = trainer.check();
  REQUIRE_FALSE(check);
  CHECK(check.error().what ==
        "no GPU can train here: libcuda.so.1 was not found; install the driver of NVIDIA");
}

}  // namespace
}  // namespace triplepoint::study
