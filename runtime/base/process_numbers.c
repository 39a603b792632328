/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/process_numbers.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

/* The number of fields of /proc/self/stat between the name of the program and the start time. The
 * name may contain spaces, so fields are counted from its closing parenthesis. */
#define FIELDS_BEFORE_START 19

static const TpsFamily cpu_seconds = TPS_FAMILY (
    COUNTER, "process_cpu_seconds_total", "CPU time of the process, in user and kernel mode.",
    .n_decimals = 9);
static const TpsFamily resident_memory = TPS_FAMILY (
    GAUGE, "process_resident_memory_bytes",
    "Resident memory of the process, including shared memory.");
static const TpsFamily start_time = TPS_FAMILY (GAUGE, "process_start_time_seconds",
                                                "Start of the process, in seconds since 1970.",
                                                .n_decimals = 3);
static const TpsFamily open_files = TPS_FAMILY (GAUGE, "process_open_fds",
                                                "Open file descriptors.");

static gint64
get_ns (clockid_t clock)
{
  struct timespec now;

  return clock_gettime (clock, &now) == 0 ? (gint64) now.tv_sec * 1000000000 + now.tv_nsec : 0;
}

/* The second number of the file is the resident memory in pages. */
static void
collect_memory (TpsReading *reading)
{
  g_autofree gchar *text = NULL;
  const gchar *space;

  if (!g_file_get_contents ("/proc/self/statm", &text, NULL, NULL)
      || (space = strchr (text, ' ')) == NULL)
    return;
  tps_reading_add (reading, &resident_memory, NULL, NULL,
                   g_ascii_strtoll (space, NULL, 10) * sysconf (_SC_PAGESIZE));
}

/* The file contains the start of the process, in ticks since the start of the system. */
static void
collect_start (TpsReading *reading)
{
  g_autofree gchar *text = NULL;
  const gchar *field;
  gint64 started_ms, up_ms = get_ns (CLOCK_BOOTTIME) / 1000000;

  if (!g_file_get_contents ("/proc/self/stat", &text, NULL, NULL)
      || (field = strrchr (text, ')')) == NULL)
    return;
  for (guint i = 0; field != NULL && i <= FIELDS_BEFORE_START; i++)
    field = strchr (field + 1, ' ');
  if (field == NULL)
    return;
  started_ms = g_ascii_strtoll (field, NULL, 10) * 1000 / sysconf (_SC_CLK_TCK);
  tps_reading_add (reading, &start_time, NULL, NULL,
                   g_get_real_time () / 1000 - (up_ms - started_ms));
}

static void
collect_files (TpsReading *reading)
{
  g_autoptr (GDir) files = g_dir_open ("/proc/self/fd", 0, NULL);
  gint64 n = -1; /* leaves out the descriptor of the folder itself */

  while (files != NULL && g_dir_read_name (files) != NULL)
    n++;
  if (files != NULL)
    tps_reading_add (reading, &open_files, NULL, NULL, n);
}

void
tps_process_numbers_collect (TpsReading *reading, gpointer unused)
{
  tps_reading_add (reading, &cpu_seconds, NULL, NULL, get_ns (CLOCK_PROCESS_CPUTIME_ID));
  collect_memory (reading);
  collect_start (reading);
  collect_files (reading);
}
