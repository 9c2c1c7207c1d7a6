#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "host_kernel.h"
#include "refusal.h"
#include "registrations.h"
#include "replacements.h"
#include "rnn_cells.h"
#include "rnn_tensors.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"

namespace gpuconf {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

// What the six operations share: their attributes, and the check that we can.
class RnnKernel : public OpKernel {
 public:
  explicit RnnKernel(OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, ReadAttributes(construction));
  }

 protected:
  absl::Status ReadAttributes(OpKernelConstruction* construction) {
    std::string mode, direction, input_mode;
    for (const auto& [name, value] : {std::pair("rnn_mode", &mode), {"direction", &direction},
                                      {"input_mode", &input_mode}}) {
      if (absl::Status status = construction->GetAttr(name, value); !status.ok()) return status;
    }
    is_lstm_ = mode == "lstm";
    if (!is_lstm_ && mode != "gru") return CannotCompute(def(), absl::StrCat("rnn_mode ", mode));
    if (direction != "unidirectional" || input_mode != "linear_input") {
      return CannotCompute(def(), absl::StrCat("direction ", direction, ", input_mode ",
                                               input_mode, "; one direction with a linear input "
                                               "is all that the stand-in for cuDNN computes"));
    }
    if (construction->HasAttr("num_proj")) {
      int projection = 0;
      absl::Status status = construction->GetAttr("num_proj", &projection);
      if (!status.ok() || projection != 0) return CannotCompute(def(), "num_proj");
    }
    if (construction->HasAttr("time_major")) {
      return construction->GetAttr("time_major", &time_major_);
    }
    return absl::OkStatus();
  }

  static const Tensor& Input(OpKernelContext* context, const char* name) {
    const Tensor* tensor = nullptr;
    TF_CHECK_OK(context->input(name, &tensor));  // the operation's definition has it
    return *tensor;
  }

  absl::Status ReadShape(OpKernelContext* context, int64_t gates, RnnShape* shape) const {
    const Tensor& x = Input(context, "input");
    const Tensor& h = Input(context, "input_h");
    if (x.dims() != 3 || h.dims() != 3) {
      return absl::InvalidArgumentError("CudnnRNN: input and input_h must have 3 dimensions");
    }
    if (h.dim_size(time_major_ ? 0 : 1) != 1) {
      return CannotCompute(def(), "several layers; the stand-in for cuDNN computes one");
    }
    *shape = {x.dim_size(time_major_ ? 0 : 1), x.dim_size(time_major_ ? 1 : 0), x.dim_size(2),
              h.dim_size(2), time_major_};
    const int64_t numbers = gates * shape->units * (shape->inputs + shape->units + 2);
    absl::Status status = Expect(context, "input_h", shape->States());
    if (status.ok()) status = Expect(context, "params", TensorShape({numbers}));
    if (status.ok() && is_lstm_) status = Expect(context, "input_c", shape->States());
    return status;
  }

  // What the gradient reads besides.
  absl::Status CheckSlopes(OpKernelContext* context, const RnnShape& shape) const {
    absl::Status status = Expect(context, "output", shape.Sequences(shape.units));
    if (status.ok()) status = Expect(context, "output_backprop", shape.Sequences(shape.units));
    if (status.ok()) status = Expect(context, "output_h_backprop", shape.States());
    if (status.ok() && is_lstm_) status = Expect(context, "output_c_backprop", shape.States());
    return status;
  }

  // Every sequence is whole where the operation has no lengths (CudnnRNN, CudnnRNNV2).
  absl::Status ReadLengths(OpKernelContext* context, const RnnShape& shape,
                           std::vector<int>* lengths) const {
    lengths->assign(shape.batch, static_cast<int>(shape.steps));
    const Tensor* given = nullptr;
    if (!context->input("sequence_lengths", &given).ok()) return absl::OkStatus();
    absl::Status status = Expect(context, "sequence_lengths", TensorShape({shape.batch}));
    for (int64_t b = 0; status.ok() && b < shape.batch; ++b) {
      (*lengths)[b] = given->flat<int>()(b);
      if ((*lengths)[b] < 0 || (*lengths)[b] > shape.steps) {
        status = absl::InvalidArgumentError(
            absl::StrCat("CudnnRNN: sequence ", b, " has ", (*lengths)[b], " of ", shape.steps,
                         " steps"));
      }
    }
    return status;
  }

