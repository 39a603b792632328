/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/process/child.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/process/interrupt.h"
#include "bench/process/runfiles.h"
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
  /* Ctrl-C on a terminal must reach only the launcher, which then ends its children. */
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

/* Returns the errno of the child if exec() has failed; otherwise 0, as the pipe is closed. */
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

#define POLL_MS 100
/* until the end of a process becomes visible after its output has closed */
#define PATIENCE_MS 1000

struct TpsChild
{
  TpsSupervisor *supervisor;
  gchar *name;
  gint to, from, pid;
  GString *received; /* the bytes after the last complete line */
};

TpsChild *
tps_child_start (TpsSupervisor *supervisor, const gchar *name, gchar **argv, GError **error)
{
  TpsChild *child;
  gint to, from;

  if (!tps_supervisor_start (supervisor, name, argv, &to, &from, error))
    return NULL;
  child = g_new0 (TpsChild, 1);
  child->supervisor = supervisor;
  child->name = g_strdup (name);
  child->to = to;
  child->from = from;
  child->pid = tps_supervisor_get_newest_pid (supervisor);
  child->received = g_string_new (NULL);
  return child;
}

void
tps_child_free (TpsChild *child)
{
  close (child->to);
  close (child->from);
  g_string_free (child->received, TRUE);
  g_free (child->name);
  g_free (child);
}

gboolean
tps_child_send (TpsChild *child, const gchar *line, GError **error)
{
  g_autofree gchar *whole = g_strconcat (line, "\n", NULL);

  if (write (child->to, whole, strlen (whole)) == (gssize) strlen (whole))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED, "%s is gone", child->name);
  return FALSE;
}

/* Reads more bytes. Checks for an interrupt and calls the supervisor's waiting function meanwhile.
 * FALSE without an error: the output of the child has ended. */
static gboolean
read_more (TpsChild *child, GError **error)
{
  struct pollfd ready = { .fd = child->from, .events = POLLIN };
  gchar chunk[65536];

  for (;;)
    {
      gssize n;

      if (!tps_interrupt_check (error))
        return FALSE;
      if (poll (&ready, 1, POLL_MS) <= 0)
        {
          tps_supervisor_call_waiting (child->supervisor);
          continue;
        }
      n = read (child->from, chunk, sizeof chunk);
      if (n < 0 && errno == EINTR)
        continue;
      if (n > 0)
        g_string_append_len (child->received, chunk, n);
      return n > 0;
    }
}

/* As read_more(), but the end of the output is an error, which names a child that has exited. */
static gboolean
receive_more (TpsChild *child, GError **error)
{
  GError *local = NULL;

  if (read_more (child, &local))
    return TRUE;
  if (local == NULL && tps_supervisor_check_patiently (child->supervisor, PATIENCE_MS, &local))
    g_set_error (&local, TPS_ERROR, TPS_ERROR_ABORTED, "%s closed its output", child->name);
  g_propagate_error (error, local);
  return FALSE;
}

gchar *
tps_child_receive (TpsChild *child, GError **error)
{
  gchar *end, *line;

  while ((end = memchr (child->received->str, '\n', child->received->len)) == NULL)
    if (!receive_more (child, error))
      return NULL;
  line = g_strndup (child->received->str, (gsize) (end - child->received->str));
  g_string_erase (child->received, 0, end + 1 - child->received->str);
  return line;
}

gchar *
tps_child_receive_all (TpsChild *child, GError **error)
{
  GError *local = NULL;

  while (read_more (child, &local))
    ;
  if (local == NULL && tps_supervisor_reap (child->supervisor, child->pid, &local))
    return g_strdup (child->received->str);
  g_propagate_error (error, local);
  return NULL;
}

void
tps_child_kill (TpsChild *child)
{
  kill (child->pid, SIGKILL);
  tps_supervisor_reap (child->supervisor, child->pid, NULL);
}

gchar *
tps_child_receive_from_script (TpsChild *child, GError **error)
{
  g_autoptr (GError) local = NULL;
  gchar *line = tps_child_receive (child, &local);

  if (line != NULL)
    return line;
  if (tps_interrupt_is_set ())
    g_propagate_error (error, g_steal_pointer (&local));
  else
    g_set_error (
        error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
        "%s; its output is above (%s runs it and needs PyTorch: bench/peers/install, or package "
        "python3-torch)",
        local->message, tps_bench_find_python ());
  return NULL;
}

gchar *
tps_child_ask (TpsChild *child, const gchar *line, GError **error)
{
  return tps_child_send (child, line, error) ? tps_child_receive (child, error) : NULL;
}

gdouble
tps_child_receive_seconds (TpsChild *child, gchar **rest, GError **error)
{
  static const gchar ok[] = "ok ";
  g_autofree gchar *line = tps_child_receive (child, error);
  gdouble seconds;
  gchar *at;

  if (line == NULL)
    return -1;
  if (!g_str_has_prefix (line, ok))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "%s: %.500s", child->name, line);
      return -1;
    }
  seconds = g_ascii_strtod (line + strlen (ok), &at);
  if (rest != NULL)
    *rest = g_strdup (at);
  return seconds;
}

gdouble
tps_child_get_cpu (const TpsChild *child)
{
  struct timespec used;
  clockid_t clock;

  if (clock_getcpuclockid (child->pid, &clock) != 0 || clock_gettime (clock, &used) != 0)
    return (gdouble) NAN;
  return (gdouble) used.tv_sec + (gdouble) used.tv_nsec / 1e9;
}

void
tps_child_pause (TpsChild *child)
{
  kill (child->pid, SIGSTOP);
}

void
tps_child_resume (TpsChild *child)
{
  kill (child->pid, SIGCONT);
}

gsize
tps_child_get_resident_bytes (const TpsChild *child)
{
  g_autofree gchar *path = g_strdup_printf ("/proc/%d/statm", child->pid);
  g_autofree gchar *text = NULL;
  gsize n_pages = 0;

  if (g_file_get_contents (path, &text, NULL, NULL))
    sscanf (text, "%*u %" G_GSIZE_FORMAT, &n_pages); /* the second number of statm */
  return n_pages * (gsize) sysconf (_SC_PAGESIZE);
}

gsize
tps_child_get_peak_bytes (const TpsChild *child)
{
  g_autofree gchar *path = g_strdup_printf ("/proc/%d/status", child->pid);
  g_autofree gchar *text = NULL;
  const gchar *peak;
  gsize n_kib = 0;

  if (g_file_get_contents (path, &text, NULL, NULL) && (peak = strstr (text, "VmHWM:")) != NULL)
    sscanf (peak, "VmHWM: %" G_GSIZE_FORMAT, &n_kib);
  return n_kib * 1024;
}

void
tps_child_reset_peak (const TpsChild *child)
{
  g_autofree gchar *path = g_strdup_printf ("/proc/%d/clear_refs", child->pid);
  FILE *file = fopen (path, "w");

  if (file == NULL)
    return;
  /* A 5 in clear_refs resets VmHWM, the peak; see proc(5). */
  fputs ("5\n", file);
  fclose (file);
}

guint
tps_child_count_descriptors (const TpsChild *child)
{
  g_autofree gchar *path = g_strdup_printf ("/proc/%d/fd", child->pid);
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  guint n = 0;

  while (dir != NULL && g_dir_read_name (dir) != NULL)
    n++;
  return n;
}
