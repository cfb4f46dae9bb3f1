#!/usr/bin/env python3
"""Pretrain the slow weights of a byte-level Transformer-XL with PyTorch, for machines with a GPU.

    python3 tools/pretrain.py --config CONFIG.json --data DIR --valid DIR \\
        --out static.safetensors --minutes 25

The program writes a model without meta-learners. `lmserve train --phase meta
--init static.safetensors` continues from it, and `lmserve score` and `lmserve eval` read it.
`lmserve train --phase pretrain` does the same work without PyTorch. The configuration is lmserve's
(txl.Config); tensors have the names of the reference PyTorch state dict.

The text is read as lmserve reads it. Every file is a document. Documents are cut into spans of 64
segments. Each epoch deals the spans in a new order to the lanes of a batch. A lane keeps its memory
from segment to segment. With --check FILE the model in FILE scores the validation text, and nothing
is trained.
"""

import argparse
import json
import math
import os
import random
import struct
import time

import torch
import torch.nn.functional as F

SPAN_SEGMENTS = 64
START = 10  # the token before a document's first: a newline


# ---- files ---------------------------------------------------------------------------------------

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def read_safetensors(path):
    """Returns metadata and tensors (float32) of an uncompressed safetensors file."""
    with open(path, "rb") as f:
        data = f.read()
    (n,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + n]), memoryview(data)[8 + n :]
    meta = header.pop("__metadata__", {})
    tensors = {}
    for name, t in header.items():
        lo, hi = t["data_offsets"]
        tensors[name] = torch.frombuffer(bytearray(body[lo:hi]), dtype=DTYPES[t["dtype"]]).reshape(t["shape"]).float()
    return meta, tensors


def write_safetensors(path, meta, tensors):
    header, at, parts = {"__metadata__": meta}, 0, []
    for name, t in tensors.items():
        raw = t.detach().float().cpu().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        parts.append(raw)
        at += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".tmp", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for raw in parts:
            f.write(raw)
    os.replace(path + ".tmp", path)


def documents(folder, hold_out=(), limit=None):
    """Returns the texts below a folder in order of their paths, each cut off after limit bytes. It
    leaves out held-out domains; a domain is a folder at the top."""
    found = []
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            domain = os.path.relpath(path, folder).split(os.sep)[0]
            if domain not in hold_out and os.path.getsize(path) > 0:
                found.append(path)
    return [torch.frombuffer(bytearray(open(p, "rb").read()[:limit]), dtype=torch.uint8) for p in sorted(found)]


class Lanes:
    """A corpus read as a batch of endless streams, one per lane."""

    def __init__(self, docs, batch, seg, seed):
        self.rng, self.seg = random.Random(seed), seg
        length, self.spans = SPAN_SEGMENTS * seg, []
        for doc in docs:
            parts = max(1, round(len(doc) / length))
            for i in range(parts):
                lo, hi = len(doc) * i // parts, len(doc) * (i + 1) // parts
                before = doc[lo - 1 : lo] if lo else torch.tensor([START], dtype=torch.uint8)
                self.spans.append(torch.cat([before, doc[lo:hi]]))
        self.queue, self.epoch = [], 0
        self.rest = [(self.take(), 0) for _ in range(batch)]

    def take(self):
        if not self.queue:
            self.queue = list(range(len(self.spans)))
            self.rng.shuffle(self.queue)
            self.epoch += 1
        return self.spans[self.queue.pop()]

    def next(self):
        """Returns the next inputs and targets of every lane, [batch, seg]."""
        xs, ys = [], []
        for b, (span, at) in enumerate(self.rest):
            x, y, need = [], [], self.seg
            while need:
                if at + 1 >= len(span):
                    span, at = self.take(), 0
                n = min(need, len(span) - 1 - at)
                x.append(span[at : at + n])
                y.append(span[at + 1 : at + 1 + n])
                at, need = at + n, need - n
            self.rest[b] = (span, at)
            xs.append(torch.cat(x))
            ys.append(torch.cat(y))
        return torch.stack(xs).long(), torch.stack(ys).long()


# ---- model ---------------------------------------------------------------------------------------


