#include "host_kernel.h"

#include <memory>

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
  return kernel;
}

}  // namespace gpuconf
