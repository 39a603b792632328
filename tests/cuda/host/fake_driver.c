/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A fake libcuda.so.1, whose only function is its initialisation. */

int cuInit (unsigned int flags);

int
cuInit (unsigned int flags)
{
  return 0;
}
