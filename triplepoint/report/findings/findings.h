// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/pages/html.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// A number of results.json: a job's key ("power_w.mean"), or with no job a key of the whole study.
struct Term {
  std::string job, key;
};

/// Where a number in a sentence comes from.
struct Evidence {
  enum class Form {
    value,       // product of `above` over product of `below`
    more,        // that - 1
    less,        // 1 - that
    difference,  // above[0] - below[0]
  };
  Form form = Form::value;
  std::vector<Term> above, below;
  double value = 0;     // the number itself, before it was rounded
  std::string printed;  // as the sentence has it, with its unit
};

/// The formula in words: "tokens_per_s of a / tokens_per_s of b - 1".
std::string formula_of(const Evidence& evidence);

/// A label of a job or a group in a sentence. Its digits belong to the configuration.
struct Name {
  std::string text, job;
};

/// A piece of a sentence: its words, for a terminal and for a page, and the numbers and names in
/// them.
struct Phrase {
  std::string text, html;
  std::vector<Evidence> evidence;
  std::vector<Name> names;

  Phrase& operator+=(const Phrase& more);
};
Phrase words(std::string_view text);
Phrase named(const StudyRow& row);                       // "TP8-PP4, microbatch 2"
Phrase named(const StudyRow& row, std::string_view as);  // any label made of its plan
Phrase group_name(const StudyRow& row);                  // "gpt3-175b on 32 x H200"
Phrase group_and_name(const StudyRow& row);              // both, with a comma
Phrase gpu_name(const StudyRow& row, int32_t index);     // "GPU 14"
Phrase figure(Evidence evidence);
/// A number of one job, with its unit.
Phrase number(const StudyRow& row, std::string_view key, std::string_view unit, int digits = 3);
Phrase percentage(const StudyRow& row, std::string_view key);
/// "13.36 instead of 13.43 s", with as many digits as tell the two apart; "the same 13.4 s".
Phrase instead(const StudyRow& row, const StudyRow& other, std::string_view key,
               std::string_view unit);
/// One job's number against another's: "2.4 times", "31 %" more, "31 %" less, "12 °C" more.
Phrase times_of(const StudyRow& row, const StudyRow& over, std::string_view key);
Phrase more_of(const StudyRow& row, const StudyRow& over, std::string_view key);
Phrase less_of(const StudyRow& row, const StudyRow& over, std::string_view key);
/// Against the other's `other`, where that is not `key` as well.
Phrase difference_of(const StudyRow& row, const StudyRow& from, std::string_view key,
                     std::string_view unit, std::string_view other = {});
/// What follows a ratio: "2.4 times" `times`, "31 %" `more`, "12 %" `less`.
struct RatioWords {
  std::string_view times, more, less;
};
/// One job's number against another's, in the form that reads best.
Phrase change_of(const StudyRow& row, const StudyRow& over, std::string_view key,
                 const RatioWords& after);
Phrase ratio_of(std::vector<Term> above, std::vector<Term> below, double value,
                const RatioWords& after);
/// Two numbers of one job: a share, or "31 %" less.
Phrase share_of(const StudyRow& row, std::string_view key, std::string_view whole);
Phrase less_than(const StudyRow& row, std::string_view key, std::string_view other);

/// One plain sentence about a study, made of its numbers. Words have no digits: every
/// number is either evidence or part of a name.
class Finding {
 public:
  explicit Finding(std::string anchor) : anchor_(std::move(anchor)) {}

  /// Each {} of the pattern stands for the next of the phrases.
  template <class... Phrases>
  Finding& say(std::string_view pattern, const Phrases&... phrases) {
    return add_phrases(pattern, {&phrases...});
  }

  const std::string& text() const { return phrase_.text; }
  const std::string& html() const { return phrase_.html; }
  const std::string& anchor() const { return anchor_; }
  const std::vector<Evidence>& evidence() const { return phrase_.evidence; }
  const std::vector<Name>& names() const { return phrase_.names; }

