/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A fake libcuda.so.1 whose cuInit() succeeds, or fails with FAKE_CODE. */

int cuInit (unsigned int flags);
int cuGetErrorString (int code, const char **text);

int
cuInit (unsigned int flags)
{
  return FAKE_CODE;
}

int
cuGetErrorString (int code, const char **text)
{
  *text = "the fake is\nbroken";
  return 0;
}
