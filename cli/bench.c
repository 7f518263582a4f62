/* SPDX-License-Identifier: MIT
 *
 * ordito bench MODEL.yaml: how fast a model starts, reads a prompt and decodes, as shares of what the machine can do
 * at the same moment. docs/bench.md says what each figure means.
 */
#include "cli/bench.h"

#include <stdlib.h>

static void finish(bench *b) {
  ord_probe_destroy(b->probe);
  ord_session_destroy(b->rival);
  cli_close(&b->stage);
  bench_table_finish(&b->prefill);
  bench_table_finish(&b->decode);
  for (int i = 0; i < BENCH_SAMPLES; i++) free(b->samples[i].value);
}

static void read_types(bench *b) {
  ord_session_options options;
  cli_session_options(b->request, &options);
  b->compute = options.compute ? options.compute : ORD_F32;
  b->kv_cache = options.kv_cache ? options.kv_cache : ORD_F32;
}

static int tell(bench *b) {
  if (b->request->json)
    bench_print_json(b);
  else
    bench_print_text(b);
  if (bench_is_noisy(b))
    cli_say(stderr, "ordito: the probes drifted by more than %.0f %% in this run: the machine is too noisy to say\n",
            100 * BENCH_NOISE_LIMIT);
  return cli_flush();
}

int cli_bench(const cli_request *request) {
  bench b = {.request = request};
  read_types(&b);
  int code = bench_start(&b);
  if (code == CLI_OK) code = bench_measure(&b);
  if (code == CLI_OK) code = tell(&b);
  finish(&b);
  return code;
}
