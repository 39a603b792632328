/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A shared library without the symbols that the loader needs. */

int not_looked_for (void);

int
not_looked_for (void)
{
  return 1;
}
