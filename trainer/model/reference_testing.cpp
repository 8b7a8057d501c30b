// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/reference_testing.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

/// Numbers that remember where they came from: the reference's differentiation.
namespace triplepoint::trainer::tape {

/// Every number that was computed, with its slopes along the two it came from.
struct Tape {
  struct Entry {
    size_t a, b;
    double slope_a, slope_b;
  };
  std::vector<Entry> entries;
};

// Of the reference that this thread runs.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
inline thread_local Tape tape;

struct TapeNumber {
  double value = 0;
  size_t at = 0;
};

inline TapeNumber record(double value, TapeNumber a, double slope_a, TapeNumber b = {},
                         double slope_b = 0) {
  tape.entries.push_back({a.at, b.at, slope_a, slope_b});
  return {value, tape.entries.size() - 1};
}
inline TapeNumber constant(double value) {
  return record(value, {}, 0);
}
inline TapeNumber operator+(TapeNumber a, TapeNumber b) {
  return record(a.value + b.value, a, 1, b, 1);
}
inline TapeNumber operator-(TapeNumber a, TapeNumber b) {
  return record(a.value - b.value, a, 1, b, -1);
}
inline TapeNumber operator*(TapeNumber a, TapeNumber b) {
  return record(a.value * b.value, a, b.value, b, a.value);
}
inline TapeNumber operator*(double a, TapeNumber b) {
  return record(a * b.value, b, a);
}
inline TapeNumber operator/(TapeNumber a, TapeNumber b) {
  return record(a.value / b.value, a, 1 / b.value, b, -a.value / (b.value * b.value));
}
inline TapeNumber exp(TapeNumber a) {
  return record(std::exp(a.value), a, std::exp(a.value));
}
inline TapeNumber log(TapeNumber a) {
  return record(std::log(a.value), a, 1 / a.value);
}
inline TapeNumber tanh(TapeNumber a) {
  const double t = std::tanh(a.value);
  return record(t, a, 1 - t * t);
}
inline TapeNumber sqrt(TapeNumber a) {
  return record(std::sqrt(a.value), a, 0.5 / std::sqrt(a.value));
}

inline std::vector<double> slopes_of(TapeNumber result) {
  std::vector<double> slopes(tape.entries.size(), 0.0);
  slopes[result.at] = 1;
  for (size_t i = tape.entries.size(); i-- > 1;) {
    const Tape::Entry& entry = tape.entries[i];
    if (slopes[i] == 0) continue;
    slopes[entry.a] += slopes[i] * entry.slope_a;
    slopes[entry.b] += slopes[i] * entry.slope_b;
  }
  return slopes;
}

}  // namespace triplepoint::trainer::tape

namespace triplepoint::trainer {
namespace {

using namespace tape;

using Row = std::vector<TapeNumber>;
using Matrix = std::vector<Row>;

TapeNumber sum(const Row& row) {
  TapeNumber total = constant(0);
  for (const TapeNumber& x : row)
    total = total + x;
  return total;
}

Row softmax(const Row& scores) {
  double largest = scores[0].value;
  for (const TapeNumber& x : scores)
    largest = std::max(largest, x.value);
  Row result;
  for (const TapeNumber& x : scores)
    result.push_back(exp(x - constant(largest)));
  const TapeNumber total = sum(result);
  for (TapeNumber& x : result)
    x = x / total;
  return result;
}

Matrix plus(const Matrix& a, const Matrix& b) {
  Matrix c = a;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[i].size(); ++j)
      c[i][j] = a[i][j] + b[i][j];
  return c;
}

Matrix times_transposed(const Matrix& x, const Matrix& w) {
  Matrix y;
  for (const Row& row : x) {
    y.emplace_back();
    for (const Row& column : w) {
      TapeNumber total = constant(0);
      for (size_t k = 0; k < row.size(); ++k)
        total = total + row[k] * column[k];
      y.back().push_back(total);
    }
  }
  return y;
}

class Reference {
 public:
  explicit Reference(const ReferenceInput& input) : input_(input), model_(input.model) {
    tape::tape.entries.assign(1, {0, 0, 0, 0});  // entry 0: what constants come from
  }

