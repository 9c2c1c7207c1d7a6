#include "host_convolution.h"

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "convolution.h"
#include "host_kernel.h"
#include "refusal.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"

namespace gpuconf {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

template <typename T>
using Computing = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename F, typename T>
std::vector<F> Read(const Tensor& tensor) {
  const auto numbers = tensor.flat<T>();
  std::vector<F> read(numbers.size());
  for (int64_t i = 0; i < numbers.size(); ++i) read[i] = static_cast<F>(numbers(i));
  return read;
}

template <typename F, typename T>
void Write(const std::vector<F>& numbers, Tensor* tensor) {
  auto written = tensor->flat<T>();
  for (int64_t i = 0; i < written.size(); ++i) written(i) = static_cast<T>(numbers[i]);
}

// What both gradients share: the attributes, the sizes, and when TensorFlow's own kernel will do.
class ConvolutionGradient : public OpKernel {
 public:
  explicit ConvolutionGradient(OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("strides", &strides_));
    OP_REQUIRES_OK(construction, construction->GetAttr("dilations", &dilations_));
    OP_REQUIRES_OK(construction, construction->GetAttr("padding", &padding_));
    OP_REQUIRES_OK(construction, construction->GetAttr("explicit_paddings", &paddings_));
    OP_REQUIRES_OK(construction, construction->GetAttr("data_format", &data_format_));
    OP_REQUIRES(construction, data_format_ == "NHWC",
                CannotCompute(def(), absl::StrCat("CPU kernels want NHWC, not ", data_format_)));
    OP_REQUIRES(construction, strides_.size() == 4 && dilations_.size() == 4,
                absl::InvalidArgumentError("strides and dilations must have 4 numbers"));
    if (dilations_[1] == 1 && dilations_[2] == 1) own_.reset(MakeHostKernel(construction));
  }

 protected:
  // TensorFlow's CPU kernel, or null where only ours can: dilations, or groups of channels.
  OpKernel* Own(const TensorShape& input, const TensorShape& filter) const {
    return input.dim_size(3) == filter.dim_size(2) ? own_.get() : nullptr;
  }

  absl::Status Sizes(const TensorShape& input, const TensorShape& filter,
                     const TensorShape& output, Convolution* sizes) const {
    if (input.dims() != 4 || filter.dims() != 4 || output.dims() != 4 ||
        filter.num_elements() == 0 || input.dim_size(3) % filter.dim_size(2) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(type_string(), ": an input of ", input.DebugString(), " and a filter of ",
                       filter.DebugString(), " do not go together"));
    }
    *sizes = {ExtentOf(1, input, filter, output),
              ExtentOf(2, input, filter, output),
              input.dim_size(0),
              input.dim_size(3),
              filter.dim_size(3),
              input.dim_size(3) / filter.dim_size(2)};
    if (output.dim_size(0) != sizes->batch || output.dim_size(3) != sizes->out_depth ||
        sizes->out_depth % sizes->groups != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(type_string(), ": a gradient of ", output.DebugString(),
                       " does not fit an input of ", input.DebugString(), " and a filter of ",
                       filter.DebugString()));
    }
    return absl::OkStatus();
  }

 private:
  Extent ExtentOf(int dimension, const TensorShape& input, const TensorShape& filter,
                  const TensorShape& output) const {
    Extent extent = {input.dim_size(dimension),      output.dim_size(dimension),
                     filter.dim_size(dimension - 1), strides_[dimension],
                     dilations_[dimension],          0};
    if (padding_ == "EXPLICIT") {
      extent.pad_before = paddings_[2 * dimension];
    } else if (padding_ == "SAME") {
      const int64_t reach = (extent.filter - 1) * extent.dilation + 1;
      const int64_t wanted = (extent.out - 1) * extent.stride + reach - extent.in;
      extent.pad_before = std::max<int64_t>(wanted, 0) / 2;
    }
    return extent;
  }

  std::vector<int32_t> strides_, dilations_;
  std::vector<int64_t> paddings_;
  std::string padding_, data_format_;
  std::unique_ptr<OpKernel> own_;
};

