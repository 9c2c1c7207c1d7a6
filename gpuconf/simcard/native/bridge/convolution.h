// Convolutions with dilations and groups in NHWC and NDHWC, and their gradients: what TensorFlow's
// CPU kernels refuse.  One product of matrices per place of the filter and row of the picture.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "Eigen/Core"

namespace gpuconf {

// One of the dimensions of the picture.
struct Extent {
  int64_t in, out, filter, stride, dilation, pad_before;

  // The outputs that see the input at place `tap` of the filter, [first, last).
  int64_t FirstOutput(int64_t tap) const {
    const int64_t start = pad_before - tap * dilation;
    return start <= 0 ? 0 : (start + stride - 1) / stride;
  }
  int64_t LastOutput(int64_t tap) const {
    const int64_t end = in - 1 + pad_before - tap * dilation;
    return end < 0 ? 0 : std::min(out, end / stride + 1);
  }
  int64_t InputOf(int64_t output, int64_t tap) const {
    return output * stride + tap * dilation - pad_before;
  }
};

// Input [batch, planes.in, rows.in, columns.in, in_depth], filter [planes.filter, rows.filter,
// columns.filter, in_depth / groups, out_depth], output [batch, planes.out, rows.out, columns.out,
// out_depth]; in two dimensions with one plane.
struct Convolution {
  Extent planes, rows, columns;
  int64_t batch, in_depth, out_depth, groups;

  int64_t group_in() const { return in_depth / groups; }
  int64_t group_out() const { return out_depth / groups; }

  // Calls visit(input, filter, output) for every product that the convolution is a sum of:
  // matrices of [outputs in a row, depth in], [depth in, depth out] and [outputs, depth out] over
  // the three arrays, which may be const.
  template <typename In, typename Filter, typename Out, typename Visit>
  void ForEachProduct(In* input, Filter* filter, Out* output, Visit visit) const {
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t p = 0; p < planes.filter; ++p) {
        for (int64_t z = planes.FirstOutput(p); z < planes.LastOutput(p); ++z) {
          ForEachInPlane(
              input + (n * planes.in + planes.InputOf(z, p)) * rows.in * columns.in * in_depth,
              filter + p * rows.filter * columns.filter * group_in() * out_depth,
              output + (n * planes.out + z) * rows.out * columns.out * out_depth, visit);
        }
      }
    }
  }

 private:
  template <typename Number>
  using Block = Eigen::Map<
      std::conditional_t<std::is_const_v<Number>,
                         const Eigen::Matrix<std::remove_const_t<Number>, Eigen::Dynamic,
                                             Eigen::Dynamic, Eigen::RowMajor>,
                         Eigen::Matrix<Number, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>,
      0, Eigen::OuterStride<>>;

  template <typename In, typename Filter, typename Out, typename Visit>
  void ForEachInPlane(In* input, Filter* filter, Out* output, Visit visit) const {
    for (int64_t r = 0; r < rows.filter; ++r) {
      for (int64_t y = rows.FirstOutput(r); y < rows.LastOutput(r); ++y) {
        ForEachInRow(input + rows.InputOf(y, r) * columns.in * in_depth,
                     filter + r * columns.filter * group_in() * out_depth,
                     output + y * columns.out * out_depth, visit);
      }
    }
  }

  template <typename In, typename Filter, typename Out, typename Visit>
  void ForEachInRow(In* input, Filter* filter, Out* output, Visit visit) const {
    for (int64_t c = 0; c < columns.filter; ++c) {
      const int64_t first = columns.FirstOutput(c);
      const int64_t count = columns.LastOutput(c) - first;
      if (count <= 0) continue;
      for (int64_t g = 0; g < groups; ++g) {
        visit(Block<In>(input + columns.InputOf(first, c) * in_depth + g * group_in(), count,
                        group_in(), Eigen::OuterStride<>(columns.stride * in_depth)),
              Block<Filter>(filter + c * group_in() * out_depth + g * group_out(), group_in(),
                            group_out(), Eigen::OuterStride<>(out_depth)),
              Block<Out>(output + first * out_depth + g * group_out(), count, group_out(),
                         Eigen::OuterStride<>(out_depth)));
      }
    }
  }
};

}  // namespace gpuconf
