/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/process/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define POLL_US 5000

typedef struct
{
  gchar *name;
  pid_t pid;
  gboolean ended;
  gint status;
} Child;

struct TpsSupervisor
{
  GPtrArray *children; /* of Child */
  void (*waiting) (gpointer user_data);
  gpointer waiting_data;
};

static void
child_free (gpointer data)
{
  Child *child = data;

  g_free (child->name);
  g_free (child);
}

TpsSupervisor *
tps_supervisor_new (void)
{
  TpsSupervisor *supervisor = g_new0 (TpsSupervisor, 1);

  supervisor->children = g_ptr_array_new_with_free_func (child_free);
  return supervisor;
}

void
tps_supervisor_free (TpsSupervisor *supervisor)
{
  tps_supervisor_stop (supervisor, 0);
  g_ptr_array_unref (supervisor->children);
  g_free (supervisor);
}

/* Runs in the child between fork() and exec(): only async-signal-safe calls are allowed. After a
 * failure, writes errno to `report_fd`. */
static void
become (gchar **argv, pid_t launcher, gint stdin_fd, gint stdout_fd, gint report_fd)
{
  sigset_t none;

  prctl (PR_SET_PDEATHSIG, SIGKILL);
  if (getppid () != launcher) /* the launcher exited before prctl() */
    _exit (127);
  sigemptyset (&none);
  sigprocmask (SIG_SETMASK, &none, NULL);
  /* Ctrl-C on a terminal must reach only the launcher, which then terminates its children in
   * order. */
  setpgid (0, 0);
  if (stdin_fd >= 0)
    dup2 (stdin_fd, STDIN_FILENO);
  if (stdout_fd >= 0)
    dup2 (stdout_fd, STDOUT_FILENO);
  execv (argv[0], argv);
  if (write (report_fd, &errno, sizeof errno) < 0)
    _exit (126);
  _exit (127);
}

static void
close_pair (gint *fds)
{
  for (guint i = 0; i < 2; i++)
    if (fds[i] >= 0)
      close (fds[i]);
}

/* Returns the errno of the child if exec() has failed; otherwise 0, because exec() closes the
 * pipe. */
static gint
read_report (gint fd)
{
  gint number = 0;
  gssize n;

  do
    n = read (fd, &number, sizeof number);
  while (n < 0 && errno == EINTR);
  return n == (gssize) sizeof number ? number : 0;
}

static gboolean
cannot_start (const gchar *name, const gchar *program, gint number, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "cannot start %s: %s: %s", name, program,
               g_strerror (number));
  return FALSE;
}

gboolean
tps_supervisor_start (TpsSupervisor *supervisor, const gchar *name, gchar **argv, gint *stdin_fd,
                      gint *stdout_fd, GError **error)
{
  gint in[2] = { -1, -1 }, out[2] = { -1, -1 }, report[2] = { -1, -1 };
  pid_t launcher = getpid ();
  pid_t pid = -1;
  gint number;
  Child *child;

  if ((stdin_fd == NULL || pipe2 (in, O_CLOEXEC) == 0)
      && (stdout_fd == NULL || pipe2 (out, O_CLOEXEC) == 0) && pipe2 (report, O_CLOEXEC) == 0)
    pid = fork ();
  if (pid == 0)
    become (argv, launcher, in[0], out[1], report[1]);
  number = errno;
  if (pid > 0)
    {
      close (report[1]);
      report[1] = -1;
      number = read_report (report[0]);
    }
  close_pair (report);
  if (pid < 0 || number != 0)
    {
      if (pid > 0)
        waitpid (pid, NULL, 0);
      close_pair (in);
      close_pair (out);
      return cannot_start (name, argv[0], number, error);
    }
  if (stdin_fd != NULL)
    {
      close (in[0]);
      *stdin_fd = in[1];
    }
  if (stdout_fd != NULL)
    {
      close (out[1]);
      *stdout_fd = out[0];
    }
  child = g_new0 (Child, 1);
  child->name = g_strdup (name);
  child->pid = pid;
  g_ptr_array_add (supervisor->children, child);
  return TRUE;
}

/* Returns TRUE if the child has exited, and records its status. Does not block. */
static gboolean
has_ended (Child *child)
{
  if (!child->ended && waitpid (child->pid, &child->status, WNOHANG) == child->pid)
    child->ended = TRUE;
  return child->ended;
}

