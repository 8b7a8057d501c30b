// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/diagnose_parts.h"
#include "triplepoint/spec/job.h"
#include "triplepoint/spec/names.h"

namespace triplepoint::spec {
namespace {

using Code = DiagnosisCode;

class SendsExamination : Findings {
 public:
  explicit SendsExamination(const Job& job) : job_(job), plan_(job.plan) {}

  std::vector<Diagnosis> run() {
    if (!plan_.sends) return {};
    sizes_are_possible();
    if (!none()) return all();
    microbatches_leave_together();
    if (none()) options_have_an_effect();
    return all();
  }

 private:
  void sizes_are_possible() {
    const PipelineSends& sends = *plan_.sends;
    if (sends.chunk && *sends.chunk < 1 * unit::B)
      error(Code::inconsistent,
            "sends.chunk is below 1 byte (a message has one at least); leave it out for whole "
            "sends");
    const int64_t nics = job_.cluster.scale_out.nics_per_node;
    if (sends.nics < 1 || sends.nics > nics)
      error(Code::inconsistent, "sends.nics is {} (a node of {} has {}); set it between 1 and {}",
            sends.nics, job_.cluster.name, nics, nics);
    if (sends.microbatches < 1)
      error(Code::inconsistent,
            "sends.microbatches is {} (it counts what leaves together); set it to 1 or more",
            sends.microbatches);
  }

  /// The schedule's unit is then a group of microbatches.
  void microbatches_leave_together() {
    const int64_t together = plan_.sends->microbatches;
    if (together == 1) return;
    const bool plain = is_inference(job_.task) || plan_.schedule == Schedule::one_f_one_b ||
                       plan_.schedule == Schedule::gpipe;
    if (!plain || plan_.virtual_pipeline_size > 1)
      return error(Code::unsupported,
                   "sends.microbatches {} with schedule {} (microbatches leave together under "
                   "1F1B and GPipe); set it to 1, or use one of these",
                   together, enum_name(plan_.schedule));
    const int64_t at_once = plan_.micro_batch_size * job_.data_parallel_size();
    if (at_once < 1 || plan_.global_batch_size % at_once != 0) return;  // said elsewhere
    if (job_.num_microbatches() % together != 0)
      error(Code::batch_not_divisible,
            "sends.microbatches {} does not divide {} microbatches (all groups are alike); use a "
            "divisor",
            together, job_.num_microbatches());
  }

  void options_have_an_effect() {
    const PipelineSends& sends = *plan_.sends;
    if (plan_.pipeline_parallel_size == 1)
      return warn(Code::inert_option,
                  "[plan.sends] with pipeline_parallel_size 1 (no stage sends to another); leave "
                  "it out");
    if (sends.scatter_gather && plan_.tensor_parallel_size == 1)
      warn(Code::inert_option,
           "sends.scatter_gather with tensor_parallel_size 1 (there is one rank to send); leave "
           "it out");
    else if (sends.scatter_gather && plan_.sequence_parallel)
      warn(Code::inert_option,
           "sends.scatter_gather with sequence_parallel (each rank holds and sends its own part); "
           "leave it out");
  }

  const Job& job_;
  const Plan& plan_;
};

}  // namespace

std::vector<Diagnosis> diagnose_sends(const Job& job) {
  return SendsExamination(job).run();
}

}  // namespace triplepoint::spec
