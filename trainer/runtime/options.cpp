// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/options.h"

#include <sstream>

#include <CLI/CLI.hpp>

namespace triplepoint::trainer {
namespace {

constexpr const char* about =
    "Trains a transformer with real parallelism on the processors of this machine (or of several), "
    "laid out as the job says.\n\n"
    "  triplepoint-train job.toml --transport threads          ranks are threads\n"
    "  mpirun -n 8 triplepoint-train job.toml --steps 20       ranks are processes\n"
    "  triplepoint-train job.toml --data book.txt --checkpoint runs/book --every 100 --resume\n\n"
    "`triplepoint train` starts it with the settings that work.";

const std::map<std::string, TransportKind> transports = {{"auto", TransportKind::automatic},
                                                         {"mpi", TransportKind::mpi},
                                                         {"threads", TransportKind::threads}};

const std::map<std::string, Carrier> carriers = {
    {"auto", Carrier::automatic}, {"shared_memory", Carrier::shared_memory}, {"mpi", Carrier::mpi}};

const std::map<std::string, Algorithm> algorithms = {
    {"auto", Algorithm::automatic},
    {"ring", Algorithm::ring},
    {"tree", Algorithm::tree},
    {"recursive_doubling", Algorithm::recursive_doubling},
    {"hierarchical", Algorithm::hierarchical},
    {"pairwise", Algorithm::pairwise},
    {"native", Algorithm::native}};

const CLI::Validator positive(
    [](const std::string& text) {
      double value = 0;
      return CLI::detail::lexical_cast(text, value) && value > 0 ? "" : text + " is not above 0";
    },
    "");

const CLI::Validator not_negative(
    [](const std::string& text) {
      double value = 0;
      return CLI::detail::lexical_cast(text, value) && value >= 0 ? "" : text + " is below 0";
    },
    "");

void add_training(CLI::App& app, TrainSettings& train) {
  app.add_option("--steps", train.steps, "Optimizer steps, in all")->check(positive);
  app.add_option("--seed", train.seed, "Of weights, data and dropout");
  app.add_option("--data", train.data,
                 "synthetic, a text file (bytes are tokens), or a Megatron-LM dataset (.bin/.idx)");
  app.add_option("--lr", train.rate.peak, "Learning rate at its highest")->check(positive);
  app.add_option("--warmup", train.rate.warmup_steps, "Steps of linear warm-up")
      ->check(not_negative);
  app.add_option("--decay-steps", train.rate.decay_steps,
                 "Step at which a cosine has fallen; 0: none")
      ->check(not_negative);
  app.add_option("--final-lr-share", train.rate.final_share, "Of --lr, after the decay")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--beta1", train.adam.beta1)->check(CLI::Range(0.0, 1.0));
  app.add_option("--beta2", train.adam.beta2)->check(CLI::Range(0.0, 1.0));
  app.add_option("--epsilon", train.adam.epsilon)->check(positive);
  app.add_option("--weight-decay", train.adam.weight_decay)->check(not_negative);
  app.add_option("--clip", train.clip, "Largest norm of a step's gradient; 0: any")
      ->check(not_negative);
}

void add_checkpoints(CLI::App& app, TrainSettings& train) {
  CLI::Option* folder =
      app.add_option("--checkpoint", train.checkpoint_folder, "Folder of checkpoints");
  app.add_option("--every", train.checkpoint_every, "Steps between checkpoints; 0: at the end")
      ->check(not_negative)
      ->needs(folder);
  app.add_flag("--resume", train.resume, "Go on from the newest checkpoint, if there is one")
      ->needs(folder);
}

/// The options of --device cuda; each of them means it.
void add_gpu(CLI::App& app, Options& options) {
  const auto gpu = [&options]() -> GpuChoice& {
    if (!options.train.gpu) options.train.gpu.emplace();
    return *options.train.gpu;
  };
  app.add_option_function<std::string>(
      "--device-plugin", [gpu](const std::string& path) { gpu().plugin = path; },
      "The GPU plug-in, libtriplepoint-train-cuda.so; where it is installed, if not said");
  app.add_option_function<std::string>(
      "--device-libraries", [gpu](const std::string& folder) { gpu().libraries = folder; },
      "Folder of libcuda, cuBLASLt and NCCL; as the system finds them, if not said");
  app.add_flag_callback(
      "--tf32", [gpu] { gpu().tf32 = true; }, "On GPUs: products of fp32 numbers in TF32");
  app.add_option_function<double>(
         "--device-memory-share", [gpu](double share) { gpu().memory_share = share; },
         "Of the GPU's free memory, for all arrays (0.9)")
      ->check(CLI::Range(0.01, 0.99));
}

void add_machine(CLI::App& app, Options& options, double& peak_gflops) {
  app.add_option("--transport", options.transport,
                 "auto, mpi (processes) or threads; auto: mpi under mpirun or srun")
      ->transform(CLI::CheckedTransformer(transports, CLI::ignore_case));
  app.add_option("--carrier", options.carrier,
                 "Of messages between processes: auto, shared_memory (one machine) or mpi")
      ->transform(CLI::CheckedTransformer(carriers, CLI::ignore_case));
  app.add_option_function<std::string>(
         "--links",
         [&](const std::string& text) {
           if (text != "auto") options.shaping = text == "shaped";
         },
         "shaped (slowed down to the cluster's), real, or auto: shaped where the cluster's devices "
         "are processes that share cores")
      ->check(CLI::IsMember({"auto", "shaped", "real"}));
  app.add_option("--ranks", options.ranks, "Threads to start; the job's devices, if not said")
      ->check(positive);
  app.add_option("--collectives", options.collectives,
                 "auto, ring, recursive_doubling, tree, hierarchical, pairwise or native (MPI's)")
      ->transform(CLI::CheckedTransformer(algorithms, CLI::ignore_case));
  app.add_option_function<std::string>(
         "--device",
         [&](const std::string& text) {
           if (text == "cuda" && !options.train.gpu) options.train.gpu.emplace();
         },
         "cpu, or cuda: one GPU per rank, collectives by NCCL (docs/train/gpu.md)")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->trigger_on_parse();
  add_gpu(app, options);
  app.add_option("--timeout", options.timeout_seconds, "Seconds that a silent rank is waited for")
      ->check(positive);
  app.add_option("--memory-limit", options.memory_limit,
                 "Memory of this machine, as 8GB; 0: not checked; what is free, if not said");
  app.add_option("--peak", peak_gflops, "GFLOP/s of one rank, for MFU; measured, if not said")
      ->check(positive);
  app.add_option_function<std::string>(
         "--format", [&](const std::string& text) { options.json = text == "json"; },
         "table or json: one object at the end")
      ->check(CLI::IsMember({"table", "json"}));
}

}  // namespace

Parsed parse_options(int argc, const char* const* argv) {
  Parsed parsed;
  double peak_gflops = 0;
  CLI::App app(about, "triplepoint-train");
  app.option_defaults()->always_capture_default();
  app.add_option("JOB", parsed.options.job, "job.toml, as simulate takes it")->required();
  add_training(app, parsed.options.train);
  add_checkpoints(app, parsed.options.train);
  add_machine(app, parsed.options, peak_gflops);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& failed) {
    std::ostringstream out;
    const int code = app.exit(failed, out, out);
    parsed.exit_code = code == 0 ? 0 : 2;
    parsed.text = out.str();
  }
  parsed.options.train.peak_flops = peak_gflops * 1e9;
  parsed.options.train.timeout_seconds = parsed.options.timeout_seconds;
  return parsed;
}

}  // namespace triplepoint::trainer
