/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/trace.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/thread.h"
#include "runtime/base/trace_sinks.h"

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789_"

typedef struct
{
  gchar name[TPS_TRACE_MAX_AREA_BYTES + 1];
  TpsTraceLevel level;
} Area;

struct TpsTraceLevels
{
  TpsTraceLevel others; /* of areas without an item; 0 = not set yet */
  guint n_areas;
  Area areas[TPS_TRACE_MAX_AREAS];
};

#define NS_PER_S ((gint64) 1000000000)
#define INTERVAL_NS (NS_PER_S / TPS_TRACE_PER_SECOND)

/* A record in the queue: one block that contains its fields, followed by their texts. */
typedef struct Queued Queued;

struct Queued
{
  Queued *next;
  gsize n_bytes;
  TpsTraceRecord record;
  TpsTraceField fields[TPS_TRACE_MAX_FIELDS];
  gchar text[];
};

/* TpsTraceEvent.limit has the level in its low bits, and the generation of the levels above
 * them. */
#define LIMIT_BITS 3

static atomic_int max_level = TPS_TRACE_WARNING; /* of all areas */
static atomic_uint generation = 1;               /* of `current_levels`; never 0 */
static TpsMutex levels_lock = TPS_MUTEX_INIT;    /* guards the next, and changes of the two above */
static TpsTraceLevels *current_levels;           /* NULL = TPS_TRACE_WARNING everywhere */

static atomic_ullong n_suppressed_in_all;
static atomic_ullong n_dropped_in_all;

static TpsMutex sink_lock = TPS_MUTEX_INIT; /* held while the sink runs; taken before queue_lock */
static TpsTraceSink sink = tps_trace_glib_sink;
static gpointer sink_data;
static guint64 n_sunk; /* records that were passed to sinks */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static TpsCond queue_filled;
static TpsCond queue_written;
static TpsMutex queue_lock = TPS_MUTEX_INIT; /* guards everything below */
static Queued *first;
static Queued **last = &first;
static gsize n_queued_bytes;
static guint64 n_accepted; /* records that were ever queued */
static guint64 n_written;  /* of these, records that were passed to the sink */
static guint64 n_dropped;  /* records that were dropped and are not reported yet */
static gboolean has_writer;

static gboolean
refuse (const gchar *item, const gchar *problem, GError **error)
{
  return tps_fail (
      error, TPS_ERROR_INVALID_ARGUMENT,
      "log level \"%s\": %s; expected LEVEL or AREA=LEVEL with error, warning, info or "
      "debug, separated by commas",
      item, problem);
}

static gboolean
parse_level (const gchar *text, TpsTraceLevel *level)
{
  for (*level = TPS_TRACE_ERROR; *level <= TPS_TRACE_DEBUG; (*level)++)
    if (strcmp (text, tps_trace_level_name (*level)) == 0)
      return TRUE;
  return FALSE;
}

/* Returns the area `name`; NULL if there is none. */
static Area *
find_area (TpsTraceLevels *levels, const gchar *name, gsize n_bytes)
{
  for (guint i = 0; i < levels->n_areas; i++)
    if (strncmp (levels->areas[i].name, name, n_bytes) == 0
        && levels->areas[i].name[n_bytes] == '\0')
      return &levels->areas[i];
  return NULL;
}

/* Adds an area, whose name is the first `n_bytes` of `item`. */
static gboolean
add_area (TpsTraceLevels *levels, const gchar *item, gsize n_bytes, TpsTraceLevel level,
          GError **error)
{
  Area *area;

  if (n_bytes == 0 || n_bytes > TPS_TRACE_MAX_AREA_BYTES
      || strspn (item, NAME_CHARACTERS) != n_bytes)
    return refuse (item, "the area is not the name of a folder", error);
  if (find_area (levels, item, n_bytes) != NULL)
    return refuse (item, "the area is given twice", error);
  if (levels->n_areas == TPS_TRACE_MAX_AREAS)
    return refuse (item, "there are more than " G_STRINGIFY (TPS_TRACE_MAX_AREAS) " areas", error);
  area = &levels->areas[levels->n_areas++];
  memcpy (area->name, item, n_bytes);
  area->level = level;
  return TRUE;
}

