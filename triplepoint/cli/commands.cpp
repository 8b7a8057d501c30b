// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "triplepoint/cli/command.h"
#include "triplepoint/cli/verbs.h"

namespace triplepoint::cli {
namespace {

constexpr std::array table = {
    CommandEntry{"characterize", "Simulate every job of a study and write tables and a report.",
                 "Writes runs/*.run, results.csv, results.json and report.html into a folder.\n"
                 "Interrupted, it keeps what is finished; the same call then goes on from there.\n"
                 "A job that is invalid or does not fit in memory is a row with its diagnosis.\n\n"
                 "  triplepoint characterize paper/h200 -o study\n",
                 make_characterize},
    CommandEntry{
        "simulate", "Predict speed, power, heat and clocks of one training job.",
        "The job comes from a file, from flags, or from both: flags go on top of the file.\n"
        "Without --duration or --steps it is played to thermal steady state.\n"
        "A job that does not fit in memory is a result, too: its memory is shown.\n\n"
        "  triplepoint simulate --model gpt3-175b --cluster hgx-h200 --nodes 4 --tp 8 --pp 4 --gbs "
        "128\n"
        "  triplepoint simulate job.toml --mbs 2 --format json\n",
        make_simulate},
    CommandEntry{
        "validate", "Compare predictions with tables of measurements.",
        "The columns of a table say what it holds: training runs, kernels, collectives, power,\n"
        "temperatures. Every row that can be expressed is predicted; the others are listed with\n"
        "the reason. What a row leaves open is filled by fixed rules, and reported per row. Put\n"
        "your own runs into the same columns (docs/formats.md) to check the model against them.\n\n"
        "  triplepoint validate my_runs.csv\n"
        "  triplepoint validate train_perf_calibration.csv --format json\n",
        make_validate},
    CommandEntry{"import", "Read other people's launch files and say what is wrong with them.",
                 "Understands NeMo YAML, Hugging Face config.json and Megatron-LM argument lists.\n"
                 "A folder is searched for such files.\n\n"
                 "  triplepoint import experiments/ --format json\n"
                 "  triplepoint import pretrain.yaml -o jobs\n",
                 make_import},
    CommandEntry{"export", "Write a job as a file that can be launched.",
                 "  triplepoint export job.toml --megatron-args\n"
                 "  triplepoint export job.toml --nemo-yaml -o pretrain.yaml\n",
                 make_export},
    CommandEntry{"report", "Make the page of a run or of a study's folder.",
                 "  triplepoint report job.run -o job.html\n"
                 "  triplepoint report study/\n",
                 make_report},
    CommandEntry{"list", "List the models, GPUs, clusters, stacks or studies known by name.",
                 "  triplepoint list models\n", make_list},
    CommandEntry{"show", "Show what is known about a model, GPU, cluster, stack or study.",
                 "  triplepoint show hgx-h200\n", make_show},
    CommandEntry{
        "completion", "Print the completion script of a shell.",
        "  triplepoint completion bash > ~/.local/share/bash-completion/completions/triplepoint\n"
        "  triplepoint completion zsh > ~/.zfunc/_triplepoint\n"
        "  triplepoint completion fish > ~/.config/fish/completions/triplepoint.fish\n",
        make_completion},
};

}  // namespace

std::span<const CommandEntry> commands() {
  return table;
}

}  // namespace triplepoint::cli
