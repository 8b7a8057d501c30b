// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::study {

/// Predicts each experiment of a result tree of the paper's artifact (see experiments.h) and puts
/// the predictions beside its recording. Of an experiment are scored, where it was recorded:
///
///   step_time_s                                         step, or the whole recording without a log
///   kernel_<class>_s, kernel_total_s                    one step, artifact's rules, mean over the
///                                                       traced ranks, predicted for the same ranks
///   power_mean_w, power_peak_w, sm_clock_mean_mhz,      over the GPUs with samples and the step
///   temperature_mean_c, temperature_peak_c
///
/// The family of a row is its quantity; rows of one model, machine and task are a sweep. The job is
/// that of the configuration in the folder; else the job of the paper/ studies that the names of
/// folder and sweep stand for. Experiments that cannot be read or whose job is not known are
/// skipped with the reason; folders of jobs that ran out of memory are verdicts. An error where the
/// folder holds no experiment.
Result<calibrate::TableScores> score_tree(const Path& tree, const calibrate::ScoreContext&);

}  // namespace triplepoint::study
