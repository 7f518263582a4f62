/* SPDX-License-Identifier: MIT
 *
 * Capture, replay and eager runs on the CPU: what the table of device_cpu.c points to. See device.h for the contract.
 */
#ifndef ORDITO_RUNTIME_CAPTURE_H
#define ORDITO_RUNTIME_CAPTURE_H

#include "runtime/device.h"

ORD_MUST_CHECK bool ord_capture_create(ord_queue *queue, const ord_plan *plan, const ord_memory *memory,
                                       ord_capture **out, ord_error *err);
ORD_MUST_CHECK bool ord_capture_replay(ord_queue *queue, const ord_capture *capture, const ord_run_options *options,
                                       ord_error *err);
/* Takes a little memory for the pointers of one step; a replay takes none. */
ORD_MUST_CHECK bool ord_plan_run_eager(ord_queue *queue, const ord_plan *plan, const ord_memory *memory,
                                       const ord_run_options *options, ord_error *err);
/* The addresses of a step's operands as its launches see them; fills `operand` [step->node.operand_count]. */
void ord_plan_operands(const ord_plan *plan, const ord_memory *memory, const ord_step *step, void **operand);
void ord_capture_destroy(ord_capture *capture);

#endif
