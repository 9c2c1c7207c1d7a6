#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "host_kernel.h"
#include "registrations.h"
#include "replacements.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def_util.h"

namespace gpuconf {
namespace {

using ::tensorflow::NodeDef;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

std::string FormatOf(const NodeDef& node) {
  std::string format;
  tensorflow::TryGetNodeAttr(node, "data_format", &format);
  return format;
}

// The same operation with its channels last.
NodeDef ChannelsLast(NodeDef node) {
  auto& attributes = *node.mutable_attr();
  attributes["data_format"].set_s(FormatOf(node) == "NCHW" ? "NHWC" : "NDHWC");
  for (const char* name : {"strides", "dilations", "ksize", "explicit_paddings"}) {
    const auto found = attributes.find(std::string(name));
    if (found == attributes.end() || found->second.list().i_size() == 0) continue;
    auto* numbers = found->second.mutable_list()->mutable_i();
    const int width = found->first == "explicit_paddings" ? 2 : 1;  // before and after
    std::rotate(numbers->begin() + width, numbers->begin() + 2 * width, numbers->end());
  }
  return node;
}

// Copies `count` matrices of [rows, columns] as [columns, rows].
void Transpose(const Tensor& from, int64_t count, int64_t rows, int64_t columns, Tensor* to) {
  const size_t size = tensorflow::DataTypeSize(from.dtype());
  const char* read = from.tensor_data().data();
  char* written = const_cast<char*>(to->tensor_data().data());
  for (int64_t n = 0; n < count; ++n, written += rows * columns * size) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c, read += size) {
        std::memcpy(written + (c * rows + r) * size, read, size);
      }
    }
  }
}

int64_t PixelsOf(const Tensor& image, int64_t channels) {
  return image.NumElements() / std::max<int64_t>(image.dim_size(0) * channels, 1);
}

// An image, or the sizes of one, with the channels last, in host memory; others as they are.
Tensor ChannelsLast(const Tensor& first, int rank) {
  if (first.dims() == rank) {
    TensorShape shape = first.shape();
    const int64_t channels = shape.dim_size(1);
    shape.RemoveDim(1);
    shape.AddDim(channels);
    Tensor last(first.dtype(), shape);
    Transpose(first, shape.dim_size(0), channels, PixelsOf(first, channels), &last);
    return last;
  }
  if (first.dims() != 1 || first.NumElements() != rank) return first;
  Tensor last(first.dtype(), first.shape());
  const size_t size = tensorflow::DataTypeSize(first.dtype());
  std::string sizes(first.tensor_data());
  std::rotate(sizes.begin() + size, sizes.begin() + 2 * size, sizes.end());
  std::memcpy(const_cast<char*>(last.tensor_data().data()), sizes.data(), sizes.size());
  return last;
}

class ChannelsFirstKernel : public OnHostKernel {
 public:
  // The kernel as it is registered for a GPU: that may be one of our own.
  explicit ChannelsFirstKernel(tensorflow::OpKernelConstruction* construction)
      : OnHostKernel(construction, ChannelsLast(construction->def()), "GPU") {}

  void Compute(OpKernelContext* context) override {
    const int rank = FormatOf(def()).size();
    std::vector<Tensor> inputs;
    for (int i = 0; i < num_inputs(); ++i) {
      const bool is_filter = i == 1 && absl::StrContains(type_string(), "Conv");
      const Tensor& input = context->input(i);
      inputs.push_back(is_filter ? input : ChannelsLast(input, rank));
    }
    std::vector<Tensor> outputs;
    OP_REQUIRES_OK(context, ComputeOnHost(context, inputs, &outputs));
    const Tensor& last = outputs[0];
    if (absl::StrContains(type_string(), "BackpropFilter")) {  // the same in both formats
      context->set_output(0, last);
      return BringResultsToCard(context);
    }
    TensorShape shape = last.shape();
    const int64_t channels = shape.dim_size(rank - 1);
    shape.RemoveLastDims(1);
    shape.InsertDim(1, channels);
    Tensor* first = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &first));
    Transpose(last, shape.dim_size(0), PixelsOf(last, channels), channels, first);
  }
};

// Whether this is a convolution or a pool, or a gradient of one, whose format can be chosen.
bool HasFormat(const std::string& op) {
  const tensorflow::OpDef* definition = nullptr;
  if (!tensorflow::OpRegistry::Global()->LookUpOpDef(op, &definition).ok() ||
      tensorflow::FindAttr("data_format", *definition) == nullptr) {
    return false;
  }
  for (const char* start : {"Conv", "DepthwiseConv", "MaxPool", "AvgPool"}) {
    if (absl::StartsWith(op, start)) return true;
  }
  return false;
}

}  // namespace

void RegisterChannelsFirst() {
  const tensorflow::KernelList all = tensorflow::GetAllRegisteredKernels();
  for (const tensorflow::KernelDef& kernel : all.kernel()) {
    const bool is_original = kernel.priority() < kRefusal;
    const bool is_known = kernel.device_type() == "GPU" || kernel.device_type() == "CPU";
    if (!is_original || !is_known || !HasFormat(kernel.op())) continue;
    auto* registration = new tensorflow::KernelDef(kernel);  // which TensorFlow takes over
    registration->set_priority(kChannelsFirst);
    auto* formats = registration->add_constraint();
    formats->set_name("data_format");
    formats->mutable_allowed_values()->mutable_list()->add_s("NCHW");
    formats->mutable_allowed_values()->mutable_list()->add_s("NCDHW");
    tensorflow::kernel_factory::OpKernelRegistrar(
        registration, "ChannelsFirstKernel [simulated]", Make<ChannelsFirstKernel>);
  }
}

}  // namespace gpuconf
