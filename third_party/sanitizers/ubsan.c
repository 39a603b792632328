/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The run-time library of the undefined behaviour sanitizer calls this function. */

const char *__ubsan_default_options (void);

const char *
__ubsan_default_options (void)
{
  return "print_stacktrace=1";
}
