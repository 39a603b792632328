/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#pragma once

#include <signal.h>

namespace tps {

/* Blocks SIGPIPE during the lifetime of the object, on this thread and on threads that this thread
 * starts, because Gloo uses writev(). Every sending thread must hold such an object. Signals that
 * arrive meanwhile are discarded, unless SIGPIPE was already blocked. */
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
