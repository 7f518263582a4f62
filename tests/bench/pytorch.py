#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch on the shapes of models/andrea.yaml and of tests/bench/attention.yaml, on the CPU, with random weights.

Prints the fields of `ordito bench --json` that have a counterpart here. The shares need a machine's limits: give the
report of an `ordito bench --json` of the same minute and the same --compute, whose probes are used.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

SIZES = {"nano": (256, 8, 4, 257), "12m": (384, 12, 6, 2305), "120m": (768, 12, 12, 8449), "480m": (1536, 24, 16, 8449)}
CONTEXT = 1024


class Andrea:
    """Pre-norm decoder with learned positions, a separate head and no biases; keys and values are cached."""

    def __init__(self, size, dtype):
        self.width, self.heads, self.layers, self.vocab = SIZES[size]
        self.dtype = dtype
        width = self.width
        make = lambda *shape: (torch.randn(*shape) * 0.02).to(dtype)
        self.wte, self.wpe, self.head = make(self.vocab, width), make(CONTEXT, width), make(self.vocab, width)
        self.blocks = [
            (make(3 * width, width), make(width, width), make(4 * width, width), make(width, 4 * width))
            for _ in range(self.layers)
        ]
        shape = (self.layers, 1, self.heads, CONTEXT, width // self.heads)
        self.keys, self.values = torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)

    def norm(self, x):
        return F.layer_norm(x, (self.width,), eps=1e-5)

    def attend(self, layer, x, qkv, past):
        count = x.shape[1]
        q, k, v = (
            part.view(1, count, self.heads, -1).transpose(1, 2) for part in F.linear(x, qkv).split(self.width, dim=2)
        )
        self.keys[layer, :, :, past : past + count] = k
        self.values[layer, :, :, past : past + count] = v
        keys, values = self.keys[layer, :, :, : past + count], self.values[layer, :, :, : past + count]
        a = F.scaled_dot_product_attention(q, keys, values, is_causal=past == 0 and count > 1)
        return a.transpose(1, 2).reshape(1, count, self.width)

    def run(self, ids, past):
        """Logits of the last of the new tokens. Several tokens only where the cache is empty."""
        count = ids.shape[1]
        x = F.embedding(ids, self.wte) + self.wpe[past : past + count]
        for layer, (qkv, out, up, down) in enumerate(self.blocks):
            x = x + F.linear(self.attend(layer, self.norm(x), qkv, past), out)
            x = x + F.linear(F.gelu(F.linear(self.norm(x), up), approximate="tanh"), down)
        return F.linear(self.norm(x)[:, -1], self.head)

    def weights_read(self):
        """Numbers that a decode step reads: all but the tables, of which it looks up a row each."""
        return sum(weight.numel() for block in self.blocks for weight in block) + self.head.numel() + 2 * self.width

    def operations(self, count):
        products = 12 * self.width * self.width * self.layers * count + self.width * self.vocab
        return 2 * products + 2 * self.layers * count * (count + 1) // 2 * 2 * self.width


def timed(call, count):
    """Nanoseconds of each call, the first two (cold) left out."""
    times = []
    for _ in range(count + 2):
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    return times[2:]


def spread(name, samples, scale=1.0):
    ordered = sorted(samples)
    at = lambda share: ordered[int(share * (len(ordered) - 1) + 0.5)] * scale
    return {name: at(0.5), name + "_p10": at(0.1), name + "_p90": at(0.9)}


def share(done, times, limit):
    return spread("share", [done / (ns * 1e-9) / limit for ns in times]) if limit else {}


def renamed(fields, name):
    return {key.replace("share", name): value for key, value in fields.items()}


def bench_model(args, dtype, limits):
    model = Andrea(args.size, dtype)
    prompt = torch.zeros(1, args.prompt, dtype=torch.long)
    token = torch.zeros(1, 1, dtype=torch.long)
    prefill = timed(lambda: model.run(prompt, 0), args.repeat)
    step = timed(lambda: model.run(token, args.position), args.steps)
    bytes_each = torch.finfo(dtype).bits // 8
    weight_bytes = model.weights_read() * bytes_each
    cache_bytes = 2 * model.layers * (args.position + 1) * model.width * bytes_each
    median_step, median_prefill = statistics.median(step), statistics.median(prefill)
    return {
        "model": "andrea-" + args.size,
        "decode": {
            "position": args.position,
            "steps": args.steps,
            "tokens_per_s": 1e9 / median_step,
            "p50_us": median_step / 1e3,
            "weight_bytes": weight_bytes,
            "cache_bytes": cache_bytes,
            **renamed(share(weight_bytes + cache_bytes, step, limits["read"]), "read_share"),
        },
        "prefill": {
            "tokens": args.prompt,
            "tokens_per_s": args.prompt * 1e9 / median_prefill,
            **spread("ms", prefill, 1e-6),
            "operations": model.operations(args.prompt),
            **renamed(share(model.operations(args.prompt), prefill, limits["peak"]), "peak_share"),
        },
    }


def bench_attention(args, dtype, limits):
    q, k, v = (torch.rand(1, 12, 1024, 64).to(dtype) * 2 - 1 for _ in range(3))
    times = timed(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), 10 * args.repeat)
    operations = 2 * 12 * (1024 * 1025 // 2) * 128
    fields = renamed(share(operations, times, limits["peak"]), "peak_share")
    return {"model": "attention", "prefill": {"tokens": 0, **spread("ms", times, 1e-6), "operations": operations, **fields}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["andrea", "attention"], default="andrea")
    parser.add_argument("--size", choices=sorted(SIZES), default="120m")
    parser.add_argument("--compute", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--position", type=int, default=512)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--probe", metavar="REPORT.json", help="of `ordito bench --json`, for the shares")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    limits = {"read": None, "peak": None}
    if args.probe:
        with open(args.probe, encoding="utf-8") as file:
            report = json.load(file)
        probe = report["probe"]
        is_same = report["compute"] == args.compute  # then there are many samples of the peak
        limits["peak"] = (probe["peak_gop_per_s"] if is_same else probe[args.compute]["gop_per_s"]) * 1e9
        limits["read"] = probe.get("read_gb_per_s", 0) * 1e9 or None
    dtype = torch.float32 if args.compute == "f32" else torch.bfloat16
    with torch.inference_mode():
        report = (bench_model if args.model == "andrea" else bench_attention)(args, dtype, limits)
    about = {"rival": "torch " + torch.__version__, "threads": args.threads, "compute": args.compute}
    print(json.dumps({**about, **report}, indent=1))


if __name__ == "__main__":
    main()
