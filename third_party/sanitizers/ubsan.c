/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Asked for by the undefined behaviour sanitizer's run-time library before main(). */

const char *__ubsan_default_options (void);

const char *
__ubsan_default_options (void)
{
  return "print_stacktrace=1";
}
