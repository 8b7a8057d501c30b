// SPDX-License-Identifier: Apache-2.0
// Writes a page of a study and one of a run, with made-up results: sample_pages FOLDER
#include <cstdio>

#include "triplepoint/base/files.h"

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
  return wrote_study && wrote_run ? 0 : 1;
}
