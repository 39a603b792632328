/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Controls of the fake NCCL (fake_nccl.cc). */

#pragma once

#include <nccl.h>

/* The fake library exports it as `fake_nccl_controls`. */
struct FakeNcclControls
{
  /* From now on, every communicator is broken with `code`, and `text` is its last error. */
  void (*break_all) (ncclResult_t code, const char *text);
  /* The next call of `function` returns `code`. */
  void (*fail) (const char *function, ncclResult_t code);
  /* Until a reset, joining does not complete. */
  void (*stall_joining) (void);
  /* Returns true if any communicator was created as blocking. */
  bool (*was_blocking) (void);
  /* n_living() counts communicators that are neither destroyed nor aborted. n_aborted() counts
   * aborted ones. */
  int (*n_living) (void);
  int (*n_aborted) (void);
  void (*reset) (void);
};