  static absl::Status Expect(OpKernelContext* context, const char* name,
                             const TensorShape& wanted) {
    const TensorShape& given = Input(context, name).shape();
    if (given == wanted) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("CudnnRNN: ", name, " is ",
                                                   given.DebugString(), " and must be ",
                                                   wanted.DebugString()));
  }

  bool is_lstm_ = false;
  bool time_major_ = true;
};

template <typename T>
class RnnForward : public RnnKernel {
 public:
  using F = Computing<T>;
  explicit RnnForward(OpKernelConstruction* construction) : RnnKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("is_training", &is_training_));
  }

  void Compute(OpKernelContext* context) override {
    is_lstm_ ? ComputeWith<LstmCell>(context) : ComputeWith<GruCell>(context);
  }

 private:
  template <template <typename> class Cell>
  void ComputeWith(OpKernelContext* context) {
    RnnShape shape;
    std::vector<int> lengths;
    OP_REQUIRES_OK(context, ReadShape(context, Cell<F>::kGates, &shape));
    OP_REQUIRES_OK(context, ReadLengths(context, shape, &lengths));
    const int64_t reserved = is_training_ ? shape.steps * shape.batch * shape.units : 0;
    Tensor *output, *output_h, *output_c, *reserve;
    const TensorShape cell_shape = Cell<F>::kHasCell ? shape.States() : TensorShape({});
    OP_REQUIRES_OK(context, context->allocate_output(0, shape.Sequences(shape.units), &output));
    OP_REQUIRES_OK(context, context->allocate_output(1, shape.States(), &output_h));
    OP_REQUIRES_OK(context, context->allocate_output(2, cell_shape, &output_c));
    OP_REQUIRES_OK(context, context->allocate_output(
                                3, TensorShape({Cell<F>::kSaved * reserved}), &reserve));
    if (context->num_outputs() > 4) {
      Tensor* host_reserved;
      OP_REQUIRES_OK(context, context->allocate_output(4, TensorShape({0}), &host_reserved));
    }
    Parameters<F> parameters(Cell<F>::kGates, shape.units, shape.inputs);
    ReadParameters<F, T>(Input(context, "params"), &parameters);
    State<F> state;
    state.h = ReadState<F, T>(Input(context, "input_h"), shape);
    if (Cell<F>::kHasCell) state.c = ReadState<F, T>(Input(context, "input_c"), shape);
    std::vector<Matrix<F>> y, saved;
    Layer<F, Cell>{parameters, lengths}.Forward(
        ReadSteps<F, T>(Input(context, "input"), shape, shape.inputs), &state, &y, &saved);
    WriteSteps<F, T>(y, shape, output);
    WriteState<F, T>(state.h, output_h);
    if (Cell<F>::kHasCell) {
      WriteState<F, T>(state.c, output_c);
    } else {
      output_c->template scalar<T>()() = T(0);
    }
    if (is_training_) WriteSteps<F, T>(saved, shape, reserve);
  }

  bool is_training_ = true;
};

template <typename T>
class RnnBackward : public RnnKernel {
 public:
  using F = Computing<T>;
  using RnnKernel::RnnKernel;

  void Compute(OpKernelContext* context) override {
    is_lstm_ ? ComputeWith<LstmCell>(context) : ComputeWith<GruCell>(context);
  }

