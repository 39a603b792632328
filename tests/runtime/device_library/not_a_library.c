/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A shared library without any symbol that is looked for. */

int not_looked_for (void);

int
not_looked_for (void)
{
  return 1;
}