  ReferenceResult run() {
    Matrix x = embed();
    for (int64_t layer = 0; layer < model_.num_layers; ++layer) {
      const std::string prefix = "layers." + std::to_string(layer) + ".";
      x = plus(x, attention(norm(x, prefix + "input_norm"), layer));
      const Matrix normed = norm(x, prefix + "mlp_norm");
      x = plus(x, mlp(normed, prefix + "mlp", model_.ffn_hidden_size));
    }
    const TapeNumber total = loss(x);
    const std::vector<double> slopes = slopes_of(total);
    ReferenceResult result;
    result.loss = total.value;
    for (const auto& [name, matrix] : parameters_)
      for (const Row& row : matrix)
        for (const TapeNumber& element : row)
          result.gradients[name].push_back(slopes[element.at]);
    return result;
  }

 private:
  const Matrix& parameter(const std::string& name, int64_t rows, int64_t columns) {
    Matrix& matrix = parameters_[name];
    for (auto i = static_cast<int64_t>(matrix.size()); i < rows; ++i) {
      matrix.emplace_back();
      for (int64_t j = 0; j < columns; ++j)
        matrix.back().push_back(constant(input_.value(name, i, j)));
    }
    return matrix;
  }

  Matrix linear(const Matrix& x, const std::string& name, int64_t out, bool biased = true) {
    const auto in = static_cast<int64_t>(x[0].size());
    Matrix y = times_transposed(x, parameter(name + ".weight", out, in));
    if (model_.biases && biased) {
      const Matrix& bias = parameter(name + ".bias", out, 1);
      for (Row& row : y)
        for (size_t j = 0; j < row.size(); ++j)
          row[j] = row[j] + bias[j][0];
    }
    return y;
  }

  Matrix norm(const Matrix& x, const std::string& name) {
    const bool centered = model_.normalization == spec::Normalization::layer_norm;
    const int64_t width = model_.hidden_size;
    const Row gain = parameter(name + ".weight", 1, width)[0];
    Matrix y = x;
    for (Row& row : y) {
      const TapeNumber n = constant(as_real(width));
      const TapeNumber mean = centered ? sum(row) / n : constant(0);
      Row squares;
      for (TapeNumber& value : row) {
        value = value - mean;
        squares.push_back(value * value);
      }
      const TapeNumber deviation = sqrt(sum(squares) / n + constant(1e-5));
      for (size_t j = 0; j < row.size(); ++j)
        row[j] = row[j] / deviation * gain[j];
    }
    if (!centered) return y;
    const Row bias = parameter(name + ".bias", 1, width)[0];
    for (Row& row : y)
      for (size_t j = 0; j < row.size(); ++j)
        row[j] = row[j] + bias[j];
    return y;
  }

  Matrix embed() {
    const Matrix& words = parameter("embedding.weight", model_.vocabulary_size, model_.hidden_size);
    Matrix x;
    for (const int32_t word : input_.inputs)
      x.push_back(words[as_size(word)]);
    if (model_.position_embedding == spec::PositionEmbedding::learned) {
      const Matrix& positions =
          parameter("embedding.position", model_.sequence_length, model_.hidden_size);
      for (size_t i = 0; i < x.size(); ++i)
        for (size_t j = 0; j < x[i].size(); ++j)
          x[i][j] = x[i][j] + positions[i % length()][j];
    }
    return x;
  }

  Matrix attention(const Matrix& x, int64_t layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".attention.";
    const int64_t d = model_.kv_channels, heads = model_.num_attention_heads;
    const Matrix qkv = linear(x, prefix + "qkv", (heads + 2 * model_.num_query_groups) * d);
    Matrix out(x.size(), Row(as_size(heads * d)));
    for (int64_t s = 0; s < input_.sequences; ++s)
      for (int64_t h = 0; h < heads; ++h)
        attend(qkv, s, h, out);
    return linear(out, prefix + "projection", model_.hidden_size);
  }

