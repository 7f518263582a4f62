#!/usr/bin/env python3
"""Train andrea-nano, a 3.4 million parameter byte language model, on a CPU.

The text is the King James Bible as printed by the `bible` program (Debian
packages bible-kjv and bible-kjv-text).  See README.md for the commands.

Everything is in this one file: text preparation, model, optimizer, training
loop with checkpoints, evaluation, the safetensors writer, the loss curve and
the reference outputs that the C tests compare against.
"""

import argparse
import json
import math
import os
import re
import struct
import subprocess
import time

import numpy as np
import torch
import torch.nn.functional as F

VOCAB = 257          # the 256 byte values and one start token
START = 256
D = 256
HEADS = 8
LAYERS = 4
MLP = 1024
CONTEXT = 512
EPS = 1e-5
HOLD_EVERY = 20      # chapters 20, 40, 60, ... of the book order are held back


# ---------------------------------------------------------------- text

def chapters():
    """The chapters in book order, each as bytes: one verse per line and an
    empty line at the end.  The printed verse names ("Ge1:1 ") are removed;
    they only serve to find the chapter boundaries."""
    printed = subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], check=True,
                             capture_output=True).stdout.decode("ascii")
    result, name = [], None
    for line in printed.splitlines():
        chapter, verse = re.fullmatch(r"(\w+):\d+ +(.*\S)\s*", line).groups()
        if chapter != name:
            result.append([])
            name = chapter
        result[-1].append(verse)
    assert len(result) == 1189, "unexpected number of chapters"
    return [("\n".join(verses) + "\n\n").encode("ascii") for verses in result]


def split(all_chapters):
    train = [c for i, c in enumerate(all_chapters, 1) if i % HOLD_EVERY]
    held = [c for i, c in enumerate(all_chapters, 1) if i % HOLD_EVERY == 0]
    return train, held


class Windows:
    """Training windows.  Most are consecutive bytes of the joined training
    chapters, cut at a fresh random shift for every pass; one in eight is the
    beginning of a chapter behind the start token.  The order depends only on
    the seed and on how many windows were taken, so that a resumed run goes on
    where it stopped."""

    def __init__(self, train_chapters, seed, taken=None):
        self.stream = np.frombuffer(b"".join(train_chapters), np.uint8)
        self.starts, at = [], 0
        for c in train_chapters:
            self.starts.append(at)
            at += len(c)
        self.seed = seed
        self.taken = taken or {}
        self.orders = {}

    def _next(self, kind, make_order):
        k = self.taken.get(kind, 0)
        self.taken[kind] = k + 1
        if kind not in self.orders or k >= self.orders[kind][1]:
            # Replay the passes up to k; cheap, and needed only after a resume.
            first, epoch = self.orders[kind][1:] if kind in self.orders else (0, 0)
            while True:
                rng = np.random.default_rng(
                    [self.seed, epoch, *kind.encode()])
                order = make_order(rng)
                epoch += 1
                if k < first + len(order):
                    break
                first += len(order)
            self.orders[kind] = (order, first + len(order), epoch)
        order, end, _ = self.orders[kind]
        return int(order[k - (end - len(order))])

    def batch(self, size, t):
        ids = np.empty((size, t + 1), np.int64)
        offset = np.zeros(size, np.int64)
        n = len(self.stream)

        def stream_order(rng):
            return rng.permutation(np.arange(rng.integers(t), n - t - 1, t))

        rng = np.random.default_rng([self.seed, *self.taken.values(), t])
        for row in range(size):
            if row < size // 8:
                at = self._next("chapter", lambda r: r.permutation(self.starts))
                ids[row, 0] = START
                part = self.stream[at:at + t]
                if len(part) < t:      # the last chapter may be short
                    part = self.stream[n - t:]
                    ids[row, 0] = self.stream[n - t - 1]
                ids[row, 1:] = part
            else:
                at = self._next(f"stream{t}", stream_order)
                ids[row] = self.stream[at:at + t + 1]
                # Short windows sit at random positions, so that the early
                # cheap part of the run trains the whole position table.
                offset[row] = rng.integers(CONTEXT - t + 1)
        ids = torch.from_numpy(ids)
        pos = torch.from_numpy(offset)[:, None] + torch.arange(t)
        return ids[:, :-1], ids[:, 1:], pos