static gboolean
add_item (TpsTraceLevels *levels, const gchar *item, GError **error)
{
  const gchar *equals = strchr (item, '=');
  TpsTraceLevel level;

  if (!parse_level (equals != NULL ? equals + 1 : item, &level))
    return refuse (item, "unknown level", error);
  if (equals != NULL)
    return add_area (levels, item, (gsize) (equals - item), level, error);
  if (levels->others != 0)
    return refuse (item, "the level of all other areas is given twice", error);
  levels->others = level;
  return TRUE;
}

TpsTraceLevels *
tps_trace_levels_parse (const gchar *text, GError **error)
{
  g_autoptr (TpsTraceLevels) levels = g_new0 (TpsTraceLevels, 1);
  g_auto (GStrv) items = NULL;
  gsize n_bytes = strnlen (text, TPS_TRACE_MAX_LEVELS_BYTES + 1);

  if (n_bytes == 0 || n_bytes > TPS_TRACE_MAX_LEVELS_BYTES)
    {
      refuse ("", n_bytes == 0 ? "it is empty" : "it is too long", error);
      return NULL;
    }
  items = g_strsplit (text, ",", -1);
  for (guint i = 0; items[i] != NULL; i++)
    if (!add_item (levels, g_strstrip (items[i]), error))
      return NULL;
  if (levels->others == 0)
    levels->others = TPS_TRACE_INFO;
  return g_steal_pointer (&levels);
}

void
tps_trace_levels_free (TpsTraceLevels *levels)
{
  g_free (levels);
}

/* The innermost folder with a level decides. */
TpsTraceLevel
tps_trace_levels_find (const TpsTraceLevels *levels, const gchar *file)
{
  const gchar *end = strrchr (file, '/');

  while (end != NULL)
    {
      const gchar *slash = g_strrstr_len (file, end - file, "/");
      const gchar *name = slash != NULL ? slash + 1 : file;
      const Area *area = find_area ((TpsTraceLevels *) (gsize) levels, name, (gsize) (end - name));

      if (area != NULL)
        return area->level;
      end = slash;
    }
  return levels->others;
}

/* Takes ownership of `new_levels`. */
static void
set_levels (TpsTraceLevels *new_levels)
{
  TpsTraceLevel max = new_levels->others;
  guint next;

  for (guint i = 0; i < new_levels->n_areas; i++)
    max = MAX (max, new_levels->areas[i].level);
  TPS_LOCK_SCOPE (&levels_lock);
  g_clear_pointer (&current_levels, tps_trace_levels_free);
  current_levels = new_levels;
  next = (atomic_load_explicit (&generation, memory_order_relaxed) + 1) & (G_MAXUINT >> LIMIT_BITS);
  atomic_store_explicit (&generation, MAX (next, 1), memory_order_relaxed);
  atomic_store_explicit (&max_level, (gint) max, memory_order_relaxed);
}

gboolean
tps_trace_set_levels (const gchar *text, GError **error)
{
  TpsTraceLevels *parsed = tps_trace_levels_parse (text, error);

  if (parsed != NULL)
    set_levels (parsed);
  return parsed != NULL;
}

gchar *
tps_trace_dup_levels (void)
{
  const TpsTraceLevels initial = { .others = TPS_TRACE_WARNING };
  const TpsTraceLevels *levels;
  GString *text;

  TPS_LOCK_SCOPE (&levels_lock);
  levels = current_levels != NULL ? current_levels : &initial;
  text = g_string_new (tps_trace_level_name (levels->others));
  for (guint i = 0; i < levels->n_areas; i++)
    g_string_append_printf (text, ",%s=%s", levels->areas[i].name,
                            tps_trace_level_name (levels->areas[i].level));
  return g_string_free (text, FALSE);
}