def shapes(c):
    """Returns names and shapes of the weights, in lmserve's order."""
    d, hd = c["d_model"], c["n_head"] * c["d_head"]
    gates = 2 if c.get("activation", "relu") in ("swiglu", "geglu") else 1
    yield "word_emb.emb_layers.0.weight", (c["vocab"], d)
    yield "r_w_bias", (c["n_head"], c["d_head"])
    yield "r_r_bias", (c["n_head"], c["d_head"])
    for i in range(c["n_layer"]):
        a, f = f"layers.{i}.dec_attn.", f"layers.{i}.pos_ff."
        yield a + "qkv_net.weight", (3 * hd, d)
        yield a + "r_net.weight", (hd, d)
        yield a + "o_net.weight", (d, hd)
        yield a + "layer_norm.weight", (d,)
        yield a + "layer_norm.bias", (d,)
        yield f + "CoreNet.0.weight", (gates * c["d_inner"], d)
        yield f + "CoreNet.0.bias", (gates * c["d_inner"],)
        yield f + "CoreNet.3.weight", (d, c["d_inner"])
        yield f + "CoreNet.3.bias", (d,)
        yield f + "layer_norm.weight", (d,)
        yield f + "layer_norm.bias", (d,)
    yield "crit.out_layers.0.bias", (c["vocab"],)


def init(c, device, seed):
    g = torch.Generator().manual_seed(seed)
    w = {}
    for name, shape in shapes(c):
        if len(shape) == 2:
            t = torch.randn(shape, generator=g) * 0.02
        else:
            t = torch.ones(shape) if name.endswith("layer_norm.weight") else torch.zeros(shape)
        w[name] = t.to(device).requires_grad_()
    return w


class TransformerXL(torch.nn.Module):
    def __init__(self, c, w, dropout=0.0):
        super().__init__()
        self.c, self.dropout = c, dropout
        self.names = list(w)
        self.w = torch.nn.ParameterList([torch.nn.Parameter(t.detach()) for t in w.values()])

    def weights(self):
        return dict(zip(self.names, self.w))

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training) if self.dropout else x

    def norm(self, x, w, name):
        return F.layer_norm(x, x.shape[-1:], w[name + "layer_norm.weight"], w[name + "layer_norm.bias"], 1e-5)

    def attend(self, w, i, h, mem, pos, mask):
        c, a = self.c, f"layers.{i}.dec_attn."
        H, d = c["n_head"], c["d_head"]
        B, T, _ = h.shape
        both = torch.cat([mem, h], 1)
        if c.get("pre_lnorm"):
            both = self.norm(both, w, a)
        K = both.shape[1]
        q, kv = w[a + "qkv_net.weight"].split([H * d, 2 * H * d])
        q = F.linear(both[:, -T:], q).view(B, T, H, d)
        k, v = F.linear(both, kv).view(B, K, 2, H, d).unbind(2)
        r = F.linear(pos, w[a + "r_net.weight"]).view(K, H, d)  # distances K-1 ... 0
        content = torch.einsum("bihd,bjhd->bhij", q + w["r_w_bias"], k)
        position = torch.einsum("bihd,jhd->bhij", q + w["r_r_bias"], r)
        # Row i is shifted left by T-1-i, so that column j holds distance i + (K-T) - j.
        position = F.pad(position, (1, 0)).view(B, H, K + 1, T)[:, :, 1:].reshape(B, H, T, K)
        score = ((content + position) / math.sqrt(d)).float().masked_fill(mask, float("-inf"))
        p = self.drop(score.softmax(-1).to(v.dtype))
        o = torch.einsum("bhij,bjhd->bihd", p, v).reshape(B, T, H * d)
        out = h + self.drop(F.linear(o, w[a + "o_net.weight"]))
        return out if c.get("pre_lnorm") else self.norm(out, w, a)

    def feed_forward(self, w, i, h):
        c, f = self.c, f"layers.{i}.pos_ff."
        x = self.norm(h, w, f) if c.get("pre_lnorm") else h
        x = F.linear(x, w[f + "CoreNet.0.weight"], w[f + "CoreNet.0.bias"])
        act = c.get("activation", "relu")
        if act in ("swiglu", "geglu"):
            gate, value = x.chunk(2, -1)
            x = (F.silu(gate) if act == "swiglu" else F.gelu(gate)) * value
        else:
            x = F.relu(x) if act == "relu" else F.gelu(x)
        x = F.linear(self.drop(x), w[f + "CoreNet.3.weight"], w[f + "CoreNet.3.bias"])
        out = h + self.drop(x)
        return out if c.get("pre_lnorm") else self.norm(out, w, f)

    def forward(self, x, y, mem):
        """Returns the mean loss in nats and the new memory, [layers, batch, mem_len, d_model].

        The given memory mem may have fewer rows than mem_len."""
        c, w = self.c, self.weights()
        T, m = x.shape[1], mem.shape[2]
        K = T + m
        far = torch.arange(K - 1, -1, -1, device=x.device, dtype=torch.float32)
        if c.get("clamp_len", 0) > 0:
            far = far.clamp(max=c["clamp_len"])
        freq = 1 / 10000 ** (torch.arange(0, c["d_model"], 2, device=x.device).float() / c["d_model"])
        pos = far[:, None] * freq[None]
        pos = self.drop(torch.cat([pos.sin(), pos.cos()], -1))
        i, j = torch.arange(T, device=x.device)[:, None], torch.arange(K, device=x.device)[None]
        mask = j > i + m
        if c.get("same_length"):
            mask = mask | (j <= i + m - c["mem_len"])
        emb = w["word_emb.emb_layers.0.weight"]
        h = self.drop(F.embedding(x, emb) * math.sqrt(c["d_model"]))
        kept = []
        for i in range(c["n_layer"]):
            kept.append(torch.cat([mem[i], h.to(mem.dtype)], 1)[:, -c["mem_len"] :].detach() if c["mem_len"] else mem[i])
            h = self.attend(w, i, h, mem[i].to(h.dtype), pos.to(h.dtype), mask)
            h = self.feed_forward(w, i, h)
        logits = F.linear(self.drop(h), emb, w["crit.out_layers.0.bias"])
        return F.cross_entropy(logits.float().flatten(0, 1), y.flatten()), torch.stack(kept)


