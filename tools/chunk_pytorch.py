#!/usr/bin/env python3
"""Time forward and backward of a chunk with PyTorch, to compare with `lmserve bench --only chunks`.

The model is pretrain.py's with random weights. The gradients are those of the weights that
`lmserve bench --config` adapts: the paper's branches. The configuration is a JSON file like
lmserve's (txl.Config); the default is enwik8-12l, the paper's model of 41 M weights.

    python3 tools/chunk_pytorch.py --threads 2

The BLAS library's own variables (OPENBLAS_NUM_THREADS, OMP_NUM_THREADS) set the threads of matrix
products.
"""

import argparse
import json
import statistics
import time

import torch

import pretrain

PAPER_MODEL = {"vocab": 256, "n_layer": 12, "d_model": 512, "n_head": 8, "d_head": 64, "d_inner": 2048, "mem_len": 512}
PAPER_BRANCHES = ("qkv_net.weight", "r_net.weight", "o_net.weight", "CoreNet.0.weight", "word_emb")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--config", help="JSON file of a configuration (default: the paper's model)")
    p.add_argument("--chunk", type=int, default=128, help="tokens of a chunk")
    p.add_argument("--threads", type=int, default=1, help="threads of PyTorch's own")
    p.add_argument("--seconds", type=float, default=8, help="how long to measure")
    a = p.parse_args()
    c = json.load(open(a.config)) if a.config else PAPER_MODEL
    torch.set_num_threads(a.threads)

    model = pretrain.TransformerXL(c, pretrain.init(c, "cpu", 1))
    for name, w in zip(model.names, model.w):
        w.requires_grad_(any(part in name for part in PAPER_BRANCHES))
    memory = torch.randn(c["n_layer"], 1, c["mem_len"], c["d_model"])
    x, y = (torch.randint(0, c["vocab"], (1, a.chunk)) for _ in range(2))

    def chunk():
        model.zero_grad(set_to_none=True)
        begun = time.perf_counter()
        model(x, y, memory)[0].backward()
        return time.perf_counter() - begun

    chunk()
    took, end = [], time.perf_counter() + a.seconds
    while time.perf_counter() < end:
        took.append(chunk())
    print(f"PyTorch {torch.__version__}, threads {a.threads}: forward and backward of {a.chunk} tokens,",
          f"median {statistics.median(took) * 1e3:.0f} ms, best {min(took) * 1e3:.0f} ms of {len(took)}")


if __name__ == "__main__":
    main()
