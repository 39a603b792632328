// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// thriftps_server, or another program that prints its address, in a child process.

#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace thriftps_test {

// Makes a folder, with a path that is short enough for sockets. It goes at the end of the test
// process.
std::string TemporaryFolder ();

class ServerProcess
{
public:
  // Starts the process and returns at once.
  explicit ServerProcess (const std::vector<std::string> &flags,
                          const std::string &program = "plugin/app/thriftps_server");
  ~ServerProcess (); // kills the process if it still runs
  ServerProcess (const ServerProcess &) = delete;
  ServerProcess &operator= (const ServerProcess &) = delete;

  std::string ReadLine ();    // of stdout; "" at the end
  std::string ReadAddress (); // of a line "listening on ADDRESS"; "" = another line
  std::string ReadAll ();     // rest of stdout; waits for its end
  std::string ReadErrors ();  // all of stderr; waits for its end
  void Signal (int number);
  int Wait (); // returns the exit code; 128 + signal = killed
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
