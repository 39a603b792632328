/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#pragma once

#include <signal.h>

namespace tps {

/* Blocks SIGPIPE on this thread, and on threads that it starts, while it lives: Gloo uses writev().
 * Who sends holds one. What came meanwhile does not come after it. */
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
