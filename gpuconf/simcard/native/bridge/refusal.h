// The error for what a simulated GPU cannot compute.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace gpuconf {

// An UnimplementedError that names the operation, its types and its node.  `reason` says what is
// missing, where it is not simply the CPU kernel.
absl::Status CannotCompute(const tensorflow::NodeDef& node, absl::string_view reason = "");

}  // namespace gpuconf
