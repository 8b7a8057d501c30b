// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/command.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "triplepoint/base/lists.h"
#include "triplepoint/base/text.h"

namespace triplepoint::cli {
namespace {

constexpr CommandEntry table[] = {
    {"simulate", "Predict", "Predict speed, power, heat and clocks of one job.",
     "The job comes from a file, from flags, or from both: flags go on top of the file.\n"
     "By default, the job is simulated to thermal steady state.\n"
     "If the job does not fit in memory, its memory breakdown is printed.\n\n"
     "  triplepoint simulate --model gpt3-175b --cluster hgx-h200 --nodes 4 --tp 8 --pp 4 --gbs "
     "128\n"
     "  triplepoint simulate job.toml --mbs 2 --format json\n"
     "  triplepoint simulate --task decode --model llama3-70b --cluster hgx-h200 --tp 8 --mbs 64\n"
     "  triplepoint simulate job.toml --duration 10min --fault gpu=3,power=0.25@120s..300s\n",
     make_simulate},
    {"plan", "Predict", "Find the best layout of a training job.",
     "Searches every legal combination of tensor, pipeline, context, expert and data\nparallelism, "
     "chunks, microbatch, sharding, recompute, overlap, schedule and uneven\nstages. Bounds "
     "discard most plans, schedules are simulated for the rest, and the best\nare simulated with "
     "power, heat and clocks. Prints the ranking and why the other plans\nlose. --clocks keeps the "
     "layout and plans the clock of each GPU: GPUs off the critical\npath run slower. In a search "
     "a flag of the layout holds it: --tp 8 is --fix tp=8.\n\n"
     "  triplepoint plan --model gpt3-175b --cluster hgx-h200 --nodes 4 --gbs 128\n"
     "  triplepoint plan --model llama3-70b --cluster dgx-h100 --nodes 8 --gbs 512 \\\n"
     "    --fix \"tp=8,mbs=1|2\" --max-temperature \"75 C\" --tokens 2T -o plans\n"
     "  triplepoint plan --model mixtral-8x7b --cluster dgx-h100 --nodes 2 --gbs 128 \\\n"
     "    --objective energy --pareto\n"
     "  triplepoint plan --clocks job.toml --slowdown 1% -o clocks\n",
     make_plan},
    {"place", "Predict", "Place stages and layers by GPU temperature, and estimate the gain.",
     "Groups GPUs by temperature at equal load; the data determine the number of groups.\nCool "
     "GPUs get the earlier stages (symmetric) or more layers as well (asymmetric);\na local search "
     "goes on from the fastest. Each placement is simulated and compared with the\ngiven job, "
     "which stays as it is where none gains. docs/heat-and-power.md has the rules.\n\n"
     "  triplepoint place job.toml -o placed\n"
     "  triplepoint place --model llama3-70b --cluster hgx-h200 --nodes 4 --tp 4 --pp 4 --gbs 128\n"
     "  triplepoint place --from recording.run\n"
     "  triplepoint place job.toml --from smi.csv --format json\n",
     make_place},
    {"steer", "Predict", "Control clocks, power caps and placement of a running job.",
     "Simulates a disturbance with and without the controller on identical hardware. "
     "The\ncontroller forecasts clock limits and spare nodes, and takes what lowers energy\nx time "
     "of a step; restarts count, and hysteresis prevents oscillation. With --watch it reads\na "
     "growing recording: an alarm says what changed, and which --fault explains it.\n\n"
     "  triplepoint steer job.toml --fault node=1,fan=0.2@5min --duration 30min\n"
     "  triplepoint steer --model llama3-8b --cluster hgx-h200 --nodes 4 --tp 8 --gbs 64 \\\n"
     "    --fault inlet=+12@5min..20min\n"
     "  triplepoint steer --watch job.run\n",
     make_steer},
    {"characterize", "Predict",
     "Simulate or measure every job of a study and write tables and a report.",
     "Writes runs/*.run, results.csv, results.json and report.html into a folder. The\n"
     "report links every job to the page of its run, where there is one: see --pages.\n"
     "Interrupted, it keeps what is finished; the same call then goes on from there.\n"
     "A job that is invalid or does not fit in memory is a row with its diagnosis.\n"
     "With --measure jobs are run, here or by Slurm: by triplepoint train or, if that is\ntheir "
     "stack, by Megatron-LM, NeMo or torchtitan under the recorder. A training that\ncrashes or "
     "times out is a row with its diagnosis.\n"
     "A suite scores clusters: speed, energy and heat of its jobs, each with the fastest "
     "plan,\nagainst the published reference, which is 1.\n\n"
     "  triplepoint characterize paper/h200 -o study\n"
     "  triplepoint characterize suite/training-v1 --cluster hgx-h200:4 --cluster dgx-b200:4\n"
     "  triplepoint characterize laptop --measure --repeats 3 -o measured\n",
     make_characterize},
    {"record", "Measure",
     "Run a training command and record power, heat, clocks, links and its steps.",
     "The command keeps its streams, signals and exit status. Under srun, mpirun or torchrun\none "
     "recorder per node records for all ranks. If it is killed, at most the last second\nis lost. "
     "An existing file is renamed to NAME.1.run.\n\n"
     "  triplepoint record -o job.run -- torchrun --nproc-per-node 8 train.py\n"
     "  srun triplepoint record -o job.run -- python train.py\n"
     "  triplepoint record --job pretrain.yaml -o job.run -- python megatron_gpt_pretraining.py\n"
     "  triplepoint record --interval 20ms --devices 0-3 -- ./train --steps 100\n",
     make_record},
    {"train", "Measure",
     "Train a small model with real parallelism on this machine, and record it.",
     "A transformer (GPT, Llama) with tensor, pipeline and data parallelism, on ranks that are\n"
     "processes of this machine, or of a Slurm allocation. Requires only MPI and a BLAS. The\n"
     "job format is that of simulate. The default job is a small Llama on the cluster laptop\n"
     "(8 ranks on one machine), in fp32, 32 sequences per step in microbatches of 2, gradients\n"
     "not sharded. Open MPI settings are set automatically; under mpirun or srun the command\n"
     "is one rank.\n\n"
     "  triplepoint train\n"
     "  triplepoint train --model tiny-gpt --tp 2 --pp 4 --steps 20 -o gpt.run\n"
     "  triplepoint train job.toml --ranks 16 -- --data book.txt --lr 1e-3\n",
     make_train},
    {"snapshot", "Measure", "Print everything that can be measured on this node, once or live.",
     "Counters are shown as rates over 0.5 s. Missing readings are absent, never "
     "0;\ntriplepoint doctor lists the reasons. With --every a terminal shows the "
     "table\nlive: throttling is the share of the last second, with its cause.\n\n"
     "  triplepoint snapshot\n"
     "  triplepoint snapshot --every 1s --devices 0-3\n"
     "  triplepoint snapshot --format json\n"
     "  triplepoint snapshot --format csv --every 1s > node.csv\n",
     make_snapshot},
    {"exporter", "Measure", "Export this node's readings to Prometheus.",
     "Listens on the loopback interface by default. Access from other machines requires a\n"
     "token or --allow-everybody. /metrics has few labels (gpu, uuid, host, model); jobs\n"
     "are a separate series to join with. /snapshot.json is for scripts.\n\n"
     "  triplepoint exporter\n"
     "  triplepoint exporter --listen 0.0.0.0:9400 --token-file /etc/triplepoint/token\n"
     "  triplepoint exporter --dcgm-names --job-file /run/triplepoint/jobs\n",
     make_exporter},
    {"doctor", "Measure",
     "List what can be measured here, how often it updates, and how to enable the rest.",
     "Samples all sensors for a few seconds. Lists signals with scope, kind and update\nperiod, "
     "missing signals with the command that enables them, and known pitfalls.\n\n"
     "  triplepoint doctor\n"
     "  triplepoint doctor --format json --look 10s\n",
     make_doctor},
    {"discover", "Measure", "Describe this node as a cluster that simulate reads.",
     "Starts from the library's machine with the same GPU and replaces what the driver and\nthe "
     "kernel report. Compares each value with the library entry. With --nccl-tests the\nlink "
     "efficiencies are the measured ones. Fails if the node has no GPUs.\n\n"
     "  triplepoint discover -o cluster.toml\n"
     "  triplepoint discover -o cluster.toml --nccl-tests all_gather.txt\n"
     "  triplepoint simulate --cluster cluster.toml --model llama3-8b --tp 8\n",
     make_discover},
    {"why", "Look", "Explain a slow training: causes in seconds that add up, and what to do.",
     "Reads whatever there is: a recording, the traces of its ranks, the training's log. "
     "With\na job, or the one that the recording names, the step is compared with its "
     "prediction.\nSays what the given files cannot tell. A log alone shows warm-up, pauses, "
     "throttling in\nphases, garbage collection and checkpoints by the times of its steps.\n\n"
     "  triplepoint why train.log gpus.csv\n"
     "  triplepoint why job.run traces/ --against job.toml --with mine\n"
     "  triplepoint why slow.run --against fast.run -o why.html\n",
     make_why},
    {"report", "Look", "Write the page of a run, of profiler traces, or of a study.",
     "With a timeline, the page shows where time is spent, collective bandwidth, late "
     "ranks\nand their causes, and the critical path.\n\n"
     "  triplepoint report job.run -o job.html\n"
     "  triplepoint report rank*.json.gz -o step.html\n"
     "  triplepoint report rank*.json.gz job.run --step 3\n"
     "  triplepoint report study/\n",
     make_report},
    {"compare", "Look", "Show runs or studies side by side, with what changed and by how much.",
     "Simulated, measured and traced runs alike; studies are joined by the names of their jobs.\n"
     "The first source is the baseline. Differences within twice the standard error of the\nmeans "
     "are marked.\n\n"
     "  triplepoint compare before.run after.run\n"
     "  triplepoint compare simulated.run measured.run -o compare.html\n"
     "  triplepoint compare study-a/ study-b/ --format csv\n",
     make_compare},
    {"serve", "Look", "Serve a folder of runs and studies as web pages that update.",
     "Starts a web server on the loopback interface. New files and growing recordings "
     "appear\nautomatically. Access from other machines requires a token or --allow-everybody.\n\n"
     "  triplepoint serve results/\n"
     "  triplepoint serve results/ --listen 0.0.0.0:8080 --token-file token\n",
     make_serve},
    {"explore", "Look", "Write a page that predicts and plans in a browser, with a job filled in.",
     "The page holds this program's predictor: change a layout, a limit or the cooling, and "
     "read\nthe new forecast; pin jobs, compare them, find the best plan, and copy the command. It "
     "needs\nno network and sends nothing. Without a job it opens with one of the paper.\n\n"
     "  triplepoint explore --model llama3-70b --cluster hgx-h100 --nodes 8 --tp 8\n"
     "  triplepoint explore job.run -o page.html\n",
     make_explore},
    {"trace", "Look", "Analyze profiler traces: time, late ranks, critical path, energy.",
     "Reads PyTorch profiler (Kineto) JSON, Nsight exports, Chakra, flight recorder dumps\nand "
     "more, detected by content, also in gzip, zstd and tar; one file, many ranks, or\nthe "
     "timeline of a .run. Times are exact to the nanosecond.\n\n"
     "  breakdown      compute, exposed communication, copies, idle time, its causes\n"
     "  comm           collectives in the columns of nccl-tests\n"
     "  stragglers     ranks that are last into collectives, and why\n"
     "  operators      TFLOP/s and GB/s of operators against the GPU's roof\n"
     "  critical-path  the longest chain of dependencies, and what shortens it\n"
     "  diff           two traces, by kernel class and name, per rank and step\n"
     "  merge          many ranks in one file, with the counters of a recording;\n"
     "                 recordings of a job's nodes in one run, with aligned clocks\n"
     "  join           energy, power, heat and throttling of phases, from a recording\n\n"
     "  triplepoint trace breakdown rank*.json.gz\n"
     "  triplepoint trace stragglers traces/ --format json\n"
     "  triplepoint trace diff before.json.gz after.json.gz --top 20\n"
     "  triplepoint trace merge traces/ job.run -o job.pftrace\n"
     "  triplepoint trace merge recordings/ -o job.run\n"
     "  triplepoint trace join job.run traces/ --by class\n",
     make_trace},
    {"import", "Data", "Read launch files of other frameworks and check them.",
     "Reads NeMo YAML, Hugging Face config.json and Megatron-LM argument lists. A folder "
     "is\nsearched for such files. Tables of other samplers are read as recordings.\n\n"
     "  triplepoint import experiments/ --format json\n"
     "  triplepoint import pretrain.yaml -o jobs\n"
     "  triplepoint import zeus/ -o runs\n",
     make_import},
    {"export", "Data", "Write a job as a launch file, or a run as CSV.",
     "  triplepoint export job.toml --megatron-args\n"
     "  triplepoint export job.toml --nemo-yaml -o pretrain.yaml\n"
     "  triplepoint export job.run --csv tables\n",
     make_export},
    {"show", "Data",
     "List the models, GPUs, clusters, stacks, optimizers, records or studies of the "
     "library, or show the parameters of one.",
     "  triplepoint show models\n"
     "  triplepoint show hgx-h200\n",
     make_show},
    {"schema", "Data",
     "Print the JSON Schema of an input file, by which editors complete and check it.",
     "Lists all keys with type, unit, allowed values, default and description (draft 07).\n"
     "Editors with the language server taplo (VS Code: Even Better TOML) take the schema that\n"
     "the first line of a file names, as #:schema ./job.schema.json; docs/formats.md has other\n"
     "ways.\n\n"
     "  triplepoint schema job > job.schema.json\n",
     make_schema},
    {"validate", "Data", "Compare predictions with tables of measurements.",
     "The columns determine the kind of table: training jobs, kernels, collectives, power,\n"
     "temperatures. A training row is a job: its columns are the keys of a job file and the\n"
     "measured values (docs/formats.md). Rows that cannot be predicted are listed with the\n"
     "reason. Put your own runs into these columns to check the model; validation/normalise.py\n"
     "converts published tables to jobs.\n\n"
     "  triplepoint validate my_runs.csv\n"
     "  triplepoint validate validation/*/jobs.csv --format json\n",
     make_validate},
    {"calibrate", "Data", "Learn from your own runs, for --with; or measure this machine.",
     "Learns from measured steps how your machines and software differ from the shipped\n"
     "coefficients; reports what each run taught and what to measure next. --this-machine\n"
     "times the cores of this machine and describes them as a cluster.\n\n"
     "  triplepoint calibrate runs.csv training.run -o mine\n"
     "  triplepoint calibrate --job job.toml train.log -o mine\n"
     "  triplepoint calibrate --this-machine\n",
     make_calibrate},
    {"completion", "Shell", "Print the completion script of a shell.",
     "  triplepoint completion bash > ~/.local/share/bash-completion/completions/triplepoint\n"
     "  source <(triplepoint completion zsh)     (in ~/.zshrc, after compinit)\n",
     make_completion},
};

constexpr std::array alias_table = {
    Alias{"list", "show"}, Alias{"top", "snapshot", "--every 1s", "--every,--interval"},
    Alias{"merge", "trace merge"},
    Alias{"trace overlap", "trace breakdown", "--show ranks,overlap", "--show"}};

/// Whether a word is one of these flags, as "--show" or "--show=ranks".
bool has_one_of(std::span<const std::string> words, std::string_view flags) {
  const std::vector<std::string> names = split(flags, ',');
  return std::ranges::any_of(
      words, [&](const std::string& word) { return holds(names, word.substr(0, word.find('='))); });
}

}  // namespace

std::span<const CommandEntry> commands() {
  return table;
}

std::span<const Alias> aliases() {
  return alias_table;
}

std::vector<std::string> without_alias(std::span<const std::string> words) {
  for (const Alias& alias : aliases()) {
    const std::vector<std::string> typed = split(alias.typed, ' ');
    if (words.size() < typed.size() || !std::ranges::equal(words.first(typed.size()), typed))
      continue;
    const auto rest = words.subspan(typed.size());
    std::vector<std::string> meant = split(alias.meaning, ' ');
    if (!alias.flag.empty() && !has_one_of(rest, alias.names))
      std::ranges::move(split(alias.flag, ' '), std::back_inserter(meant));
    std::ranges::copy(rest, std::back_inserter(meant));
    return meant;
  }
  return {words.begin(), words.end()};
}

}  // namespace triplepoint::cli