static void
set_end_error (const Child *child, GError **error)
{
  if (WIFSIGNALED (child->status))
    g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED, "%s (pid %d) was killed by signal %d (%s)",
                 child->name, child->pid, WTERMSIG (child->status),
                 strsignal (WTERMSIG (child->status)));
  else
    g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED, "%s (pid %d) ended with status %d",
                 child->name, child->pid, WEXITSTATUS (child->status));
}

void
tps_supervisor_set_waiting (TpsSupervisor *supervisor, void (*waiting) (gpointer user_data),
                            gpointer user_data)
{
  supervisor->waiting = waiting;
  supervisor->waiting_data = user_data;
}

void
tps_supervisor_call_waiting (TpsSupervisor *supervisor)
{
  if (supervisor->waiting != NULL)
    supervisor->waiting (supervisor->waiting_data);
}

gint
tps_supervisor_get_newest_pid (TpsSupervisor *supervisor)
{
  Child *newest = g_ptr_array_index (supervisor->children, supervisor->children->len - 1);

  return newest->pid;
}

gboolean
tps_supervisor_check (TpsSupervisor *supervisor, GError **error)
{
  for (guint i = 0; i < supervisor->children->len; i++)
    if (has_ended (supervisor->children->pdata[i]))
      {
        set_end_error (supervisor->children->pdata[i], error);
        return FALSE;
      }
  return TRUE;
}

gboolean
tps_supervisor_forget_dead (TpsSupervisor *supervisor, const gchar *name, GError **why)
{
  for (guint i = 0; i < supervisor->children->len; i++)
    {
      Child *child = supervisor->children->pdata[i];

      if (g_str_equal (child->name, name) && has_ended (child))
        {
          set_end_error (child, why);
          g_ptr_array_remove_index (supervisor->children, i);
          return TRUE;
        }
    }
  return FALSE;
}

gboolean
tps_supervisor_reap (TpsSupervisor *supervisor, gint pid, GError **why)
{
  gboolean is_fine = TRUE;

  for (guint i = 0; i < supervisor->children->len; i++)
    {
      Child *child = supervisor->children->pdata[i];

      if (child->pid != pid)
        continue;
      if (!child->ended)
        while (waitpid (pid, &child->status, 0) < 0 && errno == EINTR)
          ;
      is_fine = WIFEXITED (child->status) && WEXITSTATUS (child->status) == 0;
      if (!is_fine)
        set_end_error (child, why);
      g_ptr_array_remove_index (supervisor->children, i);
      break;
    }
  return is_fine;
}

gboolean
tps_supervisor_check_patiently (TpsSupervisor *supervisor, guint patience_ms, GError **error)
{
  gint64 deadline_ns = tps_clock_now_ns () + (gint64) patience_ms * 1000000;

  while (tps_supervisor_check (supervisor, error))
    {
      if (tps_clock_now_ns () >= deadline_ns)
        return TRUE;
      g_usleep (POLL_US);
    }
  return FALSE;
}

static guint
count_living (TpsSupervisor *supervisor)
{
  guint n_living = 0;

  for (guint i = 0; i < supervisor->children->len; i++)
    n_living += !has_ended (supervisor->children->pdata[i]);
  return n_living;
}

/* Sends the signal to the process group of each child, because a peer is a tree of processes. */
static void
signal_living (TpsSupervisor *supervisor, gint signal_number)
{
  for (guint i = 0; i < supervisor->children->len; i++)
    {
      Child *child = supervisor->children->pdata[i];

      if (!has_ended (child) && kill (-child->pid, signal_number) != 0)
        kill (child->pid, signal_number); /* the child has not created its group yet */
    }
}

gboolean
tps_supervisor_stop (TpsSupervisor *supervisor, guint patience_ms)
{
  gint64 deadline_ns = tps_clock_now_ns () + (gint64) patience_ms * 1000000;
  gboolean orderly = TRUE;

  if (patience_ms > 0)
    signal_living (supervisor, SIGTERM);
  while (count_living (supervisor) > 0 && tps_clock_now_ns () < deadline_ns)
    g_usleep (POLL_US);
  signal_living (supervisor, SIGKILL);
  for (guint i = 0; i < supervisor->children->len; i++)
    {
      Child *child = supervisor->children->pdata[i];

      if (!child->ended)
        {
          waitpid (child->pid, &child->status, 0);
          child->ended = TRUE;
        }
      orderly = orderly
                && (WIFSIGNALED (child->status) ? WTERMSIG (child->status) == SIGTERM
                                                : WEXITSTATUS (child->status) == 0);
    }
  return orderly;
}
