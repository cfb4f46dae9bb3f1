#!/usr/bin/env python3
"""Averages slow weights: average.py MODEL OUT WEIGHT:FILE...

FILE is a model in bfloat16 or a checkpoint of training, both as safetensors. OUT is a copy of MODEL
with the weighted average of the files' slow weights, in bfloat16.
"""
import array
import json
import os
import struct
import sys


def load(path):
    """Returns the header's bytes, the tensors' descriptions and their bytes."""
    with open(path, "rb") as file:
        head = file.read(8)
        head += file.read(struct.unpack("<Q", head)[0])
        tensors = json.loads(head[8:])
        tensors.pop("__metadata__", None)
        return head, tensors, bytearray(file.read())


def slow_names(tensors):
    """Returns the names of the slow weights, in the order of a checkpoint's tensor `slow`."""
    layer = ["dec_attn.qkv_net.weight", "dec_attn.r_net.weight", "dec_attn.o_net.weight",
             "dec_attn.layer_norm.weight", "dec_attn.layer_norm.bias", "pos_ff.CoreNet.0.weight",
             "pos_ff.CoreNet.0.bias", "pos_ff.CoreNet.3.weight", "pos_ff.CoreNet.3.bias",
             "pos_ff.layer_norm.weight", "pos_ff.layer_norm.bias"]
    layers = 0
    while f"layers.{layers}.dec_attn.qkv_net.weight" in tensors:
        layers += 1
    return (["word_emb.emb_layers.0.weight", "r_w_bias", "r_r_bias"] +
            [f"layers.{n}.{name}" for n in range(layers) for name in layer] +
            ["crit.out_layers.0.bias"])


def check_type(path, tensors, name):
    if tensors[name]["dtype"] != "BF16":
        sys.exit(f"{path}: tensor {name} has the type {tensors[name]['dtype']}, expected BF16")


def slow_weights(path):
    """Returns the slow weights of a model or of a checkpoint."""
    _, tensors, data = load(path)
    weights = array.array("f")
    if "slow" in tensors:
        start, end = tensors["slow"]["data_offsets"]
        weights.frombytes(data[start:end])
        return weights
    for name in slow_names(tensors):
        check_type(path, tensors, name)
        start, end = tensors[name]["data_offsets"]
        wide = bytearray(2 * (end - start))
        wide[2::4], wide[3::4] = data[start:end:2], data[start + 1:end:2]
        weights.frombytes(wide)
    return weights


def main():
    model, out, files = sys.argv[1], sys.argv[2], sys.argv[3:]
    mean, total = None, 0.0
    for share, path in (file.split(":", 1) for file in files):
        weights, share = slow_weights(path), float(share)
        mean = mean or array.array("d", bytes(8 * len(weights)))
        mean = array.array("d", (m + share * w for m, w in zip(mean, weights, strict=True)))
        total += share
    bits = array.array("I", array.array("f", (m / total for m in mean)).tobytes())
    narrow = array.array("H", ((b + 0x7FFF + (b >> 16 & 1)) >> 16 for b in bits)).tobytes()
    head, tensors, data = load(model)
    taken = 0
    for name in slow_names(tensors):
        check_type(model, tensors, name)
        start, end = tensors[name]["data_offsets"]
        data[start:end] = narrow[taken:taken + end - start]
        taken += end - start
    if taken != len(narrow):
        sys.exit(f"{model}: {taken // 2} slow weights, expected {len(narrow) // 2}")
    with open(out + ".part", "wb") as file:
        file.write(head + data)
    os.replace(out + ".part", out)


if __name__ == "__main__":
    main()
