/* SPDX-License-Identifier: MIT
 *
 * What tests of calls that can fail are made of; both fill a variable `err` of the caller's.
 */
#ifndef ORDITO_TESTS_MUST_H
#define ORDITO_TESTS_MUST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MUST(call)                                                                                                     \
  do {                                                                                                                 \
    err = (ord_error)ORD_ERROR_INIT;                                                                                   \
    if (!(call)) fail_msg("%s: %s", #call, err.text);                                                                  \
  } while (0)

/* The call must fail, with this text somewhere in the message. */
#define MUST_FAIL(call, part)                                                                                          \
  do {                                                                                                                 \
    err = (ord_error)ORD_ERROR_INIT;                                                                                   \
    if (call) fail_msg("%s worked", #call);                                                                            \
    if (!strstr(err.text, part)) fail_msg("%s\n  said:   %s\n  wanted: .. %s ..", #call, err.text, part);              \
  } while (0)

#endif
