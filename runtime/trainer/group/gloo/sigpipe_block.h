/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#pragma once

#include <signal.h>

namespace tps {

/* Blocks SIGPIPE, during its lifetime, on this thread and on threads that it starts, because Gloo
 * uses writev(). Every sending thread must hold one. Signals that arrive meanwhile are
 * discarded. */
class SigpipeBlock
{
public:
  SigpipeBlock ();
  ~SigpipeBlock ();

  SigpipeBlock (const SigpipeBlock &) = delete;
  SigpipeBlock &operator= (const SigpipeBlock &) = delete;

private:
  sigset_t before_;
};

} /* namespace tps */
