"""Ray Train with PyTorch: two workers on one GPU, each limited to 0.4 of its memory.

python train_torch.py

NCCL refuses two workers on one GPU ("Duplicate GPU detected"), so they exchange by gloo.
"""

import ray
import torch
from ray.train import ScalingConfig, get_context, report
from ray.train.torch import TorchConfig, TorchTrainer, get_device


def train():
    device = get_device()
    x = torch.rand(1024, 8, device=device)
    layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = (model(x).squeeze() - x.sum(1)).square().mean()
        loss.backward()
        optimizer.step()

    total = torch.cuda.get_device_properties(device).total_memory
    limit = torch.cuda.get_per_process_memory_fraction(device) * total
    print(f"worker {get_context().get_world_rank()}: limit {limit / 2**20:.0f} MiB")
    report({"loss": loss.item()})


ray.init(runtime_env={"worker_process_setup_hook": "gpuconf.ray.setup"})
trainer = TorchTrainer(
    train,
    torch_config=TorchConfig(backend="gloo"),
    scaling_config=ScalingConfig(
        num_workers=2, use_gpu=True, resources_per_worker={"GPU": 0.4, "CPU": 0.5}
    ),
)
trainer.fit()
