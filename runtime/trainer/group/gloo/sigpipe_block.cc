/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/gloo/sigpipe_block.h"

#include <pthread.h>
#include <time.h>

#include <cerrno>

namespace tps {

namespace {

sigset_t
only_sigpipe ()
{
  sigset_t pipe;

  sigemptyset (&pipe);
  sigaddset (&pipe, SIGPIPE);
  return pipe;
}

}

SigpipeBlock::SigpipeBlock ()
{
  const sigset_t pipe = only_sigpipe ();

  pthread_sigmask (SIG_BLOCK, &pipe, &before_);
}

/* A pending signal would terminate the process when it is unblocked, so it is consumed first. */
SigpipeBlock::~SigpipeBlock ()
{
  const sigset_t pipe = only_sigpipe ();
  const timespec at_once = {};

  if (sigismember (&before_, SIGPIPE))
    return;
  while (sigtimedwait (&pipe, nullptr, &at_once) == SIGPIPE || errno == EINTR)
    ;
  pthread_sigmask (SIG_SETMASK, &before_, nullptr);
}

} /* namespace tps */
