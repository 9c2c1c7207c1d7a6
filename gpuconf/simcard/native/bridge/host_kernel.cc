#include "host_kernel.h"

#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op.h"

namespace gpuconf {
namespace {

using ::tensorflow::MemoryTypeSlice;
using ::tensorflow::MemoryTypeVector;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;

// OpKernel keeps what we must change to itself, and an explicit instantiation may name private
// members: [temp.spec]/6 of the C++ standard.
template <typename Tag, typename Tag::Member member>
struct Opener {
  friend typename Tag::Member Open(Tag) { return member; }
};

struct InputTypes {
  using Member = const MemoryTypeVector OpKernel::*;
  friend Member Open(InputTypes);
};
struct OutputTypes {
  using Member = const MemoryTypeVector OpKernel::*;
  friend Member Open(OutputTypes);
};
struct Expensive {
  using Member = bool OpKernel::*;
  friend Member Open(Expensive);
};
template struct Opener<InputTypes, &OpKernel::input_memory_types_>;
template struct Opener<OutputTypes, &OpKernel::output_memory_types_>;
template struct Opener<Expensive, &OpKernel::expensive_>;

void Replace(const MemoryTypeVector& there, MemoryTypeSlice wanted) {
  // The vector itself was not made const; only OpKernel's view of it is.
  const_cast<MemoryTypeVector&>(there).assign(wanted.begin(), wanted.end());
}

}  // namespace

void TreatAsGpuKernel(const OpKernelConstruction& construction, OpKernel* kernel) {
  Replace(kernel->*Open(InputTypes()), construction.input_memory_types());
  Replace(kernel->*Open(OutputTypes()), construction.output_memory_types());
  kernel->*Open(Expensive()) = false;
}

namespace {

// A kernel that puts its result into host memory, whatever device it is told, and the kernel around
// it that brings the result to the card.
class BringsResultsToCard : public OpKernel {
 public:
  BringsResultsToCard(OpKernelConstruction* construction, OpKernel* inner)
      : OpKernel(construction), inner_(inner) {}

  void Compute(tensorflow::OpKernelContext* context) override {
    inner_->Compute(context);
    for (int i = 0; context->status().ok() && i < context->num_outputs(); ++i) {
      if (context->output_memory_type(i) != tensorflow::DEVICE_MEMORY) continue;
      tensorflow::Tensor* result = context->mutable_output(i);
      tensorflow::Tensor on_card;
      OP_REQUIRES_OK(context,
                     context->allocate_temp(result->dtype(), result->shape(), &on_card));
      const auto bytes = result->tensor_data();
      std::memcpy(const_cast<char*>(on_card.tensor_data().data()), bytes.data(), bytes.size());
      *result = on_card;
    }
  }

 private:
  std::unique_ptr<OpKernel> inner_;
};

bool LeavesResultsOnHost(const std::string& op) {
  return op == "ScatterNd";  // DoScatterNd of scatter_nd_op.cc asks for host memory on a CPU
}

}  // namespace

OpKernel* MakeHostKernel(OpKernelConstruction* construction) {
  std::shared_ptr<const tensorflow::NodeProperties> properties;
  absl::Status status = tensorflow::NodeProperties::CreateFromNodeDef(
      construction->def(), tensorflow::OpRegistry::Global(), &properties);
  OpKernel* kernel = nullptr;
  if (status.ok()) {
    status = tensorflow::CreateOpKernel(
        tensorflow::DeviceType("CPU"), construction->device(),
        construction->device()->GetAllocator(tensorflow::AllocatorAttributes()),
        construction->function_library(), construction->resource_manager(), properties,
        construction->graph_def_version(), &kernel);
  }
  if (!status.ok()) {
    construction->SetStatus(status);
    return nullptr;
  }
  TreatAsGpuKernel(*construction, kernel);
  if (!LeavesResultsOnHost(construction->def().op())) return kernel;
  return new BringsResultsToCard(construction, kernel);
}

}  // namespace gpuconf
