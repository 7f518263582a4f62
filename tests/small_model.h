/* SPDX-License-Identifier: MIT
 *
 * A model of two layers that makes a text in no time, for tests that do so very often. Included by test programs only.
 */
#ifndef ORDITO_TESTS_SMALL_MODEL_H
#define ORDITO_TESTS_SMALL_MODEL_H

#include "fixture.h"

static const char *const SMALL_MODEL =
    "ordito: 1\nname: small\n"
    "dims: {d_model: 16, n_head: 2, n_layer: 2, vocab: 257, head_dim: d_model / n_head, context: 512, batch: 1, "
    "seq: {min: 1, max: context}}\n"
    "inputs:\n  tokens: {dtype: i32, shape: [batch, seq], fill: tokens}\n"
    "  positions: {dtype: i32, shape: [batch, seq], fill: positions}\n"
    "weights:\n  wte: {shape: [vocab, d_model]}\n  wpe: {shape: [context, d_model]}\n  head: {shape: [out: vocab, in: "
    "d_model]}\n"
    "  h.<layer>.wq: {shape: [out: d_model, in: d_model]}\n  h.<layer>.wk: {shape: [out: d_model, in: d_model]}\n"
    "  h.<layer>.wv: {shape: [out: d_model, in: d_model]}\n  h.<layer>.wo: {shape: [out: d_model, in: d_model]}\n"
    "  h.<layer>.up: {shape: [out: 32, in: d_model]}\n  h.<layer>.down: {shape: [out: d_model, in: 32]}\n"
    "caches: {kv.<layer>: {length: context}}\n"
    "blocks:\n  heads:\n    takes: {x: value}\n    gives: [x]\n    body:\n"
    "      - reshape: {in: x, shape: [batch, seq, n_head, head_dim], out: x}\n"
    "      - transpose: {in: x, axes: [0, 2, 1, 3], out: x}\n"
    "graph:\n  - embedding: {in: tokens, weight: wte, out: x}\n"
    "  - position: {in: x, positions: positions, weight: wpe, out: x}\n"
    "  - repeat:\n      count: n_layer\n      index: layer\n      body:\n"
    "        - layernorm: {in: x, eps: 1e-5, out: h}\n"
    "        - matmul: {in: h, weight: h.<layer>.wq, out: q}\n        - matmul: {in: h, weight: h.<layer>.wk, out: k}\n"
    "        - matmul: {in: h, weight: h.<layer>.wv, out: v}\n"
    "        - heads: {x: q, out: q}\n        - heads: {x: k, out: k}\n        - heads: {x: v, out: v}\n"
    "        - attention: {q: q, k: k, v: v, causal: true, cache: kv.<layer>, out: a}\n"
    "        - concat_projection: {in: a, weight: h.<layer>.wo, out: h}\n        - add: {in: [x, h], out: x}\n"
    "        - mlp: {in: x, up: h.<layer>.up, down: h.<layer>.down, activation: silu, out: h}\n"
    "        - add: {in: [x, h], out: x}\n"
    "  - pool: {in: x, kind: last, out: x}\n  - matmul: {in: x, weight: head, out: next}\n"
    "outputs: [next]\ntokenizer: {kind: bytes, before: [256]}\ngenerate: {logits: next, stop: []}\n";

/* `text`: this one, or one that was made of it; with room for `bound` tokens, 0: all. */
static inline ord_model *open_small_model(ord_context *context, const char *text, int64_t bound) {
  const ord_model_options options = {.struct_size = sizeof options, .context = bound};
  const ord_weight_options random = {.struct_size = sizeof random, .random = true, .seed = 1};
  ord_error err = ORD_ERROR_INIT;
  ord_model *model = NULL;
  MUST(ord_model_load_text(context, "small.yaml", text, strlen(text), &options, &model, NULL, &err));
  MUST(ord_model_open_weights(model, &random, NULL, &err));
  return model;
}

#endif
