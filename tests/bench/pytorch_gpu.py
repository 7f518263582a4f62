#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch on a GPU, on the shapes of models/andrea.yaml and of tests/bench/attention.yaml, in bf16 with random weights.

A decode step works on a static cache and ends with the greedy token. It reads the cache as far as it is filled (exact:
a graph for this position alone) or whole, under a mask (masked: a graph for every position, as ours is). It runs
eagerly, as a CUDA graph, and compiled and then as a CUDA graph; so does a prefill. Attention alone runs with each
library kernel that takes it. All ways must give the logits that f32 gives, within the tolerance of bf16, or the script
fails.

Cold: a buffer larger than the caches of the GPU is written before each run. Warm: runs follow one another, each
launched while those before it are still at work. Times are those between events, in microseconds.
"""

import argparse
import json
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as error:
    sys.exit(f"no PyTorch: {error}; wanted torch 2.5 or later")

from pytorch import CONTEXT, SIZES, Andrea, spread

# The tolerance of Ordito's own swaps, relative to the largest logit: eight times half a step of bf16.
TOLERANCE = 8 * 2.0**-8
COMPILE_MODE = "max-autotune-no-cudagraphs"


class Decoder(Andrea):
    """Adds to Andrea a step whose position is data of the device."""

    def __init__(self, size, dtype):
        super().__init__(size, dtype)
        self.places = torch.arange(CONTEXT)

    def attend_masked(self, layer, x, qkv, position, mask):
        q, k, v = (part.view(1, 1, self.heads, -1).transpose(1, 2) for part in F.linear(x, qkv).split(self.width, 2))
        self.keys[layer].index_copy_(2, position, k)
        self.values[layer].index_copy_(2, position, v)
        a = F.scaled_dot_product_attention(q, self.keys[layer], self.values[layer], attn_mask=mask)
        return a.transpose(1, 2).reshape(1, 1, self.width)

    def run_masked(self, ids, position):
        mask = (self.places <= position).view(1, 1, 1, CONTEXT)
        x = F.embedding(ids, self.wte) + F.embedding(position, self.wpe)
        for layer, (qkv, out, up, down) in enumerate(self.blocks):
            x = x + F.linear(self.attend_masked(layer, self.norm(x), qkv, position, mask), out)
            x = x + F.linear(F.gelu(F.linear(self.norm(x), up), approximate="tanh"), down)
        return F.linear(self.norm(x)[:, -1], self.head)

    def poison(self, place):
        """Of a token that the next step caches: who does not gets no number."""
        self.keys[:, :, :, place] = self.values[:, :, :, place] = float("nan")

    def as_f32(self):
        """The same weights, of which a reference is made."""
        other = Decoder.__new__(Decoder)
        other.__dict__.update(self.__dict__)
        for name in ("wte", "wpe", "head", "keys", "values"):
            setattr(other, name, getattr(self, name).float())
        other.blocks = [tuple(weight.float() for weight in block) for block in self.blocks]
        return other


# ---- ways to run a function without arguments ------------------------------------------------------------------------


def captured(call):
    """The call as a CUDA graph, and what it writes its result to."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # libraries load code and take memory at their first calls
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()

    def replay():
        graph.replay()
        return result

    return replay


def ways(call, args):
    """Pairs of a way's name and a function; those of a CPU are fewer."""
    made = [("eager", call)]
    if args.device == "cuda":
        made.append(("graph", captured(call)))
    if not args.no_compile:
        compiled = torch.compile(call, mode=COMPILE_MODE, dynamic=False)
        compiled()
        made.append(("compiled+graph", captured(compiled)) if args.device == "cuda" else ("compiled", compiled))
    return made


# ---- times, in microseconds ------------------------------------------------------------------------------------------


def cpu_times(call, count):
    call()
    times = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - begin) / 1e3)
    return {"warm": times}


class GpuClock:
    def __init__(self):
        cache_bytes = torch.cuda.get_device_properties("cuda").L2_cache_size
        self.flushed = torch.empty(max(4 * cache_bytes, 1 << 28), dtype=torch.uint8, device="cuda")

    def warm_up(self, call):
        """Half a second, in which the GPU comes to its clocks."""
        until = time.perf_counter() + 0.5
        while time.perf_counter() < until:
            call()
            torch.cuda.synchronize()

    def warm(self, call, count):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        marks[0].record()
        for mark in marks[1:]:
            call()
            mark.record()
        torch.cuda.synchronize()
        return [
            1e3 * begin.elapsed_time(end) for begin, end in zip(marks[1:], marks[2:])
        ]  # the first waits for the host

    def cold(self, call, count):
        marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
        for begin, end in marks:
            self.flushed.zero_()  # while it runs the host launches what is timed
            begin.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return [1e3 * begin.elapsed_time(end) for begin, end in marks]

    def times(self, call, count):
        self.warm_up(call)
        return {"warm": self.warm(call, count), "cold": self.cold(call, count)}


# ---- checks ----------------------------------------------------------------------------------------------------------


def difference(logits, wanted):
    """Over the largest number that is wanted; a NaN differs from everything."""
    part = ((logits.float() - wanted.float()).abs().max() / wanted.float().abs().max()).item()
    return part if part == part else float("inf")


def check(name, logits, wanted, found):
    part = difference(logits, wanted)
    found.append({"what": name, "difference": part, "tolerance": TOLERANCE})
    if part > TOLERANCE:
        sys.exit(f"{name}: found logits that differ by {part:.3g} of the largest; wanted {TOLERANCE:.3g} at most")


