/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The undefined behaviour sanitizer's run-time library calls this before main(). */

const char *__ubsan_default_options (void);

const char *
__ubsan_default_options (void)
{
  return "print_stacktrace=1";
}