# ---------------------------------------------------------------- model

def shapes():
    s = {"wte": (VOCAB, D), "wpe": (CONTEXT, D), "head": (VOCAB, D)}
    for i in range(LAYERS):
        for w in ("wq", "wk", "wv", "wo"):
            s[f"h.{i}.{w}"] = (D, D)
        s[f"h.{i}.fc1"] = (MLP, D)
        s[f"h.{i}.fc2"] = (D, MLP)
    return s


def initial(seed):
    g = torch.Generator().manual_seed(seed)
    p = {}
    for name, shape in shapes().items():
        if name in ("wte", "wpe"):
            w = torch.randn(shape, generator=g) * (0.1 if name == "wte" else 0.02)
        elif name == "head" or name.endswith((".wo", ".fc2")):
            # Every branch starts as the identity, every guess as uniform.
            w = torch.zeros(shape)
        else:
            w = torch.randn(shape, generator=g) * (0.6 / math.sqrt(shape[1]))
        p[name] = w
    return p


def forward(p, ids, pos, dtype=torch.bfloat16, drop=0.0):
    """Fast forward pass for training: matrix products in `dtype`."""
    b, t = ids.shape
    x = F.embedding(ids, p["wte"]) + F.embedding(pos, p["wpe"])
    if drop:
        x = F.dropout(x, drop)
    for i in range(LAYERS):
        h = F.layer_norm(x, (D,), eps=EPS).to(dtype)
        wqkv = torch.cat([p[f"h.{i}.{w}"] for w in ("wq", "wk", "wv")]).to(dtype)
        q, k, v = F.linear(h, wqkv).view(b, t, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        a = F.linear(a.transpose(1, 2).reshape(b, t, D), p[f"h.{i}.wo"].to(dtype))
        if drop:
            a = F.dropout(a, drop)
        x = x + a
        h = F.layer_norm(x, (D,), eps=EPS).to(dtype)
        h = F.gelu(F.linear(h, p[f"h.{i}.fc1"].to(dtype)), approximate="tanh")
        h = F.linear(h, p[f"h.{i}.fc2"].to(dtype))
        if drop:
            h = F.dropout(h, drop)
        x = x + h
    h = F.layer_norm(x, (D,), eps=EPS).to(dtype)
    return F.linear(h, p["head"].to(dtype)).float()


def forward_plain(p, ids):
    """The model written out in 32-bit floats; used for every published number
    and for the reference outputs.  ids: [batch, t], positions from 0."""
    b, t = ids.shape
    hd = D // HEADS

    def ln(x):
        c = x - x.mean(-1, keepdim=True)
        return c / torch.sqrt((c * c).mean(-1, keepdim=True) + EPS)

    x = p["wte"][ids] + p["wpe"][:t]
    mask = torch.full((t, t), float("-inf")).triu(1)
    for i in range(LAYERS):
        h = ln(x)
        q, k, v = ((h @ p[f"h.{i}.{w}"].T).view(b, t, HEADS, hd).transpose(1, 2)
                   for w in ("wq", "wk", "wv"))
        s = q @ k.transpose(2, 3) / math.sqrt(hd) + mask
        a = torch.softmax(s, -1) @ v
        x = x + a.transpose(1, 2).reshape(b, t, D) @ p[f"h.{i}.wo"].T
        h = F.gelu(ln(x) @ p[f"h.{i}.fc1"].T, approximate="tanh")
        x = x + h @ p[f"h.{i}.fc2"].T
    return ln(x) @ p["head"].T


def rounded(p):
    """The weights as the file stores them (bfloat16), widened again."""
    return {n: w.detach().bfloat16().float() for n, w in p.items()}


@torch.no_grad()
def evaluate(p, held, stride):
    """Mean loss in nats per byte over whole chapters.  Each chapter is read
    behind a start token in windows of 512 tokens.  The first window counts
    all its bytes; every later one moves on by `stride` and counts only the
    bytes not counted before, so those see at least 512 - stride tokens.
    Every byte counts once."""
    xs, ys, todo = [], [], 0
    for c in held:
        ids = np.concatenate([[START], np.frombuffer(c, np.uint8)]).astype(np.int64)
        n, done, at = len(c), 0, 0          # target i is ids[i + 1]
        while done < n:
            end = min(at + CONTEXT, n)
            x = np.zeros(CONTEXT, np.int64)
            y = np.full(CONTEXT, -100, np.int64)
            x[:end - at] = ids[at:end]
            y[done - at:end - at] = ids[done + 1:end + 1]
            xs.append(x)
            ys.append(y)
            todo += end - done
            done, at = end, at + stride
    total = 0.0
    for i in range(0, len(xs), 16):
        x, y = (torch.from_numpy(np.stack(z[i:i + 16])) for z in (xs, ys))
        total += F.cross_entropy(forward_plain(p, x).flatten(0, 1), y.flatten(),
                                 reduction="sum").item()
    assert todo == sum(map(len, held))
    return total / todo


# ---------------------------------------------------------------- optimizer

def orthogonal(g):
    """Newton-Schulz iteration of Muon for a stack of matrices [n, r, c]."""
    flip = g.shape[1] > g.shape[2]
    x = g.transpose(1, 2) if flip else g
    x = (x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)).bfloat16()
    for _ in range(5):
        a = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return (x.transpose(1, 2) if flip else x).float()


