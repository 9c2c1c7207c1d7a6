// What takes the place of the GPU kernels in the TensorFlow wheel: their CPU twins, or a refusal.
#pragma once

#include <string>
#include <vector>

#include "tensorflow/core/framework/kernel_def.pb.h"

namespace gpuconf {

// Priorities above that of the kernel whose place is taken.
constexpr int kRefusal = 1;
constexpr int kTwin = 2;
constexpr int kOwnKernel = 3;
constexpr int kChannelsFirst = 4;

struct Replacement {
  tensorflow::KernelDef registration;  // for "GPU", at a higher priority than the original
  std::string class_name;              // as TensorFlow shows it, with a mark of ours
  bool has_twin;                       // whether there is a CPU kernel to compute it
};

// Looks through everything TensorFlow has registered so far, and changes nothing.
std::vector<Replacement> FindReplacements();

}  // namespace gpuconf
