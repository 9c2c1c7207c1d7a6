// Between TensorFlow's tensors and the matrices of rnn_cells.h.
#pragma once

#include <cstdint>
#include <vector>

#include "rnn_cells.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace gpuconf {

// The sizes of one call.  Sequences are [T, B, I] and states [1, B, H] where time comes first,
// else [B, T, I] and [B, 1, H].
struct RnnShape {
  int64_t steps, batch, inputs, units;
  bool time_major;

  tensorflow::TensorShape Sequences(int64_t width) const {
    return time_major ? tensorflow::TensorShape({steps, batch, width})
                      : tensorflow::TensorShape({batch, steps, width});
  }
  tensorflow::TensorShape States() const {
    return time_major ? tensorflow::TensorShape({1, batch, units})
                      : tensorflow::TensorShape({batch, 1, units});
  }
  int64_t RowOf(int64_t step, int64_t sequence) const {
    return time_major ? step * batch + sequence : sequence * steps + step;
  }
};

// T is the type of the tensor and F that of the computation: half and bfloat16 compute in float.
template <typename F, typename T>
std::vector<Matrix<F>> ReadSteps(const tensorflow::Tensor& tensor, const RnnShape& shape,
                                 int64_t width) {
  std::vector<Matrix<F>> steps(shape.steps, Matrix<F>(shape.batch, width));
  const T* data = tensor.flat<T>().data();
  for (int64_t t = 0; t < shape.steps; ++t) {
    for (int64_t b = 0; b < shape.batch; ++b) {
      const T* row = data + shape.RowOf(t, b) * width;
      for (int64_t i = 0; i < width; ++i) steps[t](b, i) = static_cast<F>(row[i]);
    }
  }
  return steps;
}

template <typename F, typename T>
void WriteSteps(const std::vector<Matrix<F>>& steps, const RnnShape& shape,
                tensorflow::Tensor* tensor) {
  T* data = tensor->flat<T>().data();
  for (int64_t t = 0; t < shape.steps; ++t) {
    const int64_t width = steps[t].cols();
    for (int64_t b = 0; b < shape.batch; ++b) {
      T* row = data + shape.RowOf(t, b) * width;
      for (int64_t i = 0; i < width; ++i) row[i] = static_cast<T>(steps[t](b, i));
    }
  }
}

// States lie alike in both orders: one layer, so B rows of H.
template <typename F, typename T>
Matrix<F> ReadState(const tensorflow::Tensor& tensor, const RnnShape& shape) {
  Matrix<F> state(shape.batch, shape.units);
  const T* data = tensor.flat<T>().data();
  for (int64_t i = 0; i < state.size(); ++i) state.data()[i] = static_cast<F>(data[i]);
  return state;
}

template <typename F, typename T>
void WriteState(const Matrix<F>& state, tensorflow::Tensor* tensor) {
  T* data = tensor->flat<T>().data();
  for (int64_t i = 0; i < state.size(); ++i) data[i] = static_cast<T>(state.data()[i]);
}

template <typename F, typename T>
void ReadParameters(const tensorflow::Tensor& tensor, Parameters<F>* parameters) {
  const T* data = tensor.flat<T>().data();
  parameters->ForEach([&data](F& number) { number = static_cast<F>(*data++); });
}

template <typename F, typename T>
void WriteParameters(Parameters<F>* parameters, tensorflow::Tensor* tensor) {
  T* data = tensor->flat<T>().data();
  parameters->ForEach([&data](F& number) { *data++ = static_cast<T>(number); });
}

}  // namespace gpuconf
