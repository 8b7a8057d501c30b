// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "triplepoint/cli/command.h"
#include "triplepoint/cli/verbs.h"

namespace triplepoint::cli {
namespace {

constexpr std::array table = {
    CommandEntry{
        "characterize", "Simulate or measure every job of a study and write tables and a report.",
        "Writes runs/*.run, results.csv, results.json and report.html into a folder. The\n"
        "report links every job to the page of its run, where there is one: see --pages.\n"
        "Interrupted, it keeps what is finished; the same call then goes on from there.\n"
        "A job that is invalid or does not fit in memory is a row with its diagnosis.\n"
        "With --measure jobs are run for real, here or by Slurm: with triplepoint train, or,\n"
        "if that is their stack, Megatron-LM, NeMo or torchtitan, the recorder in front. A\n"
        "training that crashes or takes too long is a row, too.\n\n"
        "  triplepoint characterize paper/h200 -o study\n"
        "  triplepoint characterize laptop --measure --repeats 3 -o measured\n",
        make_characterize},
    CommandEntry{
        "simulate", "Predict speed, power, heat and clocks of one job.",
        "The job comes from a file, from flags, or from both: flags go on top of the file.\n"
        "Without --duration or --steps it is played to thermal steady state.\n"
        "A job that does not fit in memory is a result, too: its memory is shown.\n\n"
        "  triplepoint simulate --model gpt3-175b --cluster hgx-h200 --nodes 4 --tp 8 --pp 4 --gbs "
        "128\n"
        "  triplepoint simulate job.toml --mbs 2 --format json\n"
        "  triplepoint simulate --task decode --model llama3-70b --cluster hgx-h200 --tp 8 --mbs "
        "64\n"
        "  triplepoint simulate job.toml --duration 10min --fault gpu=3,power=0.25@120s..300s\n"
        "  triplepoint simulate --replay ranks.tar.gz --clock-scale 0.9\n",
        make_simulate},
    CommandEntry{
        "plan", "Find the layout a training job should run with, and say why.",
        "Looks at every legal combination of tensor, pipeline, context, expert and data "
        "parallelism,\n"
        "chunks, microbatch, sharding, recompute, overlap, schedule and uneven stages: bounds "
        "drop\n"
        "what cannot win, schedules are played for the rest, and the best are simulated with "
        "power,\n"
        "heat and clocks. Shows the ranking and why each other plan loses. --clocks takes the job\n"
        "as it is and plans the clock of each GPU: what waits for others may run slower.\n"
        "Under mpirun all ranks search together; --shard and --merge do so where they cannot "
        "talk.\n\n"
        "  triplepoint plan --model gpt3-175b --cluster hgx-h200 --nodes 4 --gbs 128\n"
        "  triplepoint plan --model llama3-70b --cluster dgx-h100 --nodes 8 --gbs 512 \\\n"
        "    --fix \"tp=8,mbs=1|2\" --max-temperature \"75 C\" --tokens 2T -o plans\n"
        "  triplepoint plan --model mixtral-8x7b --cluster dgx-h100 --nodes 2 --gbs 128 "
        "--objective energy --pareto\n"
        "  triplepoint plan --clocks job.toml --slowdown 1% -o clocks\n"
        "  mpirun -n 16 triplepoint plan --model deepseek-v3 --cluster dgx-h100 \\\n"
        "    --nodes 256 --gbs 8192\n",
        make_plan},
    CommandEntry{
        "steer", "Decide what to change while a job trains, and what to leave.",
        "Plays a job through a disturbance twice on the same boards: left alone, and with a\n"
        "controller that plays copies ahead and picks clock limits, power caps, microbatch, a\n"
        "layer shift or a spare node, or leaves it. Costs of moving count; nothing swings.\n"
        "With --watch it looks at a recording while it grows: it advises, and acts only through\n"
        "a --hook of yours.\n\n"
        "  triplepoint steer job.toml --scenario dead-fan --duration 30min\n"
        "  triplepoint steer --model llama3-8b --cluster hgx-h200 --nodes 4 --tp 8 --gbs 64 -o "
        "steer.html\n"
        "  triplepoint steer --watch job.run --hook ./apply-limits\n",
        make_steer},
    CommandEntry{
        "place", "Put stages and layers on GPUs by how warm they sit, and say what it is worth.",
        "Groups GPUs by temperature at equal load (how many groups there are comes out), gives\n"
        "cold ones the earlier stages (symmetric), or more layers as well (asymmetric), and\n"
        "searches for the best of all (optimal); each is simulated and compared with the job as\n"
        "it stands: rank order, imbalance paid, clock gained. docs/place.md has the rules.\n\n"
        "  triplepoint place job.toml -o placed\n"
        "  triplepoint place --model llama3-70b --cluster hgx-h200 --nodes 4 --tp 4 --pp 4 --gbs "
        "128\n"
        "  triplepoint place --from recording.run\n"
        "  triplepoint place job.toml --from smi.csv --format json\n",
        make_place},
    CommandEntry{
        "bench", "Score a cluster in the standard suite, and compare clusters by their cards.",
        "Plays the suite's jobs for half an hour each, or reads runs of them, checks the rules,\n"
        "and prints what counts: tokens/s, J/token, peak power and heat, throttling, spread,\n"
        "stability; with a score against the published reference, which is 1. What a plan may\n"
        "choose is free; docs/score-card.md has the rules.\n\n"
        "  triplepoint bench training-v1 --cluster hgx-h200 --nodes 4 -o card\n"
        "  triplepoint bench training-v1 --cluster hgx-h200:4 --cluster dgx-b200:4\n"
        "  triplepoint bench node-v1 --runs recordings/\n"
        "  triplepoint bench compare ours.json theirs.json\n",
        make_bench},
    CommandEntry{
        "validate", "Compare predictions with tables of measurements.",
        "The columns of a table say what it holds: training jobs, kernels, collectives, power,\n"
        "temperatures. A row of a training is a job: its columns are the keys of a job file, and\n"
        "what was measured (docs/formats.md). Rows that cannot be predicted are listed with the\n"
        "reason. Put your own runs into these columns to check the model against them; tables\n"
        "as they are published get these columns from validation/normalise.py.\n\n"
        "  triplepoint validate my_runs.csv\n"
        "  triplepoint validate validation/*/jobs.csv --format json\n",
        make_validate},
    CommandEntry{
        "calibrate", "Measure this machine and describe it as a cluster.",
        "Times products, attention, links and steps on the cores of this machine, and writes a\n"
        "folder with cluster.toml and stack.toml. The coefficients of GPUs and links in data/ are\n"
        "fitted to published tables by lab/fit_tables.py.\n\n"
        "  triplepoint calibrate --this-machine -o mine\n",
        make_calibrate},
    CommandEntry{
        "import", "Read other people's launch files and say what is wrong with them.",
        "Understands NeMo YAML, Hugging Face config.json and Megatron-LM argument lists.\n"
        "A folder is searched for such files. A folder of CSV files of the paper's artifact, or\n"
        "CSV of Zeus, is a recording.\n\n"
        "  triplepoint import experiments/ --format json\n"
        "  triplepoint import pretrain.yaml -o jobs\n"
        "  triplepoint import results/gpt3_1_mbs1_01000 -o runs\n",
        make_import},
    CommandEntry{"export", "Write a job as a file that can be launched, a run as CSV.",
                 "  triplepoint export job.toml --megatron-args\n"
                 "  triplepoint export job.toml --nemo-yaml -o pretrain.yaml\n"
                 "  triplepoint export job.run --upstream-csv results\n",
                 make_export},
    CommandEntry{
        "record", "Run a training command and record power, heat, clocks, links and its steps.",
        "The command runs as if it was called alone: its streams, its signals, its exit status.\n"
        "Under srun, mpirun or torchrun one recorder per node records for all ranks. Kill it, and\n"
        "all but the last second is in the file. A file of that name is kept as NAME.1.run.\n\n"
        "  triplepoint record -o job.run -- torchrun --nproc-per-node 8 train.py\n"
        "  srun triplepoint record -o job.run -- python train.py\n"
        "  triplepoint record --job pretrain.yaml -o job.run -- python "
        "megatron_gpt_pretraining.py\n"
        "  triplepoint record --interval 20ms --devices 0-3 -- ./train --steps 100\n",
        make_record},
    CommandEntry{
        "train", "Train a small model with real parallelism on this machine, and record it.",
        "A transformer (GPT, Llama, mixture of experts) with tensor, pipeline, data and expert\n"
        "parallelism, on ranks that are processes of this machine, or of a Slurm allocation.\n"
        "Nothing but MPI and a BLAS is needed. The job is the one that simulate reads; without "
        "one\n"
        "it is a small Llama on the emulated cluster laptop (2 nodes of 4 ranks, 1 Gb/s between\n"
        "them), in fp32, 32 sequences a step in microbatches of 2, gradients not sharded. Open "
        "MPI\n"
        "gets the settings that it needs; under mpirun or srun it is one rank.\n\n"
        "  triplepoint train\n"
        "  triplepoint train --model tiny-gpt --tp 2 --pp 4 --steps 20 -o gpt.run\n"
        "  triplepoint train job.toml --ranks 16 -- --data book.txt --lr 1e-3\n",
        make_train},
    CommandEntry{"merge",
                 "Make one run of the recordings of a job's nodes, with their clocks aligned.",
                 "Clocks by a common kernel, else by the wall clocks and then by the ends of\n"
                 "collectives or steps; what remains is said.\n\n"
                 "  triplepoint merge recordings/ -o job.run\n"
                 "  triplepoint merge job.n1.run job.n2.run -o job.run --format json\n",
                 make_merge},
    CommandEntry{
        "trace", "Say where the time of profiler traces went, who was late, and what it cost.",
        "Reads PyTorch profiler (Kineto) JSON, Nsight exports, Chakra, flight recorder dumps and\n"
        "more, told by content; gzip, zstd and tar as they are; one file or those of many ranks; "
        "or\n"
        "the timeline of a .run. Times are exact to the nanosecond.\n\n"
        "  breakdown      compute, exposed communication, copies, idle and why\n"
        "  overlap        how much communication hides behind compute\n"
        "  comm           collectives in the columns of nccl-tests, message sizes\n"
        "  stragglers     who is last into collectives, why; what naive readings say\n"
        "  critical-path  the longest chain of dependencies, what would shorten it\n"
        "  diff           two traces, by kernel class and name, per rank and step\n"
        "  merge          many ranks in one file, with the counters of a recording\n"
        "  join           energy, power, heat, throttling of phases, by a recording\n\n"
        "  triplepoint trace breakdown rank*.json.gz\n"
        "  triplepoint trace stragglers traces/ --format json\n"
        "  triplepoint trace diff before.json.gz after.json.gz --top 20\n"
        "  triplepoint trace merge traces/ job.run -o job.pftrace\n"
        "  triplepoint trace join job.run traces/ --by class\n",
        make_trace},
    CommandEntry{"report", "Make the page of a run, of profiler traces, or of a study's folder.",
                 "Where a timeline is known, the page says where the time went, what collectives\n"
                 "reached, who was late and why, and what the critical path consists of.\n\n"
                 "  triplepoint report job.run -o job.html\n"
                 "  triplepoint report rank*.json.gz -o step.html\n"
                 "  triplepoint report rank*.json.gz job.run --step 3\n"
                 "  triplepoint report study/\n"
                 "  triplepoint report --figure 13 study/ -o figure-13.svg\n",
                 make_report},
    CommandEntry{
        "compare", "Show runs or studies side by side, with what changed and by how much.",
        "Simulated, measured and traced runs alike; studies are joined by the names of their "
        "jobs.\n"
        "The first source is what the others are compared with. A difference that is smaller than\n"
        "what the steps of one run differ among themselves is said to be so.\n\n"
        "  triplepoint compare before.run after.run\n"
        "  triplepoint compare simulated.run measured.run -o compare.html\n"
        "  triplepoint compare study-a/ study-b/ --format csv\n",
        make_compare},
    CommandEntry{
        "serve", "Show a folder of runs and studies as pages that keep up with it.",
        "Opens a small web server on this machine alone. What comes into the folder, also a\n"
        "recording that still grows, appears by itself. Other machines get in only with a\n"
        "token, or if everybody is let in.\n\n"
        "  triplepoint serve results/\n"
        "  triplepoint serve results/ --listen 0.0.0.0:8080 --token-file token\n",
        make_serve},
    CommandEntry{
        "top", "Watch power, heat, clocks and what slows GPUs down, in the terminal.",
        "This node, other nodes, or a run while it is recorded. Throttling is the share of the\n"
        "last second, by the hardware's counters, with its cause. Keys: q quit, s sort, m mode,\n"
        "space pause, h help, arrows scroll (in a run left and right: time).\n\n"
        "  triplepoint top\n"
        "  triplepoint top --once -o 0-3 --sort temperature\n"
        "  triplepoint top --hosts node17:9400,node18:9400,ann@login\n"
        "  triplepoint top job.run\n",
        make_top},
    CommandEntry{"snapshot", "Print everything that can be measured here, once or again and again.",
                 "Counters are shown as rates over half a second. What is not measured is absent,\n"
                 "never 0; triplepoint doctor says why.\n\n"
                 "  triplepoint snapshot\n"
                 "  triplepoint snapshot --format json\n"
                 "  triplepoint snapshot --format csv --every 1s > node.csv\n",
                 make_snapshot},
    CommandEntry{
        "exporter", "Give this node's readings to Prometheus.",
        "Listens on this machine alone unless told otherwise; other machines then need a token,\n"
        "or everybody is let in. /metrics has few labels (gpu, uuid, host, model); jobs are a\n"
        "series of their own to join with. /snapshot.json is what top --hosts reads.\n\n"
        "  triplepoint exporter\n"
        "  triplepoint exporter --listen 0.0.0.0:9400 --token-file /etc/triplepoint/token\n"
        "  triplepoint exporter --dcgm-names --job-file /run/triplepoint/jobs\n",
        make_exporter},
    CommandEntry{
        "doctor", "Say what can be measured here, how often it is new, and how to get the rest.",
        "Watches all sensors for some seconds; lists signals with their scope, kind and update\n"
        "period, what is missing with the command that helps, and what one may trip over.\n\n"
        "  triplepoint doctor\n"
        "  triplepoint doctor --format json --look 10s\n",
        make_doctor},
    CommandEntry{
        "discover", "Describe this node as a cluster that simulate reads.",
        "Numbers of the driver and the kernel, on top of the library's machine with the same GPU;\n"
        "each with its source, and compared. With --nccl-tests the links' efficiencies are those\n"
        "that were measured. A node without GPUs is refused.\n\n"
        "  triplepoint discover -o cluster.toml\n"
        "  triplepoint discover -o cluster.toml --nccl-tests all_gather.txt\n"
        "  triplepoint simulate --cluster cluster.toml --model llama3-8b --tp 8\n",
        make_discover},
    CommandEntry{"list",
                 "List the models, GPUs, clusters, stacks, optimizers or studies known by name.",
                 "  triplepoint list models\n", make_list},
    CommandEntry{"show",
                 "Show what is known about a model, GPU, cluster, stack, optimizer or study.",
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
