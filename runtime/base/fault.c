/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/fault.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/trace.h"

#define MAX_DELAY_MS 60000
#define KILL_FLUSH_NS ((gint64) 200 * 1000000) /* the time for the last records to be written */

static TpsTraceEvent fault_injected = TPS_TRACE_EVENT ("fault_injected", TPS_TRACE_WARNING);

#define BIT(action) (1u << (action))

static const struct
{
  const gchar *name;
  guint actions;
} points[] = {
  [TPS_FAULT_AT_REQUEST] = { "request", BIT (TPS_FAULT_DROP) | BIT (TPS_FAULT_DUPLICATE)
                                            | BIT (TPS_FAULT_DISCONNECT) | BIT (TPS_FAULT_KILL) },
  [TPS_FAULT_AT_REPLY] = { "reply", BIT (TPS_FAULT_DROP) | BIT (TPS_FAULT_DELAY)
                                        | BIT (TPS_FAULT_DISCONNECT) | BIT (TPS_FAULT_KILL) },
  [TPS_FAULT_AT_READ] = { "read",
                          BIT (TPS_FAULT_DELAY) | BIT (TPS_FAULT_FAIL) | BIT (TPS_FAULT_KILL) },
  [TPS_FAULT_AT_RESERVE] = { "reserve", BIT (TPS_FAULT_DELAY) | BIT (TPS_FAULT_FAIL)
                                            | BIT (TPS_FAULT_FULL) | BIT (TPS_FAULT_KILL) },
  [TPS_FAULT_AT_WRITE] = { "write", BIT (TPS_FAULT_DELAY) | BIT (TPS_FAULT_FAIL)
                                        | BIT (TPS_FAULT_FULL) | BIT (TPS_FAULT_KILL) },
  [TPS_FAULT_AT_SYNC] = { "sync",
                          BIT (TPS_FAULT_DELAY) | BIT (TPS_FAULT_FAIL) | BIT (TPS_FAULT_KILL) },
  [TPS_FAULT_AT_SYNCED] = { "synced", BIT (TPS_FAULT_DELAY) | BIT (TPS_FAULT_KILL) },
};

static const gchar *const actions[] = {
  [TPS_FAULT_DROP] = "drop",           [TPS_FAULT_DELAY] = "delay",
  [TPS_FAULT_DUPLICATE] = "duplicate", [TPS_FAULT_DISCONNECT] = "disconnect",
  [TPS_FAULT_FAIL] = "fail",           [TPS_FAULT_FULL] = "full",
  [TPS_FAULT_KILL] = "kill",
};

typedef struct
{
  TpsFaultPoint point; /* 0: the specification is a seed */
  TpsFaultAction action;
  gint64 delay_ns;
  gdouble probability;
  guint64 after;
  guint64 count;
  gchar *on; /* NULL: any name */
  guint64 seed;
} Rule;

struct TpsFaultPlan
{
  TpsMutex lock;  /* guards everything */
  GArray *rules;  /* of Rule; `after` and `count` count down to 0 */
  guint64 random; /* the state of the generator */
};

/* ---- specifications -------------------------------------------------------------------------- */

static gboolean
refuse (const gchar *spec, const gchar *what, GError **error)
{
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "fault \"%s\": %s", spec, what);
}

static void
clear_rule (gpointer rule)
{
  g_clear_pointer (&((Rule *) rule)->on, g_free);
}

static gboolean
parse_key (Rule *rule, const gchar *key, const gchar *value)
{
  if (strcmp (key, "after") == 0)
    return g_ascii_string_to_unsigned (value, 10, 0, G_MAXUINT64, &rule->after, NULL);
  if (strcmp (key, "count") == 0)
    return g_ascii_string_to_unsigned (value, 10, 1, G_MAXUINT64, &rule->count, NULL);
  if (strcmp (key, "on") == 0 && rule->on == NULL)
    rule->on = g_strdup (value);
  else if (strcmp (key, "p") == 0)
    {
      gchar *end;

      rule->probability = g_ascii_strtod (value, &end);
      return end != value && *end == '\0' && rule->probability > 0 && rule->probability <= 1;
    }
  else
    return FALSE;
  return TRUE;
}

static gboolean
parse_keys (Rule *rule, const gchar *spec, GStrv parts, GError **error)
{
  for (; *parts != NULL; parts++)
    {
      gchar *value = strchr (*parts, '=');

      if (value != NULL)
        *value++ = '\0';
      if (value == NULL || !parse_key (rule, *parts, value))
        return refuse (spec, "expected p=PROBABILITY, after=N, count=N or on=TEXT after a comma",
                       error);
    }
  return TRUE;
}

static guint
find_action (const gchar *name)
{
  for (guint i = 1; i < G_N_ELEMENTS (actions); i++)
    if (strcmp (actions[i], name) == 0)
      return i;
  return 0;
}

