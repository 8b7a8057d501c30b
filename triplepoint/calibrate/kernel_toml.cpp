// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "triplepoint/spec/fields.h"
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/table_writer.h"

#include "triplepoint/calibrate/kernel_fit.h"

namespace triplepoint::calibrate {
namespace {

using spec::Provenance;

/// Keys that have one origin in common.
struct Origin {
  std::string kind, cite;
  std::vector<std::string> keys;
};

std::string text_of(const Origin& origin) {
  std::string keys;
  for (const std::string& key : origin.keys)
    keys += fmt::format("{}{}", keys.empty() ? "" : ", ", spec::toml_text(key));
  return fmt::format("[[source]]\nkeys = [{}]\nkind = {}\ncite = {}\n", keys,
                     spec::toml_text(origin.kind), spec::toml_text(origin.cite));
}

std::string size_text(const char* what, const Residuals& r) {
  return r.rows == 0 ? std::string()
                     : fmt::format("; {} median {:.1f}, p90 {:.1f} per cent ({} rows)", what,
                                   r.median_pct, r.p90_pct, r.rows);
}

std::string cite_of(const ClassFit& fit, const std::string& tables) {
  return fmt::format(
      "{}, triplepoint calibrate kernels, {}: {} rows; held out by shape in 5 folds{}{}", tables,
      fit.name, fit.rows, size_text("100 us and more", fit.held_out_large),
      size_text("shorter", fit.held_out_small));
}

bool is_of_chip(const ClassFit& fit) {
  return !fit.name.starts_with("cast ");
}

std::vector<Origin> fitted_origins(const KernelFit& fit, const std::string& tables) {
  std::vector<Origin> origins;
  for (const ClassFit& c : fit.classes) {
    if (!is_of_chip(c)) continue;
    origins.push_back({"fitted", cite_of(c, tables), {}});
    for (const FittedNumber& number : c.numbers)
      origins.back().keys.push_back("kernels." + number.key);
  }
  return origins;
}

bool has_origin(const std::vector<Origin>& origins, const std::string& key) {
  return std::any_of(origins.begin(), origins.end(), [&](const Origin& origin) {
    return std::find(origin.keys.begin(), origin.keys.end(), key) != origin.keys.end();
  });
}

/// What the fit did not touch keeps its origin.
void add_kept(std::vector<Origin>& origins, const std::vector<Provenance>& known) {
  std::vector<Origin> kept;
  for (const Provenance& p : known) {
    if (has_origin(origins, p.key)) continue;
    const std::string kind(spec::enum_name(p.kind));
    const auto same = std::find_if(kept.begin(), kept.end(), [&](const Origin& origin) {
      return origin.kind == kind && origin.cite == p.cite;
    });
    if (same == kept.end())
      kept.push_back({kind, p.cite, {p.key}});
    else
      same->keys.push_back(p.key);
  }
  origins.insert(origins.end(), kept.begin(), kept.end());
}

std::string residual_text(const char* key, const Residuals& r) {
  if (r.rows == 0) return {};
  return fmt::format("{} = {{ rows = {}, median_pct = {:.1f}, p90_pct = {:.1f} }}\n", key, r.rows,
                     r.median_pct, r.p90_pct);
}

std::string record_of(const ClassFit& c) {
  std::string text = fmt::format("\n[fit.{}]\n", c.name);
  text += residual_text("large", c.large) + residual_text("small", c.small);
  text += residual_text("held_out_large", c.held_out_large);
  text += residual_text("held_out_small", c.held_out_small);
  text += residual_text("other_gpus_large", c.other_gpus_large);
  text += residual_text("other_gpus_small", c.other_gpus_small);
  return text;
}

/// Copies one field where its key is asked for.
class CopyFields {
 public:
  CopyFields(const std::vector<std::string>& keys, double peak_share)
      : keys_(keys), peak_share_(peak_share) {}
  template <class T>
  void operator()(std::string_view key, T& value, spec::Need = spec::Need::optional) {
    if (reading_) {
      take(key, value);
      return;
    }
    if (std::find(keys_.begin(), keys_.end(), "kernels." + std::string(key)) != keys_.end())
      give(key, value);
  }
  void write_from_now() { reading_ = false; }

