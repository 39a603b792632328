// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Another process that constantly writes to shared memory, as fast as it can. It writes whole
// words: ids and offsets inside and outside of all bounds, and floats of every kind.

#pragma once

#include <glib.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace thriftps_test {

class Scribbler
{
public:
  // `memory` must be a writable MAP_SHARED mapping. The constructor waits until the other process
  // has started to write.
  Scribbler (gpointer memory, gsize n_bytes)
  {
    std::string before (static_cast<const char *> (memory), n_bytes);

    child_ = fork ();
    if (child_ == 0)
      Scribble (static_cast<volatile guint64 *> (memory), n_bytes / 8);
    while (memcmp (memory, before.data (), n_bytes) == 0)
      sched_yield ();
  }

  ~Scribbler ()
  {
    kill (child_, SIGKILL);
    waitpid (child_, nullptr, 0);
  }
  Scribbler (const Scribbler &) = delete;
  Scribbler &operator= (const Scribbler &) = delete;

private:
  [[noreturn]] static void
  Scribble (volatile guint64 *words, gsize n_words)
  {
    guint64 dice = 88172645463325252u;

    prctl (PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
      {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        words[dice % n_words] = (dice >> 60) % 4 != 0 ? (dice >> 20) % 1000 : dice;
      }
  }

  pid_t child_ = -1;
};

} // namespace thriftps_test
