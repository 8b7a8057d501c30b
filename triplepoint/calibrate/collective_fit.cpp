// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/collective_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "triplepoint/base/files.h"

#include "triplepoint/spec/table_writer.h"

#include "triplepoint/calibrate/collective_tables.h"
#include "triplepoint/calibrate/kernel_simplex.h"

namespace triplepoint::calibrate {
namespace {

using spec::Cluster;
using spec::ScaleUp;

struct Knob {
  Parameter parameter;
  const char* key;   // in the file
  const char* unit;  // "", "us", "MB"
  void (*set)(ScaleUp&, double);
};

std::vector<Knob> link_knobs(bool with_switch) {
  std::vector<Knob> knobs = {
      {{"efficiency", 0.8, 0.3, 1},
       "efficiency",
       "",
       [](ScaleUp& s, double v) { s.efficiency = v; }},
      {{"all_to_all_efficiency", 0.75, 0.3, 1},
       "all_to_all_efficiency",
       "",
       [](ScaleUp& s, double v) { s.all_to_all_efficiency = v; }},
      {{"low_latency_efficiency", 0.2, 0.005, 0.6},
       "low_latency_efficiency",
       "",
       [](ScaleUp& s, double v) { s.low_latency_efficiency = v; }},
      {{"launch", 7, 1, 20}, "launch", "us", [](ScaleUp& s, double v) { s.launch = v * unit::us; }},
      {{"latency", 1, 0, 5},
       "latency",
       "us",
       [](ScaleUp& s, double v) { s.latency = v * unit::us; }},
      {{"bulk_latency", 1, 0, 10},
       "bulk_latency",
       "us",
       [](ScaleUp& s, double v) { s.bulk_latency = v * unit::us; }},
      {{"half_size", 2, 0, 20},
       "half_size",
       "MB",
       [](ScaleUp& s, double v) { s.half_size = v * unit::MB; }},
      {{"local_copy_factor", 1.8, 0.5, 6}, "local_copy_factor", "", [](ScaleUp& s, double v) {
         s.local_copy_factor = v;
       }}};
  if (!with_switch) return knobs;
  knobs.push_back(
      {{"nvls_efficiency", 0.57, 0.5, 0.65}, "nvls_efficiency", "", [](ScaleUp& s, double v) {
         s.nvls_efficiency = v;
       }});
  knobs.push_back({{"nvls_latency", 40, 0, 100}, "nvls_latency", "us", [](ScaleUp& s, double v) {
                     s.nvls_latency = v * unit::us;
                   }});
  return knobs;
}

/// Rows of equal size are in one fold, whatever the collective and the ranks.
int fold_of(const CollectiveRow& row) {
  const auto octave = static_cast<int64_t>(std::llround(std::log2(row.payload / unit::B)));
  constexpr int64_t folds = 5;
  return static_cast<int>((octave * 7) % folds);
}

double log_error(const Cluster& cluster, const CollectiveRow& row) {
  return std::log(predicted_time(cluster, row) / row.latency);
}

Cluster with(Cluster cluster, const std::vector<Knob>& knobs, const std::vector<double>& at) {
  for (std::size_t i = 0; i < at.size(); ++i)
    knobs[i].set(cluster.scale_up, at[i]);
  return cluster;
}

using Rows = std::vector<const CollectiveRow*>;

Minimum fit_links(const Cluster& start, const std::vector<Knob>& knobs, const Rows& rows,
                  std::optional<int> without_fold, int evaluations) {
  std::vector<Parameter> parameters;
  parameters.reserve(knobs.size());
  for (const Knob& knob : knobs)
    parameters.push_back(knob.parameter);
  const auto loss = [&](const std::vector<double>& at) {
    const Cluster cluster = with(start, knobs, at);
    double sum = 0;
    for (const CollectiveRow* row : rows)
      if (fold_of(*row) != without_fold) sum += std::abs(log_error(cluster, *row));
    return sum / static_cast<double>(rows.size());
  };
  return minimize(parameters, loss, evaluations);
}

struct BySize {
  Residuals large, between, small;
};

Residuals residuals_of(std::vector<double> errors) {
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  const auto at = [&](double share) {
    return errors[static_cast<std::size_t>(share * static_cast<double>(errors.size() - 1))];
  };
  return {static_cast<int64_t>(errors.size()), at(0.5), at(0.9)};
}

template <class ErrorOf>
BySize by_size(const Rows& rows, const ErrorOf& error) {
  std::array<std::vector<double>, 3> sizes;
  for (const CollectiveRow* row : rows) {
    const std::size_t size = row->payload >= 16 * unit::MB ? 0
                             : row->payload < 1 * unit::MB ? 2
                                                           : 1;
    sizes[size].push_back(100 * std::abs(std::exp(error(*row)) - 1));
  }
  return {residuals_of(sizes[0]), residuals_of(sizes[1]), residuals_of(sizes[2])};
}

BySize held_out(const Cluster& start, std::vector<Knob> knobs, const Minimum& whole,
                const Rows& rows) {
  for (std::size_t i = 0; i < knobs.size(); ++i)
    knobs[i].parameter.start = whole.at[i];
  std::vector<Cluster> clusters;
  clusters.reserve(5);
  for (int fold = 0; fold < 5; ++fold)
    clusters.push_back(with(start, knobs, fit_links(start, knobs, rows, fold, 300).at));
  return by_size(rows, [&](const CollectiveRow& row) {
    return log_error(clusters[static_cast<std::size_t>(fold_of(row))], row);
  });
}

/// As if this cluster had no table: bandwidth from the data sheet, all else as on the others.
BySize with_numbers_of_others(const Cluster& cluster, const Rows& rows,
                              const spec::Library& library) {
  std::vector<Cluster> others;
  for (const char* name : {"dgx-a100", "dgx-h100", "dgx-b200"}) {
    const auto other = spec::load_cluster(library, name);
    if (!other || other->gpu.name == cluster.gpu.name) continue;
    Cluster tried = cluster;
    tried.scale_up = other->scale_up;
    tried.scale_up.bandwidth = cluster.scale_up.bandwidth;
    tried.scale_up.nvls = cluster.scale_up.nvls;
    others.push_back(tried);
  }
  if (others.empty()) return {};
  return by_size(rows, [&](const CollectiveRow& row) {
    double sum = 0;
    for (const Cluster& other : others)
      sum += log_error(other, row);
    return sum / static_cast<double>(others.size());
  });
}

std::string newest(const std::vector<CollectiveRow>& rows, const std::string& gpu) {
  std::string found;
  for (const CollectiveRow& row : rows)
    if (row.gpu == gpu) found = std::max(found, row.software);
  return found;
}

Rows rows_about(const std::vector<CollectiveRow>& rows, const Cluster& cluster,
                const std::string& software) {
  Rows found;
  for (const CollectiveRow& row : rows)
    if (row.gpu == cluster.gpu.name && row.nodes == 1 && row.latency > Seconds() &&
        row.software == software && row.dtype != "int8" &&
        row.ranks <= cluster.scale_up.domain_size)
      found.push_back(&row);
  return found;
}

bool used_the_switch(const Rows& rows, const Cluster& cluster) {
  return std::any_of(rows.begin(), rows.end(), [&](const CollectiveRow* row) {
    return row->collective == spec::Collective::all_reduce && row->ranks > 4 &&
           (row->reduction == SwitchReduction::on ||
            (row->reduction == SwitchReduction::as_the_cluster && cluster.scale_up.nvls));
  });
}

FittedNumber fitted(const Knob& knob, double value) {
  const Parameter& p = knob.parameter;
  const double edge = (p.high - p.low) * 0.005;
  const double digits = std::pow(10, 2 - std::floor(std::log10(std::max(1e-3, value))));
  return {knob.key, std::round(value * digits) / digits, std::string(knob.unit) == "us",
          value < p.low + edge || value > p.high - edge};
}

/// "efficiency = 0.85", "launch = \"5.3 us\"" in place of the old value, aligned as it was.
std::string replaced(const std::string& line, const FittedNumber& number) {
  const std::size_t equals = line.find('=');
  const std::string value = number.is_time_us           ? fmt::format("\"{} us\"", number.value)
                            : number.key == "half_size" ? fmt::format("\"{} MB\"", number.value)
                                                        : fmt::format("{}", number.value);
  return line.substr(0, equals) + "= " + value;
}

std::string key_of(const std::string& line) {
  const std::size_t equals = line.find('=');
  if (equals == std::string::npos) return {};
  return line.substr(0, line.find_last_not_of(' ', equals - 1) + 1);
}

std::string cite_of(const LinkFit& fit, const std::string& tables) {
  return fmt::format(
      "{}, triplepoint calibrate collectives: {}, {} rows, 2 ranks and more of one domain; held "
      "out "
      "by message size in 5 folds: above 16 MB median {:.1f}, p90 {:.1f} per cent, below 1 MB "
      "{:.1f} "
      "and {:.1f}, between {:.1f} and {:.1f}",
      tables, fit.software, fit.rows, fit.held_out_large.median_pct, fit.held_out_large.p90_pct,
      fit.held_out_small.median_pct, fit.held_out_small.p90_pct, fit.held_out_between.median_pct,
      fit.held_out_between.p90_pct);
}

std::string record_of(const LinkFit& fit) {
  const auto line = [](const char* key, const Residuals& r) {
    return fmt::format("{} = {{ rows = {}, median_pct = {:.1f}, p90_pct = {:.1f} }}\n", key, r.rows,
                       r.median_pct, r.p90_pct);
  };
  return "\n[fit.scale_up]\n" + line("held_out_large", fit.held_out_large) +
         line("held_out_between", fit.held_out_between) +
         line("held_out_small", fit.held_out_small) + line("others_large", fit.others_large) +
         line("others_between", fit.others_between) + line("others_small", fit.others_small);
}

/// Which part of a cluster file a line is in.
struct Place {
  bool in_links = false, in_record = false, of_fit = false;
  void pass(const std::string& line, const std::vector<FittedNumber>& numbers) {
    if (line.starts_with("[")) {
      in_links = line == "[cluster.scale_up]";
      in_record = line.starts_with("[fit.scale_up]");
      of_fit = false;
    }
    if (line.find("\"cluster.scale_up." + numbers.front().key + "\"") != std::string::npos)
      of_fit = true;
  }
};

}  // namespace

Result<LinkFit> fit_collectives(const std::vector<CollectiveRow>& rows,
                                const spec::Library& library, const std::string& cluster_name) {
  Cluster cluster = TPT_TRY(spec::load_cluster(library, cluster_name));
  LinkFit fit{.cluster = cluster_name, .software = newest(rows, cluster.gpu.name)};
  const Rows mine = rows_about(rows, cluster, fit.software);
  constexpr std::size_t fewest = 40;
  if (mine.size() < fewest)
    return error(
        fmt::format("{} collectives of {} inside one domain are in the tables (at least {} "
                    "are needed); try another cluster or another table",
                    mine.size(), cluster.gpu.name, fewest));
  fit.rows = static_cast<int64_t>(mine.size());
  const bool with_switch = used_the_switch(mine, cluster);
  cluster.scale_up.nvls = with_switch;
  const std::vector<Knob> knobs = link_knobs(with_switch);
  const Minimum best = fit_links(cluster, knobs, mine, std::nullopt, 1600);
  std::vector<double> rounded;
  for (std::size_t i = 0; i < knobs.size(); ++i) {
    fit.numbers.push_back(fitted(knobs[i], best.at[i]));
    rounded.push_back(fit.numbers.back().value);
  }
  const Cluster found = with(cluster, knobs, rounded);
  fit.links = found.scale_up;
  const BySize seen =
      by_size(mine, [&](const CollectiveRow& row) { return log_error(found, row); });
  const BySize unseen = held_out(cluster, knobs, best, mine);
  const BySize others = with_numbers_of_others(cluster, mine, library);
  fit.large = seen.large, fit.between = seen.between, fit.small = seen.small;
  fit.held_out_large = unseen.large, fit.held_out_between = unseen.between;
  fit.held_out_small = unseen.small;
  fit.others_large = others.large, fit.others_between = others.between;
  fit.others_small = others.small;
  return fit;
}

Result<std::string> links_toml(const LinkFit& fit, const spec::Library& library,
                               const std::string& tables) {
  const std::string path = library.root + "/clusters/" + fit.cluster + ".toml";
  std::istringstream lines(TPT_TRY(read_file(path)));
  Place place;
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    place.pass(line, fit.numbers);
    if (place.in_record) continue;
    const std::string key = key_of(line);
    const auto number = std::find_if(fit.numbers.begin(), fit.numbers.end(),
                                     [&](const FittedNumber& n) { return n.key == key; });
    if (place.in_links && number != fit.numbers.end()) line = replaced(line, *number);
    if (place.of_fit && key == "kind") line = "kind = \"fitted\"";
    if (place.of_fit && key == "cite") line = "cite = " + spec::toml_text(cite_of(fit, tables));
    text += line + "\n";
  }
  while (text.ends_with("\n\n"))
    text.pop_back();
  return text + record_of(fit);
}

}  // namespace triplepoint::calibrate
