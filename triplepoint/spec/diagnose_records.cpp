// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "triplepoint/spec/diagnose_parts.h"
#include "triplepoint/spec/job.h"
#include "triplepoint/spec/names.h"

namespace triplepoint::spec {
namespace {

using Code = DiagnosisCode;

class RecordsExamination : Findings {
 public:
  explicit RecordsExamination(const Job& job) : job_(job) {}

  std::vector<Diagnosis> run() {
    if (!job_.records) {
      layout_without_records();
      return all();
    }
    table_is_whole();
    job_trains_on_them();
    if (none()) records_are_cut();
    return all();
  }

 private:
  void layout_without_records() {
    if (job_.plan.record_layout == RecordLayout::padded) return;
    warn(Code::inert_option,
         "record_layout {} without records (every record fills its sequence, so none is padded or "
         "packed); state their lengths, as in records = \"pubmedqa\"",
         enum_name(job_.plan.record_layout));
  }

  void table_is_whole() {
    const auto& [name, lengths, shares] = *job_.records;
    if (lengths.empty() || lengths.size() != shares.size())
      return error(Code::inconsistent,
                   "records have {} lengths and {} shares (each length has a share of the "
                   "records); write as many of one as of the other, one at least",
                   lengths.size(), shares.size());
    if (*std::ranges::min_element(lengths) < 1)
      error(Code::inconsistent,
            "records have a length of {} tokens (it counts what has to be there); make every "
            "length 1 or more",
            *std::ranges::min_element(lengths));
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    if (!(*std::ranges::min_element(shares) >= 0 && all > 0 && all < 1e300))
      error(Code::inconsistent,
            "shares of records are negative, or none is above 0 (they are parts of a whole); "
            "write counts or fractions");
  }

  void job_trains_on_them() {
    if (is_inference(job_.task))
      error(Code::unsupported,
            "records with task {} (they are what training reads; a prompt has sequence_length "
            "tokens); leave them out",
            enum_name(job_.task));
    if (job_.plan.packed_length)
      error(Code::inconsistent,
            "packed_length {} beside records (both say how long the documents of a row are); "
            "leave packed_length out and set record_layout = \"packed\"",
            *job_.plan.packed_length);
  }

  void records_are_cut() {
    const int64_t longest = *std::ranges::max_element(job_.records->lengths);
    if (longest > job_.model.sequence_length)
      warn(Code::inconsistent,
           "records of up to {} tokens are cut at sequence_length {} (a row holds no more); raise "
           "sequence_length to train on all of them",
           longest, job_.model.sequence_length);
  }

  const Job& job_;
};

}  // namespace

std::vector<Diagnosis> diagnose_records(const Job& job) {
  return RecordsExamination(job).run();
}

}  // namespace triplepoint::spec