/* Parses "delay=MILLISECONDS", or the name of another action. */
static gboolean
parse_action (Rule *rule, const gchar *spec, gchar *text, GError **error)
{
  gchar *value = strchr (text, '=');
  guint64 delay_ms;

  if (value != NULL)
    *value++ = '\0';
  rule->action = (TpsFaultAction) find_action (text);
  if (rule->action == TPS_FAULT_NONE || (points[rule->point].actions & BIT (rule->action)) == 0)
    return refuse (spec, "this point has no such action", error);
  if ((rule->action == TPS_FAULT_DELAY) != (value != NULL))
    return refuse (spec, "expected delay=MS; other actions have no value", error);
  if (value == NULL)
    return TRUE;
  if (!g_ascii_string_to_unsigned (value, 10, 0, MAX_DELAY_MS, &delay_ms, NULL))
    return refuse (spec, "expected a delay of 0 to 60000 milliseconds", error);
  rule->delay_ns = (gint64) delay_ms * 1000000;
  return TRUE;
}

static gboolean
find_point (Rule *rule, const gchar *name, gsize length)
{
  for (guint i = TPS_FAULT_AT_REQUEST; i < G_N_ELEMENTS (points); i++)
    if (strlen (points[i].name) == length && strncmp (points[i].name, name, length) == 0)
      {
        rule->point = (TpsFaultPoint) i;
        return TRUE;
      }
  return FALSE;
}

/* Parses a specification. The caller must clear the rule, even after an error. */
static gboolean
parse (const gchar *spec, Rule *rule, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (spec, ",", -1);
  gchar *colon = parts[0] != NULL ? strchr (parts[0], ':') : NULL;

  *rule = (Rule) { .probability = 1, .count = G_MAXUINT64 };
  if (g_str_has_prefix (spec, "seed="))
    return g_ascii_string_to_unsigned (spec + strlen ("seed="), 10, 0, G_MAXUINT64, &rule->seed,
                                       NULL)
           || refuse (spec, "expected seed=N", error);
  if (colon == NULL || !find_point (rule, parts[0], (gsize) (colon - parts[0])))
    return refuse (spec,
                   "expected POINT:ACTION, where POINT is request, reply, read, reserve, write, "
                   "sync or synced",
                   error);
  return parse_action (rule, spec, colon + 1, error) && parse_keys (rule, spec, parts + 1, error);
}

gboolean
tps_fault_check (const gchar *spec, GError **error)
{
  Rule rule;
  gboolean ok = parse (spec, &rule, error);

  clear_rule (&rule);
  return ok;
}

/* ---- plans ----------------------------------------------------------------------------------- */

TpsFaultPlan *
tps_fault_plan_new (const gchar *const *specs, GError **error)
{
  g_autoptr (TpsFaultPlan) plan = g_new0 (TpsFaultPlan, 1);

  tps_mutex_init (&plan->lock);
  plan->rules = g_array_new (FALSE, FALSE, sizeof (Rule));
  g_array_set_clear_func (plan->rules, clear_rule);
  for (; *specs != NULL; specs++)
    {
      Rule rule;

      if (!parse (*specs, &rule, error))
        {
          clear_rule (&rule);
          return NULL;
        }
      if (rule.point != 0)
        g_array_append_val (plan->rules, rule);
      else
        plan->random = rule.seed;
    }
  return g_steal_pointer (&plan);
}

void
tps_fault_plan_free (TpsFaultPlan *plan)
{
  if (plan == NULL)
    return;
  g_array_unref (plan->rules);
  tps_mutex_clear (&plan->lock);
  g_free (plan);
}

/* Returns a random number in [0, 1), by SplitMix64. The lock is held. */
static gdouble
draw_number (TpsFaultPlan *plan)
{
  guint64 z = (plan->random += G_GUINT64_CONSTANT (0x9e3779b97f4a7c15));

  z = (z ^ (z >> 30)) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return (gdouble) ((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Returns TRUE if the rule applies to this event, and counts the event. The lock is held. */
static gboolean
applies (TpsFaultPlan *plan, Rule *rule, TpsFaultPoint point, const gchar *name)
{
  if (rule->point != point || rule->count == 0
      || (rule->on != NULL && (name == NULL || strstr (name, rule->on) == NULL)))
    return FALSE;
  if (rule->after > 0)
    {
      rule->after--;
      return FALSE;
    }
  if (rule->probability < 1 && draw_number (plan) >= rule->probability)
    return FALSE;
  rule->count--;
  return TRUE;
}

static TpsFault
draw (TpsFaultPlan *plan, TpsFaultPoint point, const gchar *name)
{
  TpsFault fault = { TPS_FAULT_NONE, 0 };

  TPS_LOCK_SCOPE (&plan->lock);
  for (guint i = 0; i < plan->rules->len && fault.action == TPS_FAULT_NONE; i++)
    {
      Rule *rule = &g_array_index (plan->rules, Rule, i);

      if (applies (plan, rule, point, name))
        fault = (TpsFault) { rule->action, rule->delay_ns };
    }
  return fault;
}

TpsFault
tps_fault_plan_draw (TpsFaultPlan *plan, TpsFaultPoint point, const gchar *name)
{
  TpsFault fault = draw (plan, point, name);

  if (fault.action == TPS_FAULT_NONE)
    return fault;
  tps_trace (&fault_injected, tps_field_text ("point", points[point].name),
             tps_field_text ("action", actions[fault.action]), tps_field_text ("name", name));
  if (fault.action == TPS_FAULT_KILL)
    {
      tps_trace_flush (tps_clock_now_ns () + KILL_FLUSH_NS);
      kill (getpid (), SIGKILL);
    }
  return fault;
}