# ---- optimizer -----------------------------------------------------------------------------------


def orthogonal(x):
    """Makes a batch of matrices nearly orthogonal: five rounds of the Newton-Schulz iteration of
    Muon (Jordan et al. 2024)."""
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-12)
    wide = x.shape[-2] <= x.shape[-1]
    x = x if wide else x.mT
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x if wide else x.mT


class Muon:
    """The optimizer of internal/learning/train/optim/muon.go: Muon for the matrices of the layers, Adam for
    all other weights, at one learning rate. Matrices of one shape step together."""

    def __init__(self, named, decay):
        self.decay, self.groups, rest = decay, {}, []
        for name, w in named.items():
            if w.dim() == 2 and name.endswith(".weight") and not name.startswith("word_emb"):
                parts = 3 if "qkv_net" in name else 1  # separate maps for queries, keys and values
                self.groups.setdefault((w.shape[0] // parts, w.shape[1]), []).append((w, parts))
            else:
                rest.append(w)
        self.adam = torch.optim.Adam(rest, betas=(0.9, 0.999), eps=1e-8, foreach=True)
        self.momentum = {}

    @torch.no_grad()
    def step(self, rate):
        for shape, members in self.groups.items():
            g = torch.cat([w.grad.float().view(parts, *shape) for w, parts in members])
            m = self.momentum.setdefault(shape, torch.zeros_like(g))
            m.mul_(0.95).add_(g, alpha=0.05)
            u = 0.95 * m + 0.05 * g
            u = orthogonal(u.bfloat16() if g.is_cuda else u).float() * (0.2 * math.sqrt(max(shape)))
            for (w, parts), part in zip(members, u.split([parts for _, parts in members])):
                w.mul_(1 - rate * self.decay).add_(part.reshape(w.shape), alpha=-rate)
                w.grad = None
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)


# ---- the run -------------------------------------------------------------------------------------


@torch.no_grad()
def validate(model, docs, seg, device, autocast):
    """Returns the bits per byte of the documents, read in parallel as separate streams."""
    model.eval()
    c, nats, count = model.c, 0.0, 0
    longest = max(len(d) for d in docs)
    mem = torch.zeros(c["n_layer"], len(docs), 0, c["d_model"], device=device)
    padded = torch.full((len(docs), longest + 1), START, dtype=torch.long)
    for b, d in enumerate(docs):
        padded[b, 1 : len(d) + 1] = d.long()
    padded = padded.to(device)
    size = torch.tensor([len(d) for d in docs], device=device)
    for at in range(0, longest, seg):
        x, y = padded[:, at : at + seg], padded[:, at + 1 : at + 1 + seg]
        x = x[:, : y.shape[1]]
        live = at + torch.arange(y.shape[1], device=device)[None] < size[:, None]
        with autocast():
            loss, mem = model(x, y.masked_fill(~live, -100), mem)
        n = int(live.sum())
        nats, count = nats + float(loss) * n, count + n
    model.train()
    return nats / count / math.log(2)


def rate_at(done, peak, final, warmup, stable):
    """Returns the learning rate: a warm-up, a plateau and a linear decay. done is the fraction of the
    run that is over; the other parts are fractions, too."""
    if done < warmup:
        return peak * (done + 1e-3 * warmup) / warmup
    if done < stable:
        return peak
    return peak * (1 - (1 - final) * (done - stable) / (1 - stable))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--config", help="JSON file of the configuration")
    a.add_argument("--init", help="safetensors file to go on from, instead of a configuration")
    a.add_argument("--check", help="safetensors file to score the validation text with; nothing is trained")
    a.add_argument("--data")
    a.add_argument("--valid", required=True)
    a.add_argument("--valid-bytes", type=int, default=16384, help="of each document")
    a.add_argument("--hold-out", default="", help="domains kept out, with commas")
    a.add_argument("--out")
    a.add_argument("--name", default="model")
    a.add_argument("--minutes", type=float, default=25)
    a.add_argument("--batch", type=int, default=64)
    a.add_argument("--segment", type=int, default=0, help="tokens a lane and step (default: seg_len)")
    a.add_argument("--lr", type=float, default=4e-3)
    a.add_argument("--decay", type=float, default=0.0)
    a.add_argument("--dropout", type=float, default=0.0)
    a.add_argument("--warmup", type=float, default=0.02, help="part of the run")
    a.add_argument("--stable", type=float, default=0.4, help="part of the run after which the rate falls")
    a.add_argument("--clip", type=float, default=1.0)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--every", type=float, default=60, help="seconds between validations")
    o = a.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    autocast = lambda: torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda")
    start = o.check or o.init
    if start:
        meta, weights = read_safetensors(start)
        c = json.loads(meta["lmserve.config"])
        weights = {name: weights[name].to(device) for name, _ in shapes(c)}
    else:
        c = json.load(open(o.config))
        weights = init(c, device, o.seed)
    model = TransformerXL(c, weights, o.dropout)
    seg = o.segment or c["seg_len"]
    valid = documents(o.valid, limit=o.valid_bytes)
    if o.check:
        print(f"valid bits/byte {validate(model, valid, seg, device, autocast):.5f}")
        return

    docs = documents(o.data, o.hold_out.split(","))
    lanes = Lanes(docs, o.batch, seg, o.seed)
    run = torch.compile(model, dynamic=False) if device == "cuda" else model
    opt = Muon(model.weights(), o.decay)
    meta = {
        "lmserve.name": o.name,
        "lmserve.config": json.dumps(c),
        "lmserve.tokenizer": '{"kind":"bytes"}',
        "lmserve.adapt": json.dumps({"chunk": 128}),
    }
    print(f"{sum(t.numel() for t in model.w)} weights, {sum(len(d) for d in docs)} bytes in {len(docs)} files, {device}", flush=True)
    mem = torch.zeros(c["n_layer"], o.batch, c["mem_len"], c["d_model"], device=device, dtype=torch.bfloat16 if device == "cuda" else torch.float32)
    began, looked, step, mean, tokens = time.time(), time.time(), 0, None, 0
    while True:
        done = (time.time() - began) / 60 / o.minutes
        if done >= 1 or time.time() - looked > o.every:
            looked = time.time()
            v = validate(model, valid, seg, device, autocast)
            best = {"pretrain": {"tool": "tools/pretrain.py", "steps": step, "tokens": tokens, "valid_bpc": v, "options": vars(o)}}
            write_safetensors(o.out, {**meta, "lmserve.card": json.dumps(best)}, model.weights())
            if mean is not None:
                print(f"{done:6.1%} step {step} tokens {tokens} epoch {lanes.epoch} train {float(mean) / math.log(2):.4f} valid {v:.4f} "
                      f"tokens/s {tokens / (time.time() - began):.0f}", flush=True)
        if done >= 1:
            return
        x, y = lanes.next()
        with autocast():
            loss, mem = run(x.to(device, non_blocking=True), y.to(device, non_blocking=True), mem)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), o.clip)
        opt.step(rate_at(done, o.lr, 0.02, o.warmup, o.stable))
        mean = loss.detach() if mean is None else mean + 0.02 * (loss.detach() - mean)
        step, tokens = step + 1, tokens + x.numel()


if __name__ == "__main__":
    main()
