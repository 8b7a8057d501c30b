// SPDX-License-Identifier: Apache-2.0
// Writes pages with made-up results, one of each kind: sample_pages FOLDER
#include <cstdio>

#include "triplepoint/base/files.h"

#include "triplepoint/report/answers_testing.h"
#include "triplepoint/report/pages/run_page.h"
#include "triplepoint/report/pages/study_page.h"
#include "triplepoint/report/study_testing.h"

int main(int argc, char** argv) {
  using namespace triplepoint;
  if (argc != 2) return std::fputs("usage: sample_pages FOLDER\n", stderr), 2;
  const Path folder = argv[1];
  const report::Study study = report::sample_study();
  const auto wrote_study = write_file_atomically(folder / "study.html", report::study_page(study));
  const auto wrote_run = write_file_atomically(
      folder / "run.html", report::run_page(report::sample_run(), *study.rows[0].metrics));
  const bool wrote_answers =
      write_file_atomically(folder / "plan.html", report::sample_plan_page()) &&
      write_file_atomically(folder / "place.html", report::sample_place_page()) &&
      write_file_atomically(folder / "validation.html", report::sample_validation_page());
  return wrote_study && wrote_run && wrote_answers ? 0 : 1;
}
