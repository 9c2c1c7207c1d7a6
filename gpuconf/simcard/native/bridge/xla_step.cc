// XLA's memory, and the CPU's numbers: see xla_step.h.
#include "xla_step.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "driver.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/common_runtime/function_utils.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/common_runtime/rendezvous_mgr.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tsl/profiler/lib/scoped_memory_debug_annotation.h"

namespace gpuconf {
namespace {

using ::tensorflow::FunctionLibraryRuntime;
using ::tensorflow::OpKernelContext;
using ::tensorflow::ResourceHandle;
using ::tensorflow::Tensor;
using ::tensorflow::Var;
template <typename T>
using Counted = ::tensorflow::core::RefCountPtr<T>;

// Device memory is host memory, so both sides can be read and written from here.
absl::Status CopyValue(const Tensor& from, Tensor* to) {
  const auto bytes = from.tensor_data();
  const auto room = to->tensor_data();
  if (from.dtype() != to->dtype() || bytes.size() != room.size()) {
    return absl::InternalError(absl::StrCat(
        "gpuconf: XLA gives ", to->DebugString(0), " where the CPU gives ", from.DebugString(0)));
  }
  if (!bytes.empty()) std::memcpy(const_cast<char*>(room.data()), bytes.data(), bytes.size());
  return absl::OkStatus();
}

Tensor HandleTensor(const ResourceHandle& handle) {
  Tensor made(tensorflow::DT_RESOURCE, tensorflow::TensorShape({}));
  made.scalar<ResourceHandle>()() = handle;
  return made;
}

// A variable on the card, and one on the host that begins with its value.
struct Twins {
  Counted<Var> on_card, on_host;
  std::string name;  // of the one on the host, in the CPU's resources

  static std::string NewName() {
    static std::atomic<int64_t> count{0};
    return absl::StrCat("gpuconf_twin_", count++);
  }
};

constexpr char kContainer[] = "gpuconf";
// What TensorFlow calls the operation that runs what XLA has compiled; traces of memory show it.
constexpr char kRun[] = "_XlaRun";

// The functions of one kernel on the CPU.
class HostFunction {
 public:
  absl::Status Prepare(FunctionLibraryRuntime* library, const tensorflow::NodeDef& node) {
    const absl::Status found = library->device_mgr()->LookupDevice("CPU:0", &cpu_);
    if (!found.ok()) return found;
    functions_ = std::make_unique<tensorflow::ProcessFunctionLibraryRuntime>(
        library->device_mgr(), library->env(), library->config_proto(),
        library->graph_def_version(), library->GetFunctionLibraryDefinition(),
        tensorflow::OptimizerOptions());
    library_ = functions_->GetFLR(cpu_->name());
    return NameAndAttrsFromFunctionCall(node, &function_);
  }

  tensorflow::Device* device() const { return cpu_; }

  void Run(OpKernelContext* context, const std::vector<Tensor>& arguments,
           std::vector<Tensor>* results, FunctionLibraryRuntime::DoneCallback done) {
    // Which library defines the functions may be known only while it runs: instantiated once.
    FunctionLibraryRuntime::Handle handle;
    const absl::Status status = library_->Instantiate(
        function_.name(), tensorflow::AttrSlice(&function_.attr()), &handle);
    if (!status.ok()) return done(status);
    auto rendezvous =
        std::make_shared<tensorflow::PrivateIntraProcessRendezvous>(library_->device_mgr());
    FunctionLibraryRuntime::Options options;
    options.rendezvous = rendezvous.get();
    options.cancellation_manager = context->cancellation_manager();
    options.step_container = context->step_container();
    options.runner = context->runner();
    library_->Run(options, handle, arguments, results,
                  [rendezvous, done = std::move(done)](const absl::Status& status) {
                    done(status);
                  });
  }

 private:
  tensorflow::Device* cpu_ = nullptr;
  std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> functions_;
  FunctionLibraryRuntime* library_ = nullptr;
  tensorflow::NameAttrList function_;
};

// One call of the kernel.
struct Call {
  OpKernelContext* context;
  // Values that others hold too: XLA will not write over these, and their variable gets another
  // tensor, whose value nobody computes.
  std::map<const Var*, Tensor> shared;
  std::vector<Twins> variables;
  std::vector<Tensor> arguments, results;
};

class XlaStep : public tensorflow::AsyncOpKernel {
 public:
  XlaStep(tensorflow::OpKernelConstruction* construction, std::unique_ptr<OpKernel> xla,
          std::unique_ptr<HostFunction> on_host)
      : AsyncOpKernel(construction), xla_(std::move(xla)), on_host_(std::move(on_host)) {}

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    auto call = std::make_shared<Call>();
    call->context = context;
    OP_REQUIRES_OK_ASYNC(context, KeepSharedValues(call.get()), done);
    auto then = [this, call, done = std::move(done)] { ComputeOnHost(call, done); };
    const WorkSkipped skipped(true);
    const tsl::profiler::ScopedMemoryDebugAnnotation annotation(kRun, context->step_id());
    if (xla_->AsAsync() != nullptr) {
      xla_->AsAsync()->ComputeAsync(context, std::move(then));
    } else {
      xla_->Compute(context);
      then();
    }
  }

 private:
  static bool IsVariable(const ResourceHandle& handle) {
    return handle.hash_code() == tensorflow::TypeIndex::Make<Var>().hash_code();
  }