  void attend(const Matrix& qkv, int64_t sequence, int64_t head, Matrix& out) {
    const int64_t d = model_.kv_channels, heads = model_.num_attention_heads;
    const int64_t group = head * model_.num_query_groups / heads;
    const size_t first = as_size(sequence) * length();
    const auto value_at = as_size((heads + model_.num_query_groups + group) * d);
    Matrix keys;
    for (size_t k = 0; k < length(); ++k)
      keys.push_back(rotated(qkv, first + k, (heads + group) * d));
    for (size_t q = 0; q < length(); ++q) {
      const Row query = rotated(qkv, first + q, head * d);
      Row scores;
      for (size_t k = 0; k <= q; ++k) {
        TapeNumber score = constant(0);
        for (size_t j = 0; j < query.size(); ++j)
          score = score + query[j] * keys[k][j];
        scores.push_back(1 / std::sqrt(as_real(d)) * score);
      }
      const Row shares = softmax(scores);
      for (size_t j = 0; j < as_size(d); ++j) {
        TapeNumber total = constant(0);
        for (size_t k = 0; k <= q; ++k)
          total = total + shares[k] * qkv[first + k][value_at + j];
        out[first + q][as_size(head * d) + j] = total;
      }
    }
  }

  /// One head's part of a row, turned by its position.
  Row rotated(const Matrix& qkv, size_t token, int64_t column) const {
    const auto d = as_size(model_.kv_channels), first = as_size(column);
    Row head(qkv[token].begin() + column, qkv[token].begin() + column + model_.kv_channels);
    if (model_.position_embedding != spec::PositionEmbedding::rope) return head;
    for (size_t j = 0; j < d / 2; ++j) {
      const double angle =
          as_real(token % length()) * std::pow(10000.0, -2.0 * as_real(j) / as_real(d));
      const TapeNumber a = qkv[token][first + j], b = qkv[token][first + d / 2 + j];
      head[j] = std::cos(angle) * a - std::sin(angle) * b;
      head[d / 2 + j] = std::cos(angle) * b + std::sin(angle) * a;
    }
    return head;
  }

  TapeNumber bent(TapeNumber gate, TapeNumber up) const {
    switch (model_.activation) {
      case spec::Activation::swiglu:
        return gate / (constant(1) + exp(constant(0) - gate)) * up;
      case spec::Activation::squared_relu:
        return gate.value > 0 ? gate * gate : constant(0);
      case spec::Activation::gelu:
        break;
    }
    const TapeNumber inner =
        std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * (gate * gate * gate));
    return 0.5 * (gate * (constant(1) + tanh(inner)));
  }

  Matrix mlp(const Matrix& x, const std::string& name, int64_t ffn) {
    const bool gated = model_.activation == spec::Activation::swiglu;
    const auto width = as_size(ffn);
    const Matrix up = linear(x, name + ".up", gated ? 2 * ffn : ffn);
    Matrix middle;
    for (const Row& row : up) {
      middle.emplace_back();
      for (size_t j = 0; j < width; ++j)
        middle.back().push_back(bent(row[j], gated ? row[width + j] : row[j]));
    }
    return linear(middle, name + ".down", model_.hidden_size);
  }

  TapeNumber loss(const Matrix& x) {
    const std::string words = model_.tied_embeddings ? "embedding.weight" : "head.weight";
    const Matrix logits = times_transposed(
        norm(x, "final_norm"), parameter(words, model_.vocabulary_size, model_.hidden_size));
    TapeNumber total = constant(0);
    for (size_t t = 0; t < logits.size(); ++t)
      total = total - log(softmax(logits[t])[as_size(input_.targets[t])]);
    return total;
  }

  size_t length() const { return as_size(model_.sequence_length); }

  const ReferenceInput& input_;
  const spec::Model& model_;
  std::map<std::string, Matrix> parameters_;
};

}  // namespace

ReferenceResult run_reference(const ReferenceInput& input) {
  return Reference(input).run();
}

}  // namespace triplepoint::trainer
