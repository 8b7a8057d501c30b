// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "triplepoint/cli/command.h"

namespace triplepoint::cli {

// One verb, one file: make_simulate() lives in simulate.cpp, and so on.
std::unique_ptr<Command> make_characterize();
std::unique_ptr<Command> make_simulate();
std::unique_ptr<Command> make_import();
std::unique_ptr<Command> make_export();
std::unique_ptr<Command> make_report();
std::unique_ptr<Command> make_compare();
std::unique_ptr<Command> make_serve();
std::unique_ptr<Command> make_list();
std::unique_ptr<Command> make_show();
std::unique_ptr<Command> make_trace();
std::unique_ptr<Command> make_completion();
std::unique_ptr<Command> make_validate();
std::unique_ptr<Command> make_plan();
std::unique_ptr<Command> make_place();
std::unique_ptr<Command> make_calibrate();
std::unique_ptr<Command> make_record();
std::unique_ptr<Command> make_merge();
std::unique_ptr<Command> make_top();
std::unique_ptr<Command> make_snapshot();
std::unique_ptr<Command> make_exporter();
std::unique_ptr<Command> make_doctor();
std::unique_ptr<Command> make_discover();
std::unique_ptr<Command> make_bench();
std::unique_ptr<Command> make_steer();
std::unique_ptr<Command> make_train();

}  // namespace triplepoint::cli
