// The kernel bridge: TensorFlow computes on a simulated GPU.
//
// TensorFlow loads this as a device plugin, right after its own kernels are registered
// (TF_PLUGGABLE_DEVICE_LIBRARY_PATH), and asks for two functions: TF_InitKernel and TF_InitGraph.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "driver.h"
#include "host_kernel.h"
#include "refusal.h"
#include "registrations.h"
#include "replacements.h"
#include "tensorflow/c/c_api.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace gpuconf {
namespace {

using ::tensorflow::kernel_factory::OpKernelFactory;
using ::tensorflow::kernel_factory::OpKernelRegistrar;

class HostKernelFactory : public OpKernelFactory {
 public:
  tensorflow::OpKernel* Create(tensorflow::OpKernelConstruction* construction) override {
    return MakeHostKernel(construction);
  }
};

class RefusalFactory : public OpKernelFactory {
 public:
  tensorflow::OpKernel* Create(tensorflow::OpKernelConstruction* construction) override {
    construction->SetStatus(CannotCompute(construction->def()));
    return nullptr;
  }
};

[[noreturn]] void Refuse(const char* reason, const char* hint) {
  std::fprintf(stderr, "gpuconf: error: the kernel bridge of the simulated GPU %s\n  hint: %s\n",
               reason, hint);
  std::exit(1);
}

// Kernels that take device memory for host memory would crash on a real card.
void CheckCardIsSimulated() {
  if (!IsDriverSimulated()) {
    Refuse("found another CUDA driver than the simulated one",
           "unset TF_PLUGGABLE_DEVICE_LIBRARY_PATH");
  }
}

void CheckTensorFlow() {
  if (std::strcmp(TF_Version(), GPUCONF_TENSORFLOW_VERSION) != 0) {
    char reason[200];
    std::snprintf(reason, sizeof reason, "was built for TensorFlow %s, and this is %s",
                  GPUCONF_TENSORFLOW_VERSION, TF_Version());
    Refuse(reason, "python -m gpuconf.simcard run … -- PYTHON script.py, where PYTHON is the script's own");
  }
}

void ReplaceKernels() {
  for (const Replacement& replacement : FindReplacements()) {
    std::unique_ptr<OpKernelFactory> factory;
    if (replacement.has_twin) {
      factory = std::make_unique<HostKernelFactory>();
    } else {
      factory = std::make_unique<RefusalFactory>();
    }
    // TensorFlow takes the KernelDef over.
    OpKernelRegistrar(new tensorflow::KernelDef(replacement.registration), replacement.class_name,
                      std::move(factory));
  }
}

}  // namespace
}  // namespace gpuconf

extern "C" {

// Called by TensorFlow; nothing may be thrown through it.
__attribute__((visibility("default"))) void TF_InitKernel() {
  gpuconf::CheckTensorFlow();
  gpuconf::CheckCardIsSimulated();
  gpuconf::ReplaceKernels();
  gpuconf::RegisterHostRnn();
  gpuconf::RegisterHostConvolutions();
  gpuconf::RegisterChannelsFirst();
  gpuconf::TakeJitFunctions();
}

}  // extern "C"
