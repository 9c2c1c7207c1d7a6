// Rewrites of graphs that would ask for kernels which only a real GPU has.
//
// For a device type with a plugin, TensorFlow lets the plugin switch its own rewrites off: the
// layout optimizer wants convolutions in NCHW, for which the CPU has no kernels; the remapper
// fuses operations as cuDNN can; the implementation selector puts cuDNN's RNNs in.
#include <cstdlib>
#include <cstring>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/experimental/grappler/grappler.h"

namespace {

void Free(void* data, size_t) { std::free(data); }

// TensorFlow insists on an optimizer of the plugin's own: this one changes nothing.
void KeepGraph(void*, const TF_Buffer* graph, const TF_GrapplerItem*, TF_Buffer* optimized,
               TF_Status* status) {
  void* copy = std::malloc(graph->length);
  if (copy == nullptr && graph->length != 0) {
    TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "gpuconf: no memory to copy a graph");
    return;
  }
  std::memcpy(copy, graph->data, graph->length);
  optimized->data = copy;
  optimized->length = graph->length;
  optimized->data_deallocator = Free;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void TF_InitGraph(
    TP_OptimizerRegistrationParams* params, TF_Status*) {
  params->struct_size = TP_OPTIMIZER_REGISTRATION_PARAMS_STRUCT_SIZE;
  params->device_type = "GPU";
  params->optimizer_configs->struct_size = TP_OPTIMIZER_CONFIGS_STRUCT_SIZE;
  params->optimizer_configs->layout_optimizer = TF_TriState_Off;
  params->optimizer_configs->remapping = TF_TriState_Off;
  params->optimizer_configs->implementation_selector = TF_TriState_Off;
  params->optimizer->struct_size = TP_OPTIMIZER_STRUCT_SIZE;
  params->optimizer->optimize_func = KeepGraph;
}