 private:
  template <template <typename> class Cell>
  void ComputeWith(OpKernelContext* context) {
    RnnShape shape;
    std::vector<int> lengths;
    OP_REQUIRES_OK(context, ReadShape(context, Cell<F>::kGates, &shape));
    OP_REQUIRES_OK(context, CheckSlopes(context, shape));
    OP_REQUIRES_OK(context, ReadLengths(context, shape, &lengths));
    const Tensor& reserve = Input(context, "reserve_space");
    const int64_t width = Cell<F>::kSaved * shape.units;
    OP_REQUIRES(context, reserve.NumElements() == shape.steps * shape.batch * width,
                absl::InvalidArgumentError("CudnnRNN: no gradient without is_training=True"));
    Tensor *dx, *dh, *dc, *dparams;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape.Sequences(shape.inputs), &dx));
    OP_REQUIRES_OK(context, context->allocate_output(1, shape.States(), &dh));
    OP_REQUIRES_OK(context,
                   context->allocate_output(2, Input(context, "input_c").shape(), &dc));
    OP_REQUIRES_OK(context,
                   context->allocate_output(3, Input(context, "params").shape(), &dparams));
    Parameters<F> parameters(Cell<F>::kGates, shape.units, shape.inputs);
    ReadParameters<F, T>(Input(context, "params"), &parameters);
    Parameters<F> gradient(Cell<F>::kGates, shape.units, shape.inputs);
    State<F> first, slope;
    first.h = ReadState<F, T>(Input(context, "input_h"), shape);
    slope.h = ReadState<F, T>(Input(context, "output_h_backprop"), shape);
    if (Cell<F>::kHasCell) {
      first.c = ReadState<F, T>(Input(context, "input_c"), shape);
      slope.c = ReadState<F, T>(Input(context, "output_c_backprop"), shape);
    }
    std::vector<Matrix<F>> dx_steps;
    Layer<F, Cell>{parameters, lengths}.Backward(
        ReadSteps<F, T>(Input(context, "input"), shape, shape.inputs), first,
        ReadSteps<F, T>(Input(context, "output"), shape, shape.units),
        ReadSteps<F, T>(reserve, shape, width),
        ReadSteps<F, T>(Input(context, "output_backprop"), shape, shape.units), &slope, &dx_steps,
        &gradient);
    WriteSteps<F, T>(dx_steps, shape, dx);
    WriteState<F, T>(slope.h, dh);
    if (Cell<F>::kHasCell) {
      WriteState<F, T>(slope.c, dc);
    } else {
      dc->template flat<T>().setZero();
    }
    WriteParameters<F, T>(&gradient, dparams);
  }
};

template <typename T>
void RegisterOperation(const char* op, bool host_reserved, bool lengths,
                       OpKernel* (*make)(OpKernelConstruction*)) {
  tensorflow::KernelDefBuilder builder(op);
  builder.Device("GPU").TypeConstraint<T>("T").Priority(kOwnKernel);
  if (host_reserved) builder.HostMemory("host_reserved");
  if (lengths) builder.HostMemory("sequence_lengths");
  tensorflow::kernel_factory::OpKernelRegistrar(builder.Build(), "HostRnn [simulated]", make);
}

template <typename T>
void RegisterType() {
  RegisterOperation<T>("CudnnRNN", false, false, Make<RnnForward<T>>);
  RegisterOperation<T>("CudnnRNNV2", true, false, Make<RnnForward<T>>);
  RegisterOperation<T>("CudnnRNNV3", true, true, Make<RnnForward<T>>);
  RegisterOperation<T>("CudnnRNNBackprop", false, false, Make<RnnBackward<T>>);
  RegisterOperation<T>("CudnnRNNBackpropV2", true, false, Make<RnnBackward<T>>);
  RegisterOperation<T>("CudnnRNNBackpropV3", true, true, Make<RnnBackward<T>>);
}

}  // namespace

void RegisterHostRnn() {
  RegisterType<float>();
  RegisterType<double>();
  RegisterType<Eigen::half>();
  RegisterType<tensorflow::bfloat16>();
}

}  // namespace gpuconf
