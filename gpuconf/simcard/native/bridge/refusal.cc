#include "refusal.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/types.h"

namespace gpuconf {
namespace {

std::string TypesOf(const tensorflow::NodeDef& node) {
  std::string types;
  for (const auto& [name, value] : node.attr()) {
    if (value.type() == tensorflow::DT_INVALID) continue;
    absl::StrAppend(&types, types.empty() ? "" : ", ", name, "=",
                    tensorflow::DataTypeString(value.type()));
  }
  return types.empty() ? types : absl::StrCat(" with ", types);
}

}  // namespace

absl::Status CannotCompute(const tensorflow::NodeDef& node, absl::string_view reason) {
  return absl::UnimplementedError(absl::StrCat(
      "gpuconf: a simulated GPU cannot compute ", node.op(), TypesOf(node), " (node ",
      node.name(), "): ",
      reason.empty() ? "TensorFlow has a CUDA kernel for it and no CPU kernel to stand in"
                     : reason,
      ". A real GPU can; here, put it under tf.device('CPU') if it can run there"));
}

}  // namespace gpuconf