class Muon:
    """Muon for the matrices inside the layers."""

    def __init__(self, params, decay):
        self.groups = {}
        for w in params:
            self.groups.setdefault(tuple(w.shape), []).append(w)
        self.momentum = {s: torch.zeros(len(ws), *s) for s, ws in self.groups.items()}
        self.decay = decay

    @torch.no_grad()
    def step(self, lr, beta=0.95):
        for shape, ws in self.groups.items():
            g = torch.stack([w.grad for w in ws])
            m = self.momentum[shape].lerp_(g, 1 - beta)
            u = orthogonal(g.lerp(m, beta))
            size = lr * math.sqrt(max(1.0, shape[0] / shape[1]))
            for w, d in zip(ws, u):
                w.mul_(1 - lr * self.decay).sub_(d, alpha=size)


# ---------------------------------------------------------------- files

def write_safetensors(path, p):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, w in p.items():
        header[name] = {"dtype": "BF16", "shape": list(w.shape),
                        "data_offsets": [at, at + 2 * w.numel()]}
        at += 2 * w.numel()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for w in p.values():
            f.write(w.detach().bfloat16().contiguous().view(torch.int16).numpy().tobytes())


def read_safetensors(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    p = {}
    for name, info in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            a, b = info["data_offsets"]
            raw = np.frombuffer(data[8 + n + a:8 + n + b], np.int16).copy()
            p[name] = torch.from_numpy(raw).view(torch.bfloat16).view(info["shape"]).float()
    return p


@torch.no_grad()
def reference(p, held):
    """Prompts, logits and a greedy continuation for the tests of the C code.
    p: the rounded weights."""
    long = next(c for c in held if len(c) > 400)
    prompts = [b"", b"In the beginning God created the heaven", long[:299]]
    files = {}
    for i, text in enumerate(prompts):
        ids = np.array([START, *text], np.int32)
        logits = forward_plain(p, torch.from_numpy(ids).long()[None])[0]
        files[f"prompt_{i}.npy"] = ids
        files[f"logits_{i}.npy"] = logits.numpy().astype(np.float32)
    ids, gaps = files["prompt_1.npy"].tolist(), []
    start = len(ids)
    for _ in range(100):
        top = forward_plain(p, torch.tensor([ids]))[0, -1].topk(2)
        ids.append(int(top.indices[0]))
        # A test may accept another token where the gap is within rounding.
        gaps.append(float(top.values[0] - top.values[1]))
    files["greedy.npy"] = np.array(ids[start:], np.int32)
    files["greedy_gaps.npy"] = np.array(gaps, np.float32)
    return files


def export(out, p, held, weights=True):
    """Weights and references belong together: write all, then rename all."""
    os.makedirs(out, exist_ok=True)
    names = []
    if weights:
        names.append("model.safetensors")
        write_safetensors(os.path.join(out, "model.safetensors.new"), p)
    for name, array in reference(rounded(p), held).items():
        with open(os.path.join(out, name + ".new"), "wb") as f:
            np.save(f, array)
        names.append(name)
    for name in names:
        os.replace(os.path.join(out, name + ".new"), os.path.join(out, name))


def write_curve(out, log):
    """curve.csv and a plain curve.svg from the log of the run."""
    rows = [r for r in log if "held" in r]
    with open(os.path.join(out, "curve.csv"), "w") as f:
        f.write("step,minutes,window,train_loss,held_loss\n")
        for r in rows:
            f.write(f"{r['step']},{r['minutes']:.1f},{r['t']},{r['train']:.4f},{r['held']:.4f}\n")
    w, h, left, low, top = 640, 320, 50, 30, 15
    last = max(r["step"] for r in log)
    y0, y1 = 0.8, 2.4

    def point(s, v):
        v = min(max(v, y0), y1)
        return (f"{left + (w - left - 10) * s / last:.1f},"
                f"{top + (h - low - top) * (y1 - v) / (y1 - y0):.1f}")

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" '
             'font-family="sans-serif" font-size="11">',
             f'<rect width="{w}" height="{h}" fill="white"/>']
    for k in range(9):
        v = y0 + 0.2 * k
        x, y = point(0, v).split(",")
        parts.append(f'<path d="M{x},{y}H{w - 10}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{float(y) + 4:.1f}" text-anchor="end">{v:.1f}</text>')
    for k in range(6):
        s = last * k // 5
        x = point(s, y0).split(",")[0]
        parts.append(f'<text x="{x}" y="{h - 12}" text-anchor="middle">{s}</text>')
    for key, colour, label, dy in (("train", "#999", "training", 0),
                                   ("held", "#c33", "held back", 16)):
        line = " ".join(point(r["step"], r[key]) for r in log if key in r)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
                     f'<text x="{w - 150}" y="{top + 20 + dy}" fill="{colour}">{label}, nats/byte</text>')
    with open(os.path.join(out, "curve.svg"), "w") as f:
        f.write("\n".join(parts) + "\n</svg>\n")