/* Finds the level of the event's area and keeps it in the event until the levels change. */
static guint
find_limit (TpsTraceEvent *event)
{
  guint limit;

  TPS_LOCK_SCOPE (&levels_lock);
  limit = current_levels != NULL ? tps_trace_levels_find (current_levels, event->file)
                                 : TPS_TRACE_WARNING;
  limit |= atomic_load_explicit (&generation, memory_order_relaxed) << LIMIT_BITS;
  __atomic_store_n (&event->limit, limit, __ATOMIC_RELAXED);
  return limit;
}

gboolean
tps_trace_is_wanted (TpsTraceEvent *event)
{
  guint limit;

  if ((gint) event->level > atomic_load_explicit (&max_level, memory_order_relaxed))
    return FALSE;
  limit = __atomic_load_n (&event->limit, __ATOMIC_RELAXED);
  if (limit >> LIMIT_BITS != atomic_load_explicit (&generation, memory_order_relaxed))
    limit = find_limit (event);
  return event->level <= (limit & ((1 << LIMIT_BITS) - 1));
}

/* Returns TRUE if the rate of the event allows a record now. Each record advances `used_until_ns`
 * by an interval, up to TPS_TRACE_BURST intervals ahead of the clock. */
static gboolean
take_token (TpsTraceEvent *event, gint64 now_ns)
{
  gint64 used_until_ns = __atomic_load_n (&event->used_until_ns, __ATOMIC_RELAXED);
  gint64 next_ns;

  do
    {
      next_ns = MAX (used_until_ns, now_ns) + INTERVAL_NS;
      if (next_ns > now_ns + TPS_TRACE_BURST * INTERVAL_NS)
        return FALSE;
    }
  while (!__atomic_compare_exchange_n (&event->used_until_ns, &used_until_ns, next_ns, TRUE,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return TRUE;
}

static void
write_record (TpsTraceRecord *record)
{
  TPS_LOCK_SCOPE (&sink_lock);
  record->sequence = ++n_sunk;
  sink (record, sink_data);
}

void
tps_trace_set_sink (TpsTraceSink new_sink, gpointer user_data)
{
  TPS_LOCK_SCOPE (&sink_lock);
  sink = new_sink != NULL ? new_sink : tps_trace_glib_sink;
  sink_data = user_data;
}

static void
init_conds (void)
{
  tps_cond_init (&queue_filled);
  tps_cond_init (&queue_written);
}

/* Removes the first record and passes it to the sink. The queue's lock is held; it is released
 * during the write. */
static void
write_first (void)
{
  Queued *queued = first;

  first = queued->next;
  if (first == NULL)
    last = &first;
  n_queued_bytes -= queued->n_bytes;
  tps_mutex_unlock (&queue_lock);
  write_record (&queued->record);
  g_free (queued);
  tps_mutex_lock (&queue_lock);
  n_written++;
  tps_cond_broadcast (&queue_written);
}

/* Reports the number of dropped records. The queue's lock is held; it is released during the
 * write. */
static void
tell_dropped (void)
{
  TpsTraceField field = tps_field_uint ("count", n_dropped);
  TpsTraceRecord record = {
    .time_us = g_get_real_time (),
    .level = TPS_TRACE_WARNING,
    .event = "trace_dropped",
    .fields = &field,
    .n_fields = 1,
    .file = __FILE__,
  };

  n_dropped = 0;
  tps_mutex_unlock (&queue_lock);
  write_record (&record);
  tps_mutex_lock (&queue_lock);
}

static void *
run_writer (void *unused)
{
  tps_mutex_lock (&queue_lock);
  for (;;)
    if (first != NULL)
      write_first ();
    else if (n_dropped > 0)
      tell_dropped ();
    else
      tps_cond_wait (&queue_filled, &queue_lock);
  return NULL;
}

/* Takes ownership of `queued`. Returns FALSE if it was dropped. */
static gboolean
push (Queued *queued)
{
  gboolean pushed;

  pthread_once (&once, init_conds);
  tps_mutex_lock (&queue_lock);
  /* The writer thread lives as long as the process. */
  has_writer = has_writer || tps_thread_start_detached ("tps-trace", run_writer, NULL, NULL);
  pushed = has_writer && n_queued_bytes + queued->n_bytes <= TPS_TRACE_MAX_QUEUED_BYTES;
  if (pushed)
    {
      *last = queued;
      last = &queued->next;
      n_queued_bytes += queued->n_bytes;
      n_accepted++;
      tps_cond_signal (&queue_filled);
    }
  else
    n_dropped++;
  tps_mutex_unlock (&queue_lock);
  if (!pushed)
    g_free (queued);
  return pushed;
}

/* Copies a text to `*room`, and moves `*room` to the end of the copy. */
static const gchar *
copy_text (const gchar *text, gchar **room)
{
  gsize n_bytes = strnlen (text, TPS_TRACE_MAX_TEXT);
  gchar *copy = memcpy (*room, text, n_bytes);

  copy[n_bytes] = '\0';
  *room += n_bytes + 1;
  return copy;
}

static Queued *
queued_new (const TpsTraceEvent *event, const TpsTraceField *fields, guint n_fields)
{
  gsize n_bytes = sizeof (Queued);
  Queued *queued;
  gchar *room;

  for (guint i = 0; i < n_fields; i++)
    if (fields[i].kind == TPS_FIELD_TEXT && fields[i].value.text != NULL)
      n_bytes += strnlen (fields[i].value.text, TPS_TRACE_MAX_TEXT) + 1;
  queued = g_malloc (n_bytes);
  queued->next = NULL;
  queued->n_bytes = n_bytes;
  queued->record = (TpsTraceRecord) {
    .time_us = g_get_real_time (),
    .level = event->level,
    .event = event->name,
    .fields = queued->fields,
    .file = event->file,
  };
  room = queued->text;
  for (guint i = 0; i < n_fields; i++)
    {
      TpsTraceField *field = &queued->fields[queued->record.n_fields];

      *field = fields[i];
      if (field->kind != TPS_FIELD_TEXT)
        queued->record.n_fields++;
      else if (field->value.text != NULL)
        {
          field->value.text = copy_text (field->value.text, &room);
          queued->record.n_fields++;
        }
    }
  return queued;
}

void
tps_trace_emit (TpsTraceEvent *event, const TpsTraceField *fields, guint n_fields)
{
  guint64 n_suppressed;
  Queued *queued;

  if (!tps_trace_is_wanted (event))
    return;
  if (!take_token (event, tps_clock_now_ns ()))
    {
      __atomic_fetch_add (&event->n_suppressed, 1, __ATOMIC_RELAXED);
      atomic_fetch_add_explicit (&n_suppressed_in_all, 1, memory_order_relaxed);
      return;
    }
  queued = queued_new (event, fields, MIN (n_fields, TPS_TRACE_MAX_FIELDS));
  n_suppressed = __atomic_exchange_n (&event->n_suppressed, 0, __ATOMIC_RELAXED);
  queued->record.n_suppressed = n_suppressed;
  if (push (queued))
    return;
  /* The next record of the event reports them. */
  __atomic_fetch_add (&event->n_suppressed, n_suppressed, __ATOMIC_RELAXED);
  atomic_fetch_add_explicit (&n_dropped_in_all, 1, memory_order_relaxed);
}

gboolean
tps_trace_flush (gint64 deadline_ns)
{
  gboolean in_time = TRUE;
  guint64 until;

  pthread_once (&once, init_conds);
  TPS_LOCK_SCOPE (&queue_lock);
  until = n_accepted;
  while (n_written < until && in_time)
    in_time = tps_cond_wait_until (&queue_written, &queue_lock, deadline_ns);
  in_time = n_written >= until;
  return in_time;
}

void
tps_trace_get_stats (TpsTraceStats *stats)
{
  tps_mutex_lock (&queue_lock);
  stats->n_written = n_written;
  tps_mutex_unlock (&queue_lock);
  stats->n_suppressed = atomic_load (&n_suppressed_in_all);
  stats->n_dropped = atomic_load (&n_dropped_in_all);
}
