// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>

#include <doctest/doctest.h>

namespace {

unsigned chosen = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): a listener has
                      // no other way out

/// Counts the test cases which the command line's filters let through.
struct Counter : doctest::IReporter {
  explicit Counter(const doctest::ContextOptions& /*options*/) {}
  void report_query(const doctest::QueryData& /*query*/) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& run) override {
    chosen = run.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData& /*test*/) override {}
  void test_case_reenter(const doctest::TestCaseData& /*test*/) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& /*test*/) override {}
  void test_case_exception(const doctest::TestCaseException& /*exception*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*subcase*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*assertion*/) override {}
  void log_message(const doctest::MessageData& /*message*/) override {}
  void test_case_skipped(const doctest::TestCaseData& /*test*/) override {}
};

}  // namespace

DOCTEST_REGISTER_LISTENER("counter", 1, Counter);

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int failed = context.run();
  if (context.shouldExit() || chosen > 0) return failed;
  // Otherwise a test whose name doctest cannot find again would pass for ever.
  std::fputs("no test case has this name; avoid ; * [ ] and quotes in test names\n", stderr);
  return 1;
}
