#include "host_kernel.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "driver.h"
#include "refusal.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/types.h"

namespace gpuconf {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

// Some CPU kernels put a result into host memory whatever the device (ScatterNd, SparseConcat):
// there the next copy from the card would not find it, and the peak would lack it.
void BringResultsToCard(OpKernelContext* context) {
  for (int i = 0; context->status().ok() && i < context->num_outputs(); ++i) {
    Tensor* result = context->mutable_output(i);
    if (context->output_memory_type(i) != tensorflow::DEVICE_MEMORY || result == nullptr ||
        tensorflow::IsRefType(context->expected_output_dtype(i)) ||
        !tensorflow::DataTypeCanUseMemcpy(result->dtype())) {
      continue;
    }
    const auto bytes = result->tensor_data();
    if (bytes.empty() || IsDeviceMemory(bytes.data(), bytes.size())) continue;
    Tensor on_card;
    OP_REQUIRES_OK(context, context->allocate_temp(result->dtype(), result->shape(), &on_card));
    std::memcpy(const_cast<char*>(on_card.tensor_data().data()), bytes.data(), bytes.size());
    *result = on_card;
  }
}

namespace {

// The kernel that TensorFlow sees: made for a GPU, so its arguments live where a GPU kernel's do
// and the executor takes it for a cheap one, as it does GPU kernels; else kernels would run in
// another order, and the peak of memory would be another.
class HostKernel : public OpKernel {
 public:
  HostKernel(OpKernelConstruction* construction, std::unique_ptr<OpKernel> cpu_kernel)
      : OpKernel(construction), cpu_kernel_(std::move(cpu_kernel)) {}

  void Compute(OpKernelContext* context) override {
    cpu_kernel_->Compute(context);
    BringResultsToCard(context);
  }

 private:
  const std::unique_ptr<OpKernel> cpu_kernel_;
};

class AsyncHostKernel : public tensorflow::AsyncOpKernel {
 public:
  AsyncHostKernel(OpKernelConstruction* construction, std::unique_ptr<OpKernel> cpu_kernel)
      : AsyncOpKernel(construction), cpu_kernel_(std::move(cpu_kernel)) {}

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    cpu_kernel_->AsAsync()->ComputeAsync(context, [context, done = std::move(done)] {
      BringResultsToCard(context);
      done();
    });
  }

 private:
  const std::unique_ptr<OpKernel> cpu_kernel_;
};

// For an operation that XLA compiles when it is called, such as XlaDynamicUpdateSlice.  Its kernel
// is of the same class on every device and compiles for the one that it is given: here the CPU.
class XlaHostKernel : public OnHostKernel {
 public:
  explicit XlaHostKernel(OpKernelConstruction* construction)
      : OnHostKernel(construction, construction->def(), "CPU") {}

  void Compute(OpKernelContext* context) override {
    std::vector<Tensor> inputs, outputs;
    for (int i = 0; i < num_inputs(); ++i) inputs.push_back(context->input(i));
    OP_REQUIRES_OK(context, ComputeOnHost(context, inputs, &outputs));
    for (int i = 0; i < num_outputs(); ++i) context->set_output(i, outputs[i]);
    BringResultsToCard(context);
  }
};

// What TensorFlow's CPU kernels find out only while computing that they cannot do; null for nothing.
const char* WhatNoCpuKernelDoes(const tensorflow::NodeDef& node) {
  bool is_windowed = false;
  for (const char* start : {"Conv", "MaxPool", "AvgPool", "DepthwiseConv", "_FusedConv"}) {
    is_windowed = is_windowed || absl::StartsWith(node.op(), start);
  }
  if (!is_windowed) return nullptr;
  std::string format;
  if (tensorflow::TryGetNodeAttr(node, "data_format", &format) &&
      absl::StartsWith(format, "NC")) {
    return "CPU kernels know channels_last (NHWC) only";
  }
  return nullptr;
}

absl::Status MakeKernel(OpKernelConstruction* construction, const tensorflow::NodeDef& node,
                        absl::string_view device_type, tensorflow::DeviceBase* device,
                        std::unique_ptr<OpKernel>* made) {
  std::shared_ptr<const tensorflow::NodeProperties> properties;
  absl::Status status = tensorflow::NodeProperties::CreateFromNodeDef(
      node, tensorflow::OpRegistry::Global(), &properties);
  if (!status.ok()) return status;
  OpKernel* kernel = nullptr;
  status = tensorflow::CreateOpKernel(
      tensorflow::DeviceType(device_type), device,
      device->GetAllocator(tensorflow::AllocatorAttributes()), construction->function_library(),
      construction->resource_manager(), properties, construction->graph_def_version(), &kernel);
  made->reset(kernel);
  if (device_type == "CPU" && absl::StrContains(status.message(), "CPU")) {  // only a CPU refuses
    return CannotCompute(construction->def(),
                         absl::StrCat("its CPU kernel says: ", status.message()));
  }
  return status;
}

}  // namespace

OnHostKernel::OnHostKernel(OpKernelConstruction* construction, const tensorflow::NodeDef& node,
                           absl::string_view device_type)
    : OpKernel(construction) {
  const auto* library = construction->function_library();
  // TensorFlow has none where it tries to compute constants in advance, and then leaves them.
  OP_REQUIRES(construction, library != nullptr, CannotCompute(construction->def()));
  OP_REQUIRES_OK(construction, library->device_mgr()->LookupDevice("CPU:0", &cpu_));
  OP_REQUIRES_OK(construction, MakeKernel(construction, node, device_type, cpu_, &kernel_));
}

absl::Status OnHostKernel::ComputeOnHost(OpKernelContext* context,
                                         const std::vector<Tensor>& inputs,
                                         std::vector<Tensor>* outputs) {
  std::vector<tensorflow::TensorValue> values(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[i].tensor = const_cast<Tensor*>(&inputs[i]);
  const std::vector<tensorflow::AllocatorAttributes> attributes(num_outputs());
  OpKernelContext::Params params;
  params.op_kernel = kernel_.get();
  params.device = cpu_;
  params.resource_manager = cpu_->resource_manager();
  params.function_library = context->function_library();
  params.inputs = values;
  params.output_attr_array = attributes.data();
  OpKernelContext on_host(&params, num_outputs());
  kernel_->Compute(&on_host);
  for (int i = 0; on_host.status().ok() && i < num_outputs(); ++i) {
    outputs->push_back(*on_host.mutable_output(i));
  }
  return on_host.status();
}

OpKernel* MakeHostKernel(OpKernelConstruction* construction) {
  const tensorflow::NodeDef& node = construction->def();
  if (absl::StartsWith(node.op(), "Xla")) return new XlaHostKernel(construction);
  std::unique_ptr<OpKernel> cpu_kernel;
  const char* reason = WhatNoCpuKernelDoes(node);
  const absl::Status status =
      reason != nullptr
          ? CannotCompute(node, reason)
          : MakeKernel(construction, node, "CPU", construction->device(), &cpu_kernel);
  if (!status.ok()) {
    construction->SetStatus(status);
    return nullptr;
  }
  if (cpu_kernel->AsAsync() != nullptr) {
    return new AsyncHostKernel(construction, std::move(cpu_kernel));
  }
  return new HostKernel(construction, std::move(cpu_kernel));
}

}  // namespace gpuconf
