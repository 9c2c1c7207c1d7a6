// One layer of LSTM or GRU in one direction, forward and backward, as cuDNN defines it.
//
// The equations are those of NVIDIA's documentation of cudnnRNNMode_t (LSTM; GRU with the reset
// applied after the recurrent product).  The parameters lie in one vector: for each gate the
// weights of the input, H x I; for each gate those of the recurrence, H x H; for each gate the
// input's bias; for each gate the recurrence's.  Gates: LSTM input, forget, new, output;
// GRU reset, update, new.
#pragma once

#include <cstdint>
#include <vector>

#include "Eigen/Core"

namespace gpuconf {

template <typename F>
using Matrix = Eigen::Matrix<F, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename F>
using Row = Eigen::Matrix<F, 1, Eigen::Dynamic>;

template <typename F>
Matrix<F> Sigmoid(const Matrix<F>& x) {
  return ((x.array() * F(-1)).exp() + F(1)).inverse().matrix();
}

template <typename F>
struct Parameters {
  Matrix<F> input, recurrent;           // [gates * H, I] and [gates * H, H]
  Row<F> input_bias, recurrent_bias;    // [gates * H]

  Parameters(int gates, int64_t units, int64_t inputs)
      : input(Matrix<F>::Zero(gates * units, inputs)),
        recurrent(Matrix<F>::Zero(gates * units, units)),
        input_bias(Row<F>::Zero(gates * units)),
        recurrent_bias(Row<F>::Zero(gates * units)) {}

  int64_t size() const {
    return input.size() + recurrent.size() + input_bias.size() + recurrent_bias.size();
  }
  // Calls visit(place of a number) in the order of the vector.
  template <typename Visit>
  void ForEach(Visit visit) {
    for (auto* part : {&input, &recurrent}) {
      for (int64_t i = 0; i < part->size(); ++i) visit(part->data()[i]);
    }
    for (auto* part : {&input_bias, &recurrent_bias}) {
      for (int64_t i = 0; i < part->size(); ++i) visit(part->data()[i]);
    }
  }
};

template <typename F>
struct State {
  Matrix<F> h, c;  // [B, H]; c is empty in a GRU
};

// A cell has a Step and its Gradient.  What a step saves for the gradient has one row per sequence:
// in an LSTM the four gates and the new cell, [B, 5 H]; in a GRU the three gates and the recurrent
// product of the third, [B, 4 H].
template <typename F>
struct LstmCell {
  static constexpr int kGates = 4;
  static constexpr int kSaved = 5;
  static constexpr bool kHasCell = true;

  // `zx` and `zh` are the products with the input and with h, biases included: [B, gates * H].
  static State<F> Step(const Matrix<F>& zx, const Matrix<F>& zh, const State<F>& before,
                       Matrix<F>* saved) {
    const int64_t units = before.h.cols();
    const Matrix<F> z = zx + zh;
    const Matrix<F> i = Sigmoid<F>(z.leftCols(units));
    const Matrix<F> f = Sigmoid<F>(z.middleCols(units, units));
    const Matrix<F> g = z.middleCols(2 * units, units).array().tanh().matrix();
    const Matrix<F> o = Sigmoid<F>(z.rightCols(units));
    State<F> after;
    after.c = f.cwiseProduct(before.c) + i.cwiseProduct(g);
    after.h = o.cwiseProduct(after.c.array().tanh().matrix());
    saved->resize(z.rows(), kSaved * units);
    *saved << i, f, g, o, after.c;
    return after;
  }

  // From the gradient of the state after a step to that of the products; `slope` becomes the part
  // of the state before that does not go through the recurrent weights.
  static void Gradient(const Matrix<F>& saved, const State<F>& before, State<F>* slope,
                       Matrix<F>* dzx, Matrix<F>* dzh) {
    const int64_t units = before.h.cols();
    const auto i = saved.leftCols(units).array();
    const auto f = saved.middleCols(units, units).array();
    const auto g = saved.middleCols(2 * units, units).array();
    const auto o = saved.middleCols(3 * units, units).array();
    const Matrix<F> tanh_c = saved.rightCols(units).array().tanh().matrix();
    const auto dh = slope->h.array();
    const Matrix<F> dc =
        (slope->c.array() + dh * o * (F(1) - tanh_c.array().square())).matrix();
    dzx->resize(saved.rows(), kGates * units);
    *dzx << (dc.array() * g * i * (F(1) - i)).matrix(),
        (dc.array() * before.c.array() * f * (F(1) - f)).matrix(),
        (dc.array() * i * (F(1) - g.square())).matrix(),
        (dh * tanh_c.array() * o * (F(1) - o)).matrix();
    *dzh = *dzx;
    slope->c = (dc.array() * f).matrix();
    slope->h.setZero();
  }
};

template <typename F>
struct GruCell {
  static constexpr int kGates = 3;
  static constexpr int kSaved = 4;
  static constexpr bool kHasCell = false;