absl::Status ShapeFrom(const Tensor& sizes, TensorShape* shape) {
  const auto numbers = sizes.flat<int32_t>();
  for (int64_t i = 0; i < numbers.size(); ++i) {
    if (absl::Status status = shape->AddDimWithStatus(numbers(i)); !status.ok()) return status;
  }
  return shape->dims() == 4 ? absl::OkStatus()
                            : absl::InvalidArgumentError("a convolution has 4 dimensions");
}

template <typename T>
class InputGradient : public ConvolutionGradient {
 public:
  using ConvolutionGradient::ConvolutionGradient;

  void Compute(OpKernelContext* context) override {
    using F = Computing<T>;
    const Tensor& filter = context->input(1);
    const Tensor& output_gradient = context->input(2);
    TensorShape input;
    OP_REQUIRES_OK(context, ShapeFrom(context->input(0), &input));
    Convolution sizes;
    OP_REQUIRES_OK(context,
                   Sizes(input, filter.shape(), output_gradient.shape(), &sizes));
    if (OpKernel* own = Own(input, filter.shape())) return own->Compute(context);
    Tensor* result = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, input, &result));
    std::vector<F> gradient(result->NumElements());
    const std::vector<F> weights = Read<F, T>(filter), slope = Read<F, T>(output_gradient);
    sizes.ForEachProduct(gradient.data(), weights.data(), slope.data(),
                         [](auto in, auto tap, auto out) { in += out * tap.transpose(); });
    Write<F, T>(gradient, result);
  }
};

template <typename T>
class FilterGradient : public ConvolutionGradient {
 public:
  using ConvolutionGradient::ConvolutionGradient;

  void Compute(OpKernelContext* context) override {
    using F = Computing<T>;
    const Tensor& input = context->input(0);
    const Tensor& output_gradient = context->input(2);
    TensorShape filter;
    OP_REQUIRES_OK(context, ShapeFrom(context->input(1), &filter));
    Convolution sizes;
    OP_REQUIRES_OK(context, Sizes(input.shape(), filter, output_gradient.shape(), &sizes));
    if (OpKernel* own = Own(input.shape(), filter)) return own->Compute(context);
    Tensor* result = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, filter, &result));
    std::vector<F> gradient(result->NumElements());
    const std::vector<F> pictures = Read<F, T>(input), slope = Read<F, T>(output_gradient);
    sizes.ForEachProduct(pictures.data(), gradient.data(), slope.data(),
                         [](auto in, auto tap, auto out) { tap += in.transpose() * out; });
    Write<F, T>(gradient, result);
  }
};

template <typename Kernel>
OpKernel* Make(OpKernelConstruction* construction) {
  return new Kernel(construction);
}

constexpr int kAboveTwin = 3;  // see replacements.cc

template <typename T, typename Kernel>
void RegisterOperation(const char* op, const char* sizes) {
  tensorflow::KernelDefBuilder builder(op);
  builder.Device("GPU").TypeConstraint<T>("T").HostMemory(sizes).Priority(kAboveTwin);
  tensorflow::kernel_factory::OpKernelRegistrar(
      builder.Build(), "ConvolutionGradient [simulated]", Make<Kernel>);
}

template <typename T>
void RegisterType() {
  RegisterOperation<T, InputGradient<T>>("Conv2DBackpropInput", "input_sizes");
  RegisterOperation<T, FilterGradient<T>>("Conv2DBackpropFilter", "filter_sizes");
}

}  // namespace

void RegisterHostConvolutionGradients() {
  RegisterType<float>();
  RegisterType<double>();
  RegisterType<Eigen::half>();
  RegisterType<tensorflow::bfloat16>();
}

}  // namespace gpuconf
