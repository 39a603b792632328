/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Controls of the fake NCCL (fake_nccl.cc). */

#pragma once

#include <nccl.h>

/* Exported as `fake_nccl_controls`. */
struct FakeNcclControls
{
  /* From now on every communicator is broken with `code`, and `text` is its last error. */
  void (*break_all) (ncclResult_t code, const char *text);
  /* The next call of `function` returns `code`. */
  void (*fail) (const char *function, ncclResult_t code);
  /* Joining does not complete until a reset. */
  void (*stall_joining) (void);
  /* Whether a communicator was told that it may block. */
  bool (*was_blocking) (void);
  /* Communicators that are neither destroyed nor aborted; those that were aborted. */
  int (*n_living) (void);
  int (*n_aborted) (void);
  void (*reset) (void);
};
