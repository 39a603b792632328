// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "tests/integration/server/server_process.h"

#include <fcntl.h>
#include <glib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

namespace thriftps_test {

std::string
TemporaryFolder ()
{
  static struct Folders
  {
    ~Folders ()
    {
      std::error_code ignored;
      for (const std::string &path : paths)
        std::filesystem::remove_all (path, ignored);
    }
    std::vector<std::string> paths;
  } folders;
  g_autofree gchar *folder = g_dir_make_tmp ("thriftps-XXXXXX", nullptr);

  folders.paths.push_back (folder);
  return folder;
}

ServerProcess::ServerProcess (const std::vector<std::string> &flags, const std::string &program)
{
  std::vector<char *> argv = { const_cast<char *> (program.c_str ()) };
  int out[2], err[2];

  for (const std::string &flag : flags)
    argv.push_back (const_cast<char *> (flag.c_str ()));
  argv.push_back (nullptr);
  if (pipe2 (out, O_CLOEXEC) != 0 || pipe2 (err, O_CLOEXEC) != 0)
    return;
  pid_ = fork ();
  if (pid_ == 0)
    {
      prctl (PR_SET_PDEATHSIG, SIGKILL);
      dup2 (out[1], STDOUT_FILENO);
      dup2 (err[1], STDERR_FILENO);
      execv (program.c_str (), argv.data ());
      _exit (127);
    }
  close (out[1]);
  close (err[1]);
  stdout_ = out[0];
  stderr_ = err[0];
}

ServerProcess::~ServerProcess ()
{
  if (pid_ > 0)
    {
      kill (pid_, SIGKILL);
      waitpid (pid_, nullptr, 0);
    }
  close (stdout_);
  close (stderr_);
}

std::string
ServerProcess::ReadLine ()
{
  std::string line;
  char byte;
  while (read (stdout_, &byte, 1) == 1 && byte != '\n')
    line += byte;
  return line;
}

std::string
ServerProcess::ReadAddress ()
{
  const std::string head = "listening on ";
  std::string line = ReadLine ();
  return line.compare (0, head.size (), head) == 0 ? line.substr (head.size ()) : "";
}

static std::string
ReadToEnd (int fd)
{
  std::string text;
  char chunk[4096];
  ssize_t n;
  while ((n = read (fd, chunk, sizeof chunk)) > 0)
    text.append (chunk, (size_t) n);
  return text;
}

std::string
ServerProcess::ReadAll ()
{
  return ReadToEnd (stdout_);
}

std::string
ServerProcess::ReadErrors ()
{
  return ReadToEnd (stderr_);
}

void
ServerProcess::Signal (int number)
{
  kill (pid_, number);
}

int
ServerProcess::Wait ()
{
  int status = 0;
  waitpid (pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED (status) ? WEXITSTATUS (status) : 128 + WTERMSIG (status);
}

} // namespace thriftps_test