  static absl::Status KeepSharedValues(Call* call) {
    for (int i = 0; i < call->context->num_inputs(); ++i) {
      if (call->context->input_dtype(i) != tensorflow::DT_RESOURCE) continue;
      const ResourceHandle& handle = HandleFromInput(call->context, i);
      if (!IsVariable(handle)) continue;
      Counted<Var> variable;
      const absl::Status status = LookupResource(call->context, handle, &variable);
      if (!status.ok()) return status;
      tensorflow::tf_shared_lock lock(*variable->mu());
      if (variable->is_initialized && !variable->tensor()->RefCountIsOne()) {
        call->shared[variable.get()] = *variable->tensor();
      }
    }
    return absl::OkStatus();
  }

  void ComputeOnHost(const std::shared_ptr<Call>& call, const DoneCallback& done) {
    const WorkSkipped working(false);  // XLA calls back from within its own call
    if (!call->context->status().ok()) return done();
    auto finish = [this, call, done](absl::Status status) {
      if (status.ok()) status = PutValues(call.get());
      RemoveTwins(call.get());
      if (!status.ok()) call->context->CtxFailure(status);
      done();
    };
    const absl::Status status = MakeArguments(call.get());
    if (!status.ok()) return finish(status);
    on_host_->Run(call->context, call->arguments, &call->results, finish);
  }

  absl::Status MakeArguments(Call* call) {
    std::map<const Var*, Tensor> handles;  // a variable that is given twice stays one
    for (int i = 0; i < call->context->num_inputs(); ++i) {
      const Tensor& input = call->context->input(i);
      if (input.dtype() != tensorflow::DT_RESOURCE || !IsVariable(input.scalar<ResourceHandle>()())) {
        call->arguments.push_back(input);
        continue;
      }
      const ResourceHandle& handle = input.scalar<ResourceHandle>()();
      Twins twins;
      const absl::Status status = LookupResource(call->context, handle, &twins.on_card);
      if (!status.ok()) return status;
      auto [place, is_new] = handles.emplace(twins.on_card.get(), Tensor());
      if (is_new) {
        const absl::Status made = MakeTwin(*call, &twins);
        if (!made.ok()) return made;
        place->second = HandleTensor(tensorflow::MakeResourceHandle(
            kContainer, twins.name, *on_host_->device(), tensorflow::TypeIndex::Make<Var>(),
            handle.dtypes_and_shapes()));
        call->variables.push_back(std::move(twins));
      }
      call->arguments.push_back(place->second);
    }
    return absl::OkStatus();
  }

  // Makes the twin on the host: known by a name, since not every operation looks into a handle.
  absl::Status MakeTwin(const Call& call, Twins* twins) {
    tensorflow::tf_shared_lock lock(*twins->on_card->mu());
    twins->on_host.reset(new Var(twins->on_card->tensor()->dtype()));
    const auto shared = call.shared.find(twins->on_card.get());
    *twins->on_host->tensor() =
        shared == call.shared.end() ? *twins->on_card->tensor() : shared->second;
    twins->on_host->is_initialized = twins->on_card->is_initialized;
    twins->name = Twins::NewName();
    twins->on_host->Ref();  // the resources take one over
    return on_host_->device()->resource_manager()->Create(kContainer, twins->name,
                                                          twins->on_host.get());
  }

  void RemoveTwins(Call* call) {
    for (const Twins& twins : call->variables) {
      on_host_->device()->resource_manager()->Delete<Var>(kContainer, twins.name).IgnoreError();
    }
  }

  static absl::Status PutValues(Call* call) {
    for (size_t i = 0; i < call->results.size(); ++i) {
      Tensor* result = call->context->mutable_output(static_cast<int>(i));
      if (result == nullptr || !tensorflow::DataTypeCanUseMemcpy(result->dtype())) continue;
      const absl::Status status = CopyValue(call->results[i], result);
      if (!status.ok()) return status;
    }
    for (Twins& twins : call->variables) {
      tensorflow::mutex_lock lock(*twins.on_card->mu());
      const Tensor& value = *twins.on_host->tensor();
      if (!twins.on_host->is_initialized || value.SharesBufferWith(*twins.on_card->tensor())) {
        continue;
      }
      const absl::Status status = CopyValue(value, twins.on_card->tensor());
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<OpKernel> xla_;
  const std::unique_ptr<HostFunction> on_host_;
};

}  // namespace

absl::Status MakeXlaStep(FunctionLibraryRuntime* library,
                         const std::shared_ptr<const tensorflow::NodeProperties>& properties,
                         std::unique_ptr<tensorflow::OpKernel> xla,
                         std::unique_ptr<tensorflow::OpKernel>* made) {
  auto on_host = std::make_unique<HostFunction>();
  absl::Status status = on_host->Prepare(library, properties->node_def);
  if (!status.ok()) return status;
  tensorflow::Device* device = library->device();
  tensorflow::OpKernelConstruction construction(
      tensorflow::DeviceType(device->device_type()), device,
      device->GetAllocator(tensorflow::AllocatorAttributes()), library, device->resource_manager(),
      properties, xla->input_memory_types(), xla->output_memory_types(),
      library->graph_def_version(), &status);
  *made = std::make_unique<XlaStep>(&construction, std::move(xla), std::move(on_host));
  return status;
}

}  // namespace gpuconf