# ---- what is timed ---------------------------------------------------------------------------------------------------


def measure(clock, name, calls, count, rows):
    for way, call in calls:
        for cache, times in clock(call, count).items():
            rows.append({"what": name, "way": way, "cache": cache, "samples": len(times), **spread("us", times)})


def with_token(logits):
    """The step's end: the greedy token, made on the device."""
    return logits, logits.argmax(dim=-1)


def bench_decode(args, clock, rows, checks):
    with torch.device(args.device):  # not around what is timed: it looks at every call
        model = Decoder(args.size, torch.bfloat16)
        prompt = torch.randint(model.vocab, (1, args.position + 1))
        token, position = prompt[:, -1:].clone(), torch.tensor([args.position])
    wanted = model.as_f32().run(prompt, 0)  # the last token's, without a cache
    model.run(prompt[:, :-1], 0)
    for name, call in (
        ("decode, exact", lambda: with_token(model.run(token, args.position))),
        ("decode, masked", lambda: with_token(model.run_masked(token, position))),
    ):
        calls = ways(call, args)
        for way, run in calls:
            model.poison(args.position)
            check(f"{name}, {way}", run()[0], wanted, checks)
        measure(clock, name, calls, args.steps, rows)
    weight_bytes, cache_row_bytes = 2 * model.weights_read(), 2 * 2 * model.layers * model.width
    return {"weight_bytes": weight_bytes, "cache_bytes": cache_row_bytes * (args.position + 1)}


def bench_prefill(args, clock, rows, checks):
    with torch.device(args.device):
        model = Decoder(args.size, torch.bfloat16)
        prompt = torch.randint(model.vocab, (1, args.prompt))
    wanted = model.as_f32().run(prompt, 0)
    calls = ways(lambda: with_token(model.run(prompt, 0)), args)
    for way, run in calls:
        check(f"prefill, {way}", run()[0], wanted, checks)
    measure(clock, "prefill", calls, args.repeat, rows)
    return {"operations": model.operations(args.prompt)}


def bench_attention(args, clock, rows, checks):
    with torch.device(args.device):
        q, k, v = (torch.rand(1, 12, args.keys, 64).to(torch.bfloat16) * 2 - 1 for _ in range(3))
    with sdpa_kernel(SDPBackend.MATH):
        wanted = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):

        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        name = "attention, " + backend.name.lower()
        try:
            run = captured(call) if args.device == "cuda" else call
            check(name, run(), wanted, checks)
        except RuntimeError as error:  # not on this device, or not in this build
            print(f"{name}: left out: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        measure(clock, name, [("graph" if args.device == "cuda" else "eager", run)], 10 * args.repeat, rows)
    return {"tokens": args.keys, "operations": 2 * 12 * (args.keys * (args.keys + 1) // 2) * 128}


# ---- telling ---------------------------------------------------------------------------------------------------------


def print_table(report):
    print(
        f"{report['rival']} on {report['device']}, andrea-{report['size']} in bf16, position {report['position']}, "
        f"prompt {report['prompt']}"
    )
    print(f"\n{'':34}{'':16}{'':6}{'p50 us':>10}{'p10':>10}{'p90':>10}{'runs':>7}")
    for row in report["rows"]:
        print(
            f"{row['what']:34}{row['way']:16}{row['cache']:6}{row['us']:10.1f}{row['us_p10']:10.1f}"
            f"{row['us_p90']:10.1f}{row['samples']:7}"
        )
    worst = max(report["checks"], key=lambda entry: entry["difference"])
    print(
        f"\nlargest difference of logits from those in f32: {worst['difference']:.3g} of the largest "
        f"({worst['what']}; at most {worst['tolerance']:.3g})"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try the script, no rival")
    parser.add_argument("--size", choices=sorted(SIZES), default="120m")
    parser.add_argument("--position", type=int, default=512)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--keys", type=int, default=1024, help="tokens of the attention alone")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--no-compile", action="store_true", help="without the compiled ways, which take minutes")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not 0 < args.position < CONTEXT or not 0 < args.prompt <= CONTEXT:
        parser.error(f"position {args.position}, prompt {args.prompt}: wanted 1 to {CONTEXT - 1} and 1 to {CONTEXT}")
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit(f"no GPU: torch {torch.__version__} finds none; wanted one (--device cpu tries the script)")
    torch.manual_seed(1)
    is_gpu = args.device == "cuda"
    report = {
        "rival": "torch " + torch.__version__,
        "device": torch.cuda.get_device_name() if is_gpu else "the CPU, A TRIAL OF THE SCRIPT AND NO RIVAL OF A GPU",
        "is_gpu": is_gpu,
        "compute": "bf16",
        "size": args.size,
        "position": args.position,
        "prompt": args.prompt,
        "compile_mode": None if args.no_compile else COMPILE_MODE,
    }
    clock, rows, checks = GpuClock().times if is_gpu else cpu_times, [], []
    with torch.no_grad():
        report["decode"] = bench_decode(args, clock, rows, checks)
        report["prefill"] = bench_prefill(args, clock, rows, checks)
        report["attention"] = bench_attention(args, clock, rows, checks)
    report.update(rows=rows, checks=checks)
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        print_table(report)


if __name__ == "__main__":
    main()
