# SPDX-License-Identifier: Apache-2.0
"""A PyTorch loop that marks its steps and their parts:

    triplepoint record -- torchrun --nproc-per-node 8 pytorch_loop.py

Without `triplepoint record` the marks do nothing. See docs/measure/recording.md.
"""
import os

import triplepoint

try:
    import torch
except ImportError:  # the loop itself needs nothing of it
    torch = None


def finish_gpu_work():
    """Python runs ahead of the GPU; a step that is measured ends when its kernels have ended."""
    if torch is not None and torch.cuda.is_available() and triplepoint.marking():
        torch.cuda.synchronize()


def train(model, optimizer, batches, tokens_per_batch):
    for number, batch in enumerate(batches):
        with triplepoint.step(number):
            optimizer.zero_grad()
            with triplepoint.region("forward"):
                loss = model(batch)
            with triplepoint.region("backward"):
                loss.backward()
            with triplepoint.region("optimizer"):
                optimizer.step()
            finish_gpu_work()
            triplepoint.value("tokens", tokens_per_batch)  # this rank's; those of all ranks are added up
            triplepoint.value("loss", loss.item())


def main():
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"
    if world_size > 1:
        torch.distributed.init_process_group("nccl" if device != "cpu" else "gloo")
    torch.manual_seed(rank)
    layers = [torch.nn.Embedding(1000, 256), torch.nn.TransformerEncoderLayer(256, 8, batch_first=True),
              torch.nn.Linear(256, 1000)]
    network = torch.nn.Sequential(*layers).to(device)
    if world_size > 1:
        network = torch.nn.parallel.DistributedDataParallel(network)

    def loss_of(tokens):
        return torch.nn.functional.cross_entropy(network(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    batches = (torch.randint(1000, (8, 129), device=device) for _ in range(20))
    train(loss_of, torch.optim.AdamW(network.parameters()), batches, 8 * 128)


if __name__ == "__main__":
    main()
