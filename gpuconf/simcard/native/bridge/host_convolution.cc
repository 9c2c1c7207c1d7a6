#include "host_convolution.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "convolution.h"
#include "host_kernel.h"
#include "refusal.h"
#include "replacements.h"
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
    OP_REQUIRES(construction, IsPerPixel(strides_) && IsPerPixel(dilations_),
                absl::InvalidArgumentError(absl::StrCat(
                    type_string(), ": strides and dilations must be 4 numbers from 1 up, of "
                    "which the first and the last are 1")));
    // TensorFlow's CPU kernel cannot even be made where there are dilations.
    if (dilations_[1] == 1 && dilations_[2] == 1) own_.reset(MakeHostKernel(construction));
  }

 protected:
  // TensorFlow's CPU kernel, or null where only ours can: dilations, or groups of channels.  The
  // sizes of the result may be 4 numbers or, for TensorFlow, the 2 of its pixels.
  OpKernel* Own(int64_t in_depth, int64_t filter_depth) const {
    return in_depth == filter_depth ? own_.get() : nullptr;
  }

  absl::Status Sizes(const TensorShape& input, const TensorShape& filter,
                     const TensorShape& output, Convolution* sizes) const {
    if (input.dims() != 4 || filter.dims() != 4 || output.dims() != 4 ||
        filter.num_elements() == 0 || input.dim_size(3) % filter.dim_size(2) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(type_string(), ": an input of ", input.DebugString(), " and a filter of ",
                       filter.DebugString(), " do not go together"));
    }
    *sizes = {ExtentOf(1, input, filter),
              ExtentOf(2, input, filter),
              input.dim_size(0),
              input.dim_size(3),
              filter.dim_size(3),
              input.dim_size(3) / filter.dim_size(2)};
    const TensorShape wanted(
        {sizes->batch, sizes->rows.out, sizes->columns.out, sizes->out_depth});
    if (output != wanted || sizes->out_depth % sizes->groups != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(type_string(), ": a gradient of ", output.DebugString(),
                       " does not fit an input of ", input.DebugString(), " and a filter of ",
                       filter.DebugString()));
    }
    return absl::OkStatus();
  }

 private:
  static bool IsPerPixel(const std::vector<int32_t>& numbers) {
    return numbers.size() == 4 && numbers[0] == 1 && numbers[3] == 1 && numbers[1] >= 1 &&
           numbers[2] >= 1;
  }

  // The sizes along one dimension, the output's among them, as tf.nn.convolution defines them.
  Extent ExtentOf(int dimension, const TensorShape& input, const TensorShape& filter) const {
    const int64_t in = input.dim_size(dimension), places = filter.dim_size(dimension - 1);
    const int64_t stride = strides_[dimension], dilation = dilations_[dimension];
    const int64_t reach = (places - 1) * dilation + 1;
    if (padding_ == "SAME") {
      const int64_t out = (in + stride - 1) / stride;
      const int64_t padding = std::max<int64_t>((out - 1) * stride + reach - in, 0);
      return {in, out, places, stride, dilation, padding / 2};
    }
    const bool is_explicit = padding_ == "EXPLICIT";
    const int64_t before = is_explicit ? paddings_[2 * dimension] : 0;
    const int64_t after = is_explicit ? paddings_[2 * dimension + 1] : 0;
    const int64_t room = in + before + after - reach;
    return {in, room < 0 ? 0 : room / stride + 1, places, stride, dilation, before};
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
    const Tensor& input_sizes = context->input(0);
    const bool has_depth = input_sizes.NumElements() == 4 && filter.dims() == 4;
    const int64_t depth = has_depth ? input_sizes.flat<int32_t>()(3) : 0;
    OpKernel* own = Own(depth, has_depth ? filter.dim_size(2) : 0);
    if (own != nullptr) return own->Compute(context);
    TensorShape input;
    OP_REQUIRES_OK(context, ShapeFrom(input_sizes, &input));
    Convolution sizes;
    OP_REQUIRES_OK(context, Sizes(input, filter.shape(), output_gradient.shape(), &sizes));
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
    OpKernel* own = Own(input.dims() == 4 ? input.dim_size(3) : 0, filter.dim_size(2));
    if (own != nullptr) return own->Compute(context);
    Convolution sizes;
    OP_REQUIRES_OK(context, Sizes(input.shape(), filter, output_gradient.shape(), &sizes));
    Tensor* result = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, filter, &result));
    std::vector<F> gradient(result->NumElements());
    const std::vector<F> pictures = Read<F, T>(input), slope = Read<F, T>(output_gradient);
    sizes.ForEachProduct(pictures.data(), gradient.data(), slope.data(),
                         [](auto in, auto tap, auto out) { tap += in.transpose() * out; });
    Write<F, T>(gradient, result);
  }
};

template <typename T, typename Kernel>
void RegisterOperation(const char* op, const char* sizes) {
  tensorflow::KernelDefBuilder builder(op);
  builder.Device("GPU").TypeConstraint<T>("T").HostMemory(sizes).Priority(kOwnKernel);
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
