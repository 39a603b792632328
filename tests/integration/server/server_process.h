// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// thriftps_server, or another program that says where it listens, as a process of its own.

#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace thriftps_test {

class ServerProcess
{
public:
  // Starts it; nothing is waited for.
  explicit ServerProcess (const std::vector<std::string> &flags,
                          const std::string &program = "plugin/app/thriftps_server");
  ~ServerProcess (); // kills what still runs
  ServerProcess (const ServerProcess &) = delete;
  ServerProcess &operator= (const ServerProcess &) = delete;

  std::string ReadLine ();    // of stdout; "" at its end
  std::string ReadAddress (); // of a line "listening on ADDRESS"; "" for anything else
  std::string ReadAll ();     // of stdout, what is left; waits for its end
  std::string ReadErrors ();  // all of stderr; waits for its end
  void Signal (int number);
  int Wait (); // the exit code, 128 + signal where one ended it
  pid_t
  pid () const
  {
    return pid_;
  }

private:
  pid_t pid_ = -1;
  int stdout_ = -1;
  int stderr_ = -1;
};

} // namespace thriftps_test
