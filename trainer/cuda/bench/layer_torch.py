#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layer that gpu_layer measures, in PyTorch: layer_torch.py [gpt3-175b|llama3-70b] [SECONDS].

Same shapes, bf16, weight gradients added up in fp32 as Megatron-LM does; attention by
scaled_dot_product_attention. `--compile` plays it through torch.compile.
"""
import sys
import time

import torch
import torch.nn.functional as F

SHAPES = {  # hidden, ffn, heads, groups, length: an eighth of heads and hidden units
    "gpt3-175b": (12288, 49152 // 8, 96 // 8, 96 // 8, 2048),
    "llama3-70b": (8192, 28672 // 8, 64 // 8, 1, 8192),
}
D = 128


class Layer(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        hidden, ffn, self.heads, self.groups, self.length = SHAPES[shape]
        self.llama = shape.startswith("llama")
        width = self.heads * D
        linear = lambda i, o: torch.nn.Linear(i, o, bias=not self.llama)
        norm = torch.nn.RMSNorm if self.llama else torch.nn.LayerNorm
        self.norm1, self.norm2 = norm(hidden), norm(hidden)
        self.qkv = linear(hidden, width + 2 * self.groups * D)
        self.projection = linear(width, hidden)
        self.up = linear(hidden, ffn * (2 if self.llama else 1))
        self.down = linear(ffn, hidden)
        angle = torch.outer(torch.arange(self.length), 1e4 ** (-torch.arange(D // 2) / (D // 2)))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def turn(self, x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * self.cos - b * self.sin, b * self.cos + a * self.sin), dim=-1)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).split((self.heads * D, self.groups * D, self.groups * D), dim=-1)
        apart = lambda y, n: y.view(1, self.length, n, D).transpose(1, 2)
        q, k, v = apart(q, self.heads), apart(k, self.groups), apart(v, self.groups)
        if self.llama:
            q, k = self.turn(q), self.turn(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.groups != self.heads)
        x = x + self.projection(y.transpose(1, 2).reshape(1, self.length, -1))
        y = self.up(self.norm2(x))
        if self.llama:
            gate, up = y.chunk(2, dim=-1)
            y = F.silu(gate) * up
        else:
            y = F.gelu(y, approximate="tanh")
        return x + self.down(y)


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    shape = words[0] if words else "gpt3-175b"
    seconds = float(words[1]) if len(words) > 1 else 3.0
    layer = Layer(shape).to("cuda", torch.bfloat16)
    play = torch.compile(layer) if "--compile" in sys.argv else layer
    sums = {p: torch.zeros_like(p, dtype=torch.float32) for p in layer.parameters()}
    x = torch.randn((1, layer.length, SHAPES[shape][0]), device="cuda", dtype=torch.bfloat16, requires_grad=True)
    slope = 0.1 * torch.randn_like(x)

    def step():
        play(x).backward(slope)
        for p, total in sums.items():
            total.add_(p.grad)
            p.grad = None
        x.grad = None

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    begin, times = time.time(), 0
    while time.time() - begin < seconds:
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        times += 10
    each = (time.time() - begin) / times
    weights = sum(p.numel() for p in layer.parameters())
    flops = 6 * layer.length * weights + 7 * layer.length**2 * layer.heads * D
    print(f"{shape} in PyTorch {torch.__version__}: layer, forward and backward {each * 1e3:.3f} ms {flops / each * 1e-12:.1f} TFLOP/s")


main()
