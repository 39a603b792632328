/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Stands in for libcuda.so.1: it starts, and that is all. */

int cuInit (unsigned int flags);

int
cuInit (unsigned int flags)
{
  return 0;
}