 private:
  void take(std::string_view key, double value) { numbers_[std::string(key)] = value; }
  void take(std::string_view key, int64_t value) { counts_[std::string(key)] = value; }
  void take(std::string_view key, Seconds value) { times_[std::string(key)] = value; }
  void take(std::string_view key, const std::optional<double>& value) {
    if (value) numbers_[std::string(key)] = *value;
  }
  void give(std::string_view key, double& value) {
    const double scale = is_share_of_peak(key) ? peak_share_ : 1;
    value = std::round(numbers_.at(std::string(key)) * scale * 1e4) / 1e4;
  }
  void give(std::string_view key, int64_t& value) { value = counts_.at(std::string(key)); }
  void give(std::string_view key, Seconds& value) { value = times_.at(std::string(key)); }
  void give(std::string_view key, std::optional<double>& value) {
    value = 0.0;
    give(key, *value);
  }
  static bool is_share_of_peak(std::string_view key) {
    return key == "gemm_peak_share" || key == "gemm_fp8_share" || key == "gemm_mxfp8_share" ||
           key == "gemm_fp4_share" || key == "attention_forward_share" ||
           key == "attention_backward_share";
  }

  const std::vector<std::string>& keys_;
  double peak_share_;
  bool reading_ = true;
  std::map<std::string, double> numbers_;
  std::map<std::string, int64_t> counts_;
  std::map<std::string, Seconds> times_;
};

/// Only what has an origin is written: a default is no number of this GPU.
std::string file_text(spec::KernelCoefficients kernels, const std::vector<Origin>& origins) {
  spec::TableWriter writer(nullptr, "kernels");
  spec::visit_fields(writer, kernels);
  std::string text = "# SPDX-License-Identifier: Apache-2.0\n[kernels]\n";
  std::istringstream lines(writer.text());
  for (std::string line; std::getline(lines, line);)
    if (const auto end = line.find(" = ");
        end != std::string::npos && has_origin(origins, "kernels." + line.substr(0, end)))
      text += line + "\n";
  for (const Origin& origin : origins)
    text += "\n" + text_of(origin);
  return text;
}

/// The keys of a file that a fit wrote, and what its author derived from the fit by hand.
std::vector<std::string> inherited_keys(const std::vector<Provenance>& known) {
  static constexpr std::array<std::string_view, 5> derived{
      "kernels.gemm_fp8_share", "kernels.gemm_mxfp8_share", "kernels.gemm_fp4_share",
      "kernels.attention_backward_share", "kernels.attention_tile"};
  std::vector<std::string> keys;
  for (const Provenance& p : known)
    if (p.cite.find("triplepoint calibrate kernels") != std::string::npos ||
        std::find(derived.begin(), derived.end(), p.key) != derived.end())
      keys.push_back(p.key);
  return keys;
}

}  // namespace

Result<std::string> sibling_toml(const Sibling& sibling, const spec::Library& library) {
  const auto file = [](const std::string& gpu) { return "calibrations/" + gpu + "/kernels"; };
  const auto theirs = TPT_TRY(spec::provenance(library, file(sibling.like)));
  const auto ours = TPT_TRY(spec::provenance(library, file(sibling.gpu)));
  spec::Gpu like = TPT_TRY(spec::load_gpu(library, sibling.like));
  spec::Gpu gpu = TPT_TRY(spec::load_gpu(library, sibling.gpu));
  std::vector<std::string> keys = inherited_keys(theirs);
  std::erase_if(keys, [&](const std::string& key) {
    return std::find(sibling.keep.begin(), sibling.keep.end(), key.substr(key.find('.') + 1)) !=
           sibling.keep.end();
  });
  CopyFields copy(keys, sibling.peak_share);
  spec::visit_fields(copy, like.kernels);
  copy.write_from_now();
  spec::visit_fields(copy, gpu.kernels);
  std::vector<Origin> origins = {
      {"assumed",
       fmt::format("as fitted on the {} (its kernels.toml), shares of a peak times {}: {}",
                   sibling.like, sibling.peak_share, sibling.reason),
       keys}};
  add_kept(origins, ours);
  return file_text(gpu.kernels, origins);
}

Result<std::string> kernels_toml(const KernelFit& fit, const spec::Library& library,
                                 const std::string& tables) {
  const auto known = TPT_TRY(spec::provenance(library, "calibrations/" + fit.gpu + "/kernels"));
  std::vector<Origin> origins = fitted_origins(fit, tables);
  add_kept(origins, known);
  std::string text = file_text(fit.kernels, origins);
  for (const ClassFit& c : fit.classes)
    if (is_of_chip(c)) text += record_of(c);
  return text;
}

}  // namespace triplepoint::calibrate