# ---------------------------------------------------------------- training

def window_length(progress):
    """Short windows are cheaper and teach spelling just as well."""
    return 128 if progress < 0.30 else 256 if progress < 0.65 else CONTEXT


def rate(progress, step):
    """Warm up for 100 steps, hold, then fall in a line to zero."""
    return min(1.0, (step + 1) / 100) * min(1.0, (1.0 - progress) / 0.65)


def train(args):
    train_chapters, held = split(chapters())
    work = os.path.join(args.work, "checkpoint.pt")
    state = torch.load(work) if args.resume and os.path.exists(work) else None
    p = state["params"] if state else initial(args.seed)
    for w in p.values():
        w.requires_grad_(True)
    tables = [p[n] for n in ("wte", "wpe", "head")]
    matrices = [w for n, w in p.items() if n.startswith("h.")]
    muon = Muon(matrices, args.decay)
    adam = torch.optim.AdamW(tables, lr=args.adam_lr, betas=(0.9, 0.98), weight_decay=0.0)
    step, seconds, log, taken = 0, 0.0, [], None
    if state:
        muon.momentum = state["muon"]
        adam.load_state_dict(state["adam"])
        step, seconds, log, taken = (state[k] for k in ("step", "seconds", "log", "taken"))
    windows = Windows(train_chapters, args.seed, taken)
    run = torch.compile(forward, dynamic=False) if args.compile else forward
    dtype = torch.float32 if args.float32 else torch.bfloat16

    def progress():
        return step / args.steps if args.steps else seconds / (60 * args.minutes)

    def save():
        torch.save({"params": {n: w.detach() for n, w in p.items()},
                    "muon": muon.momentum, "adam": adam.state_dict(),
                    "step": step, "seconds": seconds, "log": log,
                    "taken": windows.taken}, work + ".new")
        os.replace(work + ".new", work)

    os.makedirs(args.work, exist_ok=True)
    sums, saved, shown = [], time.time(), seconds
    while progress() < 1.0:
        began = time.time()
        f, t = rate(progress(), step), window_length(progress())
        x, y, pos = windows.batch(args.tokens // t, t)
        logits = run(p, x, pos, dtype, args.dropout)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        muon.step(args.muon_lr * f)
        for group in adam.param_groups:
            group["lr"] = args.adam_lr * f
        adam.step()
        for w in p.values():
            w.grad = None
        sums.append(loss.item())
        step += 1
        seconds += time.time() - began
        if step % 50 == 0:
            row = {"step": step, "minutes": seconds / 60, "t": t,
                   "train": sum(sums) / len(sums)}
            if step % args.eval_every == 0:
                # Every 4th held-back chapter and a coarse stride: a quick
                # look, a little worse than the final number.
                began = time.time()
                row["held"] = evaluate(rounded(p), held[::4], 256)
                seconds += time.time() - began
            log.append(row)
            print(json.dumps(row), f"{(seconds - shown) / 50:.2f} s/step", flush=True)
            sums, shown = [], seconds
        if time.time() - saved > 180:
            save()
            saved = time.time()
    save()
    final = evaluate(rounded(p), held, 64)
    log.append({"step": step, "minutes": seconds / 60, "t": CONTEXT,
                "train": log[-1]["train"] if log else 9.9, "held": final})
    save()
    export(args.out, p, held)
    write_curve(args.out, log)
    print(f"held-back loss {final:.4f} nats/byte, {step} steps, {seconds / 60:.1f} minutes")


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)),
                   help="folder for the weights, references and curve")
    a.add_argument("--work", default="work", help="folder for the checkpoint")
    a.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    a.add_argument("--minutes", type=float, default=90, help="length of the schedule")
    a.add_argument("--steps", type=int, default=0,
                   help="length of the schedule in steps instead of minutes")
    a.add_argument("--tokens", type=int, default=8192, help="tokens in a step")
    a.add_argument("--muon-lr", type=float, default=0.02)
    a.add_argument("--adam-lr", type=float, default=0.004)
    a.add_argument("--decay", type=float, default=0.05, help="weight decay of Muon")
    a.add_argument("--dropout", type=float, default=0.0)
    a.add_argument("--eval-every", type=int, default=250)
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--float32", action="store_true", help="no bfloat16 products")
    a.add_argument("--compile", action="store_true", help="use torch.compile")
    a.add_argument("--export", action="store_true",
                   help="only write the checkpoint's (or initial) weights and references")
    a.add_argument("--reference", action="store_true",
                   help="only write the references of model.safetensors in --out")
    a.add_argument("--evaluate", action="store_true",
                   help="only evaluate model.safetensors in --out")
    args = a.parse_args()
    torch.set_num_threads(args.threads)
    if args.evaluate or args.reference:
        held = split(chapters())[1]
        p = read_safetensors(os.path.join(args.out, "model.safetensors"))
        if args.reference:
            export(args.out, p, held, weights=False)
        else:
            print(f"held-back loss {evaluate(p, held, 64):.4f} nats/byte")
    elif args.export:
        held = split(chapters())[1]
        work = os.path.join(args.work, "checkpoint.pt")
        p = torch.load(work)["params"] if os.path.exists(work) else initial(args.seed)
        export(args.out, p, held)
    else:
        train(args)


if __name__ == "__main__":
    main()
