#include "host_kernel.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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
namespace {

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
class XlaHostKernel : public OpKernel {
 public:
  XlaHostKernel(OpKernelConstruction* construction, tensorflow::Device* cpu,
                std::unique_ptr<OpKernel> cpu_kernel)
      : OpKernel(construction), cpu_(cpu), cpu_kernel_(std::move(cpu_kernel)) {}

  void Compute(OpKernelContext* context) override {
    std::vector<tensorflow::TensorValue> inputs(num_inputs());
    for (int i = 0; i < num_inputs(); ++i) inputs[i].tensor = const_cast<Tensor*>(&context->input(i));
    const std::vector<tensorflow::AllocatorAttributes> attributes(num_outputs());
    OpKernelContext::Params params;
    params.op_kernel = cpu_kernel_.get();
    params.device = cpu_;
    params.resource_manager = cpu_->resource_manager();
    params.function_library = context->function_library();
    params.inputs = inputs;
    params.output_attr_array = attributes.data();
    OpKernelContext on_host(&params, num_outputs());
    cpu_kernel_->Compute(&on_host);
    OP_REQUIRES_OK(context, on_host.status());
    for (int i = 0; i < num_outputs(); ++i) context->set_output(i, *on_host.mutable_output(i));
    BringResultsToCard(context);
  }

 private:
  tensorflow::Device* const cpu_;
  const std::unique_ptr<OpKernel> cpu_kernel_;
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

absl::Status MakeCpuKernel(OpKernelConstruction* construction, tensorflow::DeviceBase* device,
                           std::unique_ptr<OpKernel>* made) {
  const char* reason = WhatNoCpuKernelDoes(construction->def());
  if (reason != nullptr) return CannotCompute(construction->def(), reason);
  std::shared_ptr<const tensorflow::NodeProperties> properties;
  absl::Status status = tensorflow::NodeProperties::CreateFromNodeDef(
      construction->def(), tensorflow::OpRegistry::Global(), &properties);
  if (!status.ok()) return status;
  OpKernel* kernel = nullptr;
  status = tensorflow::CreateOpKernel(
      tensorflow::DeviceType("CPU"), device, device->GetAllocator(tensorflow::AllocatorAttributes()),
      construction->function_library(), construction->resource_manager(), properties,
      construction->graph_def_version(), &kernel);
  made->reset(kernel);
  if (absl::StrContains(status.message(), "CPU")) {  // what only a CPU refuses
    return CannotCompute(construction->def(),
                         absl::StrCat("its CPU kernel says: ", status.message()));
  }
  return status;
}

}  // namespace

OpKernel* MakeHostKernel(OpKernelConstruction* construction) {
  tensorflow::Device* cpu = nullptr;  // only for what compiles for its device
  std::unique_ptr<OpKernel> cpu_kernel;
  absl::Status status;
  if (absl::StartsWith(construction->def().op(), "Xla")) {
    status = construction->function_library()->device_mgr()->LookupDevice("CPU:0", &cpu);
  }
  if (status.ok()) {
    status = MakeCpuKernel(construction, cpu ? cpu : construction->device(), &cpu_kernel);
  }
  if (!status.ok()) {
    construction->SetStatus(status);
    return nullptr;
  }
  if (cpu) return new XlaHostKernel(construction, cpu, std::move(cpu_kernel));
  if (cpu_kernel->AsAsync() != nullptr) {
    return new AsyncHostKernel(construction, std::move(cpu_kernel));
  }
  return new HostKernel(construction, std::move(cpu_kernel));
}

}  // namespace gpuconf
