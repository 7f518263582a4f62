/* SPDX-License-Identifier: MIT
 *
 * ordito bench MODEL.yaml: how fast a model starts, reads a prompt and decodes, as shares of what the machine can do
 * at the same moment. docs/bench.md says what each figure means. On a GPU other things take time: bench_cuda.c.
 */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>

static void finish(bench *b) {
  ord_probe_destroy(b->probe);
  ord_session_destroy(b->rival);
  cli_close(&b->stage);
  bench_table_finish(&b->prefill);
  bench_table_finish(&b->decode);
  for (int i = 0; i < BENCH_SAMPLES; i++) free(b->samples[i].value);
}

void bench_read_types(const cli_request *request, uint32_t *out_compute, uint32_t *out_kv_cache) {
  ord_session_options options;
  cli_session_options(request, &options);
  *out_compute = options.compute ? options.compute : ORD_F32;
  *out_kv_cache = options.kv_cache ? options.kv_cache : ORD_F32;
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

static int run_cpu(const cli_request *request) {
  bench b = {.request = request};
  bench_read_types(request, &b.compute, &b.kv_cache);
  int code = bench_start(&b);
  if (code == CLI_OK) code = bench_measure(&b);
  if (code == CLI_OK) code = tell(&b);
  finish(&b);
  return code;
}

/* The simulated device takes a second for what a real one does in a millisecond. */
static void fill_defaults(cli_request *request) {
  const struct {
    int64_t *field, usual, simulated;
  } row[] = {{&request->bench_prompt, 128, 8}, {&request->bench_steps, 50, 2}, {&request->bench_repeat, 5, 1}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (*row[i].field < 0) *row[i].field = request->simulated ? row[i].simulated : row[i].usual;
}

int bench_choose_position(const cli_request *request, const ord_model *model, int64_t *out) {
  const int64_t asked = request->bench_position, usual = request->simulated ? 8 : 128;
  const int64_t last = ord_model_context(model) - 1;
  *out = asked >= 0 ? asked : usual < last ? usual : last;
  if (*out <= last) return CLI_OK;
  cli_say(stderr, "ordito: --position: found %lld; wanted at most %lld, as the context holds %lld tokens\n",
          (long long)asked, (long long)last, (long long)last + 1);
  return CLI_WRONG;
}

int cli_bench(const cli_request *request) {
  cli_request filled = *request;
  fill_defaults(&filled);
  if (strcmp(cli_device(request), "cuda") == 0) return bench_run_cuda(&filled);
  if (cli_loop(request) == ORD_LOOP_WHOLE || cli_loop(request) == ORD_LOOP_AHEAD) {
    cli_say(stderr, "ordito: --loop: found '%s' on the CPU, which makes a run for each token; wanted --device cuda\n",
            request->loop);
    return CLI_USAGE;
  }
  return run_cpu(&filled);
}
