/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/process/child.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/process/interrupt.h"
#include "bench/process/python.h"
#include "runtime/base/error.h"

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

/* As read_more(), but the end of the output is an error. If a child has exited, the error names
 * it. */
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