 private:
  Finding& add_phrases(std::string_view pattern, std::initializer_list<const Phrase*> phrases);

  std::string anchor_;
  Phrase phrase_;
};

/// What stands out, most important first. Each looks over the whole study for its strongest case
/// and says nothing if the results do not bear it out.
std::vector<Finding> find_findings(const Study& study);

using MaybeFinding = std::optional<Finding>;
using Groups = std::vector<Group>;

// findings.cpp
MaybeFinding about_speed(const Groups&);
std::string_view verb_of(const StudyRow&);  // " trains ", " reads ", " generates "
MaybeFinding about_energy(const Groups&);
MaybeFinding about_communication(const Groups&);
MaybeFinding about_memory(const Study&);
// findings_heat.cpp
MaybeFinding about_slots(const Groups&);
MaybeFinding about_placement(const Groups&);
MaybeFinding about_rank_order(const Groups&);
MaybeFinding about_throttling(const Groups&);
MaybeFinding about_lost_clocks(const Groups&);
/// The device for which all others of the step wait because heat lowers its clock.
std::optional<int32_t> gpu_slowed_by_heat(const StudyRow&);
// findings_settings.cpp
MaybeFinding about_faster_microbatches(const Groups&);
MaybeFinding about_slower_microbatches(const Groups&);
MaybeFinding about_peaks_of_microbatches(const Groups&);
MaybeFinding about_experts(const Groups&);
MaybeFinding about_recompute(const Groups&);
MaybeFinding about_what_recompute_unlocks(const Groups&);
MaybeFinding about_overlap(const Groups&);
MaybeFinding about_overlap_in_vain(const Groups&);
MaybeFinding about_full_sharding(const Groups&);
/// Whether the size of messages is why tensor with pipeline parallelism leaves the links unused.
MaybeFinding about_sends(const Groups&);
// findings_machines.cpp
/// What another room, limit, network or fault does to steps of the same job, each where it does
/// most.
MaybeFinding about_conditions(const Groups&);
MaybeFinding about_scaling(const Groups&);
MaybeFinding about_machines(const Groups&);
MaybeFinding about_machines_per_watt(const Groups&);
MaybeFinding about_fabrics(const Groups&);
MaybeFinding about_oversubscription(const Groups&);

// findings_inference.cpp
MaybeFinding about_decode_energy(const Groups&);
MaybeFinding about_decode_microbatches(const Groups&);
MaybeFinding about_token_latency(const Groups&);
MaybeFinding about_prompt_latency(const Groups&);
MaybeFinding about_fine_tuning(const Groups&);

/// " With stack megatron-core the same change costs 4.3 % of the speed.", where it does not gain
/// about as much. Whether the two were compared: simulated with that stack.
bool add_default_stack(Finding&, const StudyRow& from, const StudyRow& to);

/// Every job of the study that ran.
std::vector<const StudyRow*> all_that_ran(const Groups&);

/// The job that stands for its group.
using ChooseJob = const StudyRow* (*)(const std::vector<const StudyRow*>&);
const StudyRow* fastest_job(const std::vector<const StudyRow*>& rows);
/// The job with the least joules per token; the fastest where no job knows its energy.
const StudyRow* least_energy_job(const std::vector<const StudyRow*>& rows);

/// One model on two or more kinds of machines, each as the chosen job there.
struct MachineComparison {
  std::string model;
  std::vector<const StudyRow*> entries;
};
std::vector<MachineComparison> machine_comparisons(const std::vector<Group>& groups,
                                                   ChooseJob choose);

/// What one gets for equal means.
struct Basis {
  std::string id, name, unit, job;  // the last: the chosen job in words
  ChooseJob choose = nullptr;
  double (*value)(const StudyRow&) = nullptr;  // not-a-number if not known
};
/// Equal GPUs, equal memory, equal watts.
std::vector<Basis> bases();

/// One chart per basis; nothing without a comparison.
std::vector<Drawing> machine_figures(const std::vector<Group>& groups);

}  // namespace triplepoint::report