  static State<F> Step(const Matrix<F>& zx, const Matrix<F>& zh, const State<F>& before,
                       Matrix<F>* saved) {
    const int64_t units = before.h.cols();
    const Matrix<F> r = Sigmoid<F>(zx.leftCols(units) + zh.leftCols(units));
    const Matrix<F> u = Sigmoid<F>(zx.middleCols(units, units) + zh.middleCols(units, units));
    const Matrix<F> product = zh.rightCols(units);
    const Matrix<F> n =
        (zx.rightCols(units).array() + r.array() * product.array()).tanh().matrix();
    State<F> after;
    after.h = ((F(1) - u.array()) * n.array() + u.array() * before.h.array()).matrix();
    saved->resize(zx.rows(), kSaved * units);
    *saved << r, u, n, product;
    return after;
  }

  static void Gradient(const Matrix<F>& saved, const State<F>& before, State<F>* slope,
                       Matrix<F>* dzx, Matrix<F>* dzh) {
    const int64_t units = before.h.cols();
    const auto r = saved.leftCols(units).array();
    const auto u = saved.middleCols(units, units).array();
    const auto n = saved.middleCols(2 * units, units).array();
    const auto product = saved.rightCols(units).array();
    const auto dh = slope->h.array();
    const Matrix<F> dn = (dh * (F(1) - u) * (F(1) - n.square())).matrix();
    const Matrix<F> dr = (dn.array() * product * r * (F(1) - r)).matrix();
    const Matrix<F> du = (dh * (before.h.array() - n) * u * (F(1) - u)).matrix();
    dzx->resize(saved.rows(), kGates * units);
    dzh->resize(saved.rows(), kGates * units);
    *dzx << dr, du, dn;
    *dzh << dr, du, (dn.array() * r).matrix();
    slope->h = (dh * u).matrix().eval();
  }
};

// A whole layer: T steps over B sequences, of which sequence b has lengths[b] steps; the output
// of steps beyond is 0, and the last state is that of a sequence's own last step.
template <typename F, template <typename> class Cell>
struct Layer {
  const Parameters<F>& parameters;
  const std::vector<int>& lengths;

  void Forward(const std::vector<Matrix<F>>& x, State<F>* state, std::vector<Matrix<F>>* y,
               std::vector<Matrix<F>>* saved) const {
    for (size_t t = 0; t < x.size(); ++t) {
      saved->emplace_back();
      const State<F> after = Cell<F>::Step(InputProduct(x[t]), RecurrentProduct(state->h), *state,
                                           &saved->back());
      y->push_back(Matrix<F>::Zero(state->h.rows(), state->h.cols()));
      for (int64_t b = 0; b < state->h.rows(); ++b) {
        if (IsOver(b, t)) continue;
        state->h.row(b) = after.h.row(b);
        if (Cell<F>::kHasCell) state->c.row(b) = after.c.row(b);
        y->back().row(b) = after.h.row(b);
      }
    }
  }

  // `slope` is the gradient of the last state, and becomes that of the first; `dy` of the output.
  void Backward(const std::vector<Matrix<F>>& x, const State<F>& first,
                const std::vector<Matrix<F>>& y, const std::vector<Matrix<F>>& saved,
                const std::vector<Matrix<F>>& dy, State<F>* slope, std::vector<Matrix<F>>* dx,
                Parameters<F>* gradient) const {
    dx->resize(x.size());
    for (size_t t = x.size(); t-- > 0;) {
      const State<F> before = t == 0 ? first : StateAfter(y[t - 1], saved[t - 1]);
      State<F> slope_here = *slope;
      slope_here.h += dy[t];
      Matrix<F> dzx, dzh, x_here = x[t];
      Cell<F>::Gradient(saved[t], before, &slope_here, &dzx, &dzh);
      for (int64_t b = 0; b < dzx.rows(); ++b) {
        if (!IsOver(b, t)) continue;
        dzx.row(b).setZero();
        dzh.row(b).setZero();
        x_here.row(b).setZero();  // padding may be NaN, and 0 times that is no 0
        slope_here.h.row(b) = slope->h.row(b);
        if (Cell<F>::kHasCell) slope_here.c.row(b) = slope->c.row(b);
      }
      (*dx)[t] = dzx * parameters.input;
      slope_here.h += dzh * parameters.recurrent;
      *slope = std::move(slope_here);
      gradient->input += dzx.transpose() * x_here;
      gradient->recurrent += dzh.transpose() * before.h;
      gradient->input_bias += dzx.colwise().sum();
      gradient->recurrent_bias += dzh.colwise().sum();
    }
  }

 private:
  bool IsOver(int64_t sequence, size_t step) const {
    return static_cast<int64_t>(step) >= lengths[sequence];
  }
  Matrix<F> InputProduct(const Matrix<F>& x) const {
    return (x * parameters.input.transpose()).rowwise() + parameters.input_bias;
  }
  Matrix<F> RecurrentProduct(const Matrix<F>& h) const {
    return (h * parameters.recurrent.transpose()).rowwise() + parameters.recurrent_bias;
  }
  // Right for the sequences that have a next step; the others are not looked at.
  static State<F> StateAfter(const Matrix<F>& y, const Matrix<F>& saved) {
    State<F> state;
    state.h = y;
    if (Cell<F>::kHasCell) state.c = saved.rightCols(y.cols());
    return state;
  }
};

}  // namespace gpuconf
