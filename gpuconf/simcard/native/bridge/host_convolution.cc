#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "convolution.h"
#include "host_kernel.h"
#include "registrations.h"
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

// What all share: the attributes, the sizes, and when TensorFlow's own kernel will do.
class HostConvolution : public OpKernel {
 public:
  explicit HostConvolution(OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("strides", &strides_));
    OP_REQUIRES_OK(construction, construction->GetAttr("dilations", &dilations_));
    OP_REQUIRES_OK(construction, construction->GetAttr("padding", &padding_));
    if (construction->HasAttr("explicit_paddings")) {  // in two dimensions only
      OP_REQUIRES_OK(construction, construction->GetAttr("explicit_paddings", &paddings_));
    }
    rank_ = absl::StartsWith(type_string(), "Conv3D") ? 5 : 4;
    OP_REQUIRES(construction, IsPerPixel(strides_) && IsPerPixel(dilations_),
                absl::InvalidArgumentError(absl::StrCat(
                    type_string(), ": strides and dilations must be ", rank_, " numbers from 1 up, "
                    "of which the first and the last are 1")));
    // TensorFlow's CPU kernel cannot even be made where there are dilations.
    if (dilations_ == std::vector<int32_t>(rank_, 1)) own_.reset(MakeHostKernel(construction));
  }

 protected:
  // TensorFlow's CPU kernel, or null where only ours can: dilations, or groups of channels.  The
  // sizes of the result may be 4 numbers or, for TensorFlow, the 2 of its pixels.
  OpKernel* Own(int64_t in_depth, int64_t filter_depth) const {
    return in_depth == filter_depth ? own_.get() : nullptr;
  }

  int64_t InDepth(const TensorShape& input) const {
    return input.dims() == rank_ ? input.dim_size(rank_ - 1) : 0;
  }
  int64_t FilterDepth(const TensorShape& filter) const {
    return filter.dims() == rank_ ? filter.dim_size(rank_ - 2) : 0;
  }

  absl::Status Sizes(const TensorShape& input, const TensorShape& filter, Convolution* sizes,
                     TensorShape* output) const {
    if (input.dims() != rank_ || filter.dims() != rank_ || InDepth(input) == 0 ||
        filter.num_elements() == 0 || InDepth(input) % FilterDepth(filter) != 0 ||
        filter.dim_size(rank_ - 1) % (InDepth(input) / FilterDepth(filter)) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(type_string(), ": an input of ", input.DebugString(), " and a filter of ",
                       filter.DebugString(), " do not go together"));
    }
    const bool has_planes = rank_ == 5;
    *sizes = {has_planes ? ExtentOf(1, input, filter) : Extent{1, 1, 1, 1, 1, 0},
              ExtentOf(rank_ - 3, input, filter),
              ExtentOf(rank_ - 2, input, filter),
              input.dim_size(0),
              InDepth(input),
              filter.dim_size(rank_ - 1),
              InDepth(input) / FilterDepth(filter)};
    *output = TensorShape({sizes->batch});
    if (has_planes) output->AddDim(sizes->planes.out);
    for (int64_t size : {sizes->rows.out, sizes->columns.out, sizes->out_depth}) {
      output->AddDim(size);
    }
    return absl::OkStatus();
  }

  absl::Status SizesOfGradient(const TensorShape& input, const TensorShape& filter,
                               const TensorShape& output, Convolution* sizes) const {
    TensorShape wanted;
    absl::Status status = Sizes(input, filter, sizes, &wanted);
    if (status.ok() && output != wanted) {
      return absl::InvalidArgumentError(
          absl::StrCat(type_string(), ": a gradient of ", output.DebugString(),
                       " does not fit an input of ", input.DebugString(), " and a filter of ",
                       filter.DebugString()));
    }
    return status;
  }

  absl::Status ShapeFrom(const Tensor& sizes, TensorShape* shape) const {
    for (int64_t i = 0; i < sizes.NumElements(); ++i) {
      const bool is_short = sizes.dtype() == tensorflow::DT_INT32;
      const int64_t size = is_short ? sizes.flat<int32_t>()(i) : sizes.flat<int64_t>()(i);
      if (absl::Status status = shape->AddDimWithStatus(size); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  bool IsPerPixel(const std::vector<int32_t>& numbers) const {
    return static_cast<int>(numbers.size()) == rank_ && numbers.front() == 1 &&
           numbers.back() == 1 && *std::min_element(numbers.begin(), numbers.end()) >= 1;
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

  int rank_;
  std::vector<int32_t> strides_, dilations_;
  std::vector<int64_t> paddings_;
  std::string padding_;
  std::unique_ptr<OpKernel> own_;
};

// In three dimensions; TensorFlow's CPU kernel has dilations and groups in two.
template <typename T>
class Forward : public HostConvolution {
 public:
  using HostConvolution::HostConvolution;

  void Compute(OpKernelContext* context) override {
    using F = Computing<T>;
    const Tensor &input = context->input(0), &filter = context->input(1);
    OpKernel* own = Own(InDepth(input.shape()), FilterDepth(filter.shape()));
    if (own != nullptr) return own->Compute(context);
    Convolution sizes;
    TensorShape output;
    OP_REQUIRES_OK(context, Sizes(input.shape(), filter.shape(), &sizes, &output));
    Tensor* result = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, output, &result));
    std::vector<F> sums(result->NumElements());
    const std::vector<F> pictures = Read<F, T>(input), weights = Read<F, T>(filter);
    sizes.ForEachProduct(pictures.data(), weights.data(), sums.data(),
                         [](auto in, auto tap, auto out) { out += in * tap; });
    Write<F, T>(sums, result);
  }
};

template <typename T>
class InputGradient : public HostConvolution {
 public:
  using HostConvolution::HostConvolution;

  void Compute(OpKernelContext* context) override {
    using F = Computing<T>;
    const Tensor& filter = context->input(1);
    const Tensor& output_gradient = context->input(2);
    TensorShape input;
    OP_REQUIRES_OK(context, ShapeFrom(context->input(0), &input));
    const bool is_whole = input.dims() == filter.dims();
    OpKernel* own = Own(is_whole ? InDepth(input) : 0, is_whole ? FilterDepth(filter.shape()) : 0);
    if (own != nullptr) return own->Compute(context);
    Convolution sizes;
    OP_REQUIRES_OK(context,
                   SizesOfGradient(input, filter.shape(), output_gradient.shape(), &sizes));
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
class FilterGradient : public HostConvolution {
 public:
  using HostConvolution::HostConvolution;

  void Compute(OpKernelContext* context) override {
    using F = Computing<T>;
    const Tensor& input = context->input(0);
    const Tensor& output_gradient = context->input(2);
    TensorShape filter;
    OP_REQUIRES_OK(context, ShapeFrom(context->input(1), &filter));
    OpKernel* own = Own(InDepth(input.shape()), FilterDepth(filter));
    if (own != nullptr) return own->Compute(context);
    Convolution sizes;
    OP_REQUIRES_OK(context,
                   SizesOfGradient(input.shape(), filter, output_gradient.shape(), &sizes));
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
void RegisterOperation(const char* op, const char* sizes = nullptr) {
  tensorflow::KernelDefBuilder builder(op);
  builder.Device("GPU").TypeConstraint<T>("T").Priority(kOwnKernel);
  if (sizes != nullptr) builder.HostMemory(sizes);
  tensorflow::kernel_factory::OpKernelRegistrar(
      builder.Build(), "HostConvolution [simulated]", Make<Kernel>);
}

template <typename T>
void RegisterType() {
  RegisterOperation<T, InputGradient<T>>("Conv2DBackpropInput", "input_sizes");
  RegisterOperation<T, FilterGradient<T>>("Conv2DBackpropFilter", "filter_sizes");
  RegisterOperation<T, Forward<T>>("Conv3D");
  RegisterOperation<T, InputGradient<T>>("Conv3DBackpropInputV2", "input_sizes");
  RegisterOperation<T, FilterGradient<T>>("Conv3DBackpropFilterV2", "filter_sizes");
}

}  // namespace

void RegisterHostConvolutions() {
  RegisterType<float>();
  RegisterType<double>();
  RegisterType<Eigen::half>();
  RegisterType<tensorflow::bfloat16>();
}

}  // namespace gpuconf
