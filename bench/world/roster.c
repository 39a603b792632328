/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/roster.h"

#include <string.h>

#include "bench/process/interrupt.h"
#include "bench/process/reachable.h"
#include "plugin/client/stubs.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define CALL_NS (30 * SECOND_NS)
#define STOP_NS (SECOND_NS / 2) /* the maximum time until all roles have seen the stop */
#define MEET_MS 100             /* milliseconds between checks for interrupts and ended children */

/* Returns the deadline after `span_ns`. */
static gint64
in (gint64 span_ns)
{
  return tps_clock_now_ns () + span_ns;
}

static void
role_free (gpointer data)
{
  TpsRole *role = data;

  g_clear_pointer (&role->client, tps_client_free);
  g_clear_pointer (&role->card, tps_card_free);
  tps_train_status_clear (&role->status);
  g_free (role->name);
  g_free (role->address);
  g_free (role);
}

static TpsRole *
role_new (const TpsWorld *world, guint rank)
{
  TpsRole *role = g_new0 (TpsRole, 1);

  role->rank = rank;
  role->kind = tps_world_get_kind (world, rank);
  role->name = tps_world_get_name (world, rank);
  return role;
}

TpsRoster *
tps_roster_new (const TpsWorld *world, TpsClient *self, TpsCard *card, const gchar *address)
{
  TpsRoster *roster = g_new0 (TpsRoster, 1);

  roster->world = world;
  roster->self = self;
  roster->card = card;
  roster->address = g_strdup (address);
  roster->roles = g_ptr_array_new_with_free_func (role_free);
  for (guint rank = 0; rank + 1 < tps_world_get_size (world); rank++)
    g_ptr_array_add (roster->roles, role_new (world, rank));
  return roster;
}

void
tps_roster_free (TpsRoster *roster)
{
  g_ptr_array_unref (roster->roles);
  tps_card_free (roster->card);
  g_free (roster->address);
  g_free (roster);
}

/* -- registration -- */

/* Accepts the role with the card `bytes`, and connects to the role. */
static gboolean
welcome (TpsRoster *roster, TpsRole *role, GBytes *bytes, GError **error)
{
  g_autofree gchar *key = tps_world_get_welcome_key (role->rank);
  TpsClientOptions options = { 0 };

  role->card = tps_card_decode (bytes);
  role->address = tps_card_dup_address (role->card);
  if (!tps_card_check (role->card, roster->card, error))
    return FALSE;
  options.address = role->address;
  role->client = tps_client_new (&options, error);
  return role->client != NULL && tps_remote_put (roster->self, key, bytes, in (CALL_NS), error);
}

/* Accepts a role that has put its card. `*has_come` is FALSE if there is no card yet. */
static gboolean
look_for (TpsRoster *roster, TpsRole *role, gint32 timeout_ms, gboolean *has_come, GError **error)
{
  g_autofree gchar *key = tps_world_get_role_key (role->rank);
  g_autoptr (GError) local = NULL;
  g_autoptr (GBytes) bytes = tps_remote_get (roster->self, key, timeout_ms, in (CALL_NS), &local);

  *has_come = bytes != NULL;
  if (bytes != NULL)
    return welcome (roster, role, bytes, error);
  if (g_error_matches (local, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED)
      || g_error_matches (local, TPS_ERROR, TPS_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

/* Waits for the first missing role for a short time, and polls the others. */
static gboolean
look_for_all (TpsRoster *roster, gboolean *all_there, GError **error)
{
  *all_there = TRUE;
  for (guint i = 0; i < roster->roles->len; i++)
    {
      TpsRole *role = roster->roles->pdata[i];
      gboolean has_come;

      if (role->client != NULL)
        continue;
      if (!look_for (roster, role, *all_there ? MEET_MS : 0, &has_come, error))
        return FALSE;
      *all_there = *all_there && has_come;
    }
  return TRUE;
}

gchar *
tps_roster_explain_loopback (const TpsWorld *world, gboolean any)
{
  const gchar *host = world->bind != NULL ? world->bind : world->master_addr;
  g_autofree gchar *address = tps_reachable_resolve (host);
  g_autofree gchar *others = NULL;
  g_autofree gchar *where = NULL;
  gboolean is_said = g_strcmp0 (host, address) == 0 || g_str_equal (host, "localhost");

  if (world->rank < 0 || address == NULL || !tps_reachable_is_loopback (address)
      || (is_said && !any))
    return NULL;
  others = tps_reachable_list ();
  where = is_said ? g_strdup ("") : g_strdup_printf (" is %s here (see /etc/hosts),", address);
  return g_strdup_printf (
      "%s%s%s a loopback address, which roles on other hosts cannot reach; if there are any, give "
      "all of them and the master --master-addr=ADDRESS with an address of this host (%s)",
      host, where, is_said ? " is" : "", others[0] != '\0' ? others : "it has only loopback");
}

static gboolean
name_missing (const TpsRoster *roster, GError **error)
{
  g_autoptr (GString) names = g_string_new (NULL);
  g_autofree gchar *loopback = tps_roster_explain_loopback (roster->world, TRUE);
  guint n_missing = 0;

  for (guint i = 0; i < roster->roles->len; i++)
    {
      TpsRole *role = roster->roles->pdata[i];

      if (role->client == NULL)
        g_string_append_printf (names, "%s%s", n_missing++ > 0 ? ", " : "", role->name);
    }
  g_set_error (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED,
               "%s %s not come up in %d s (--startup-timeout); the master listens at %s%s%s",
               names->str, n_missing > 1 ? "have" : "has", roster->world->startup_timeout,
               roster->address, loopback != NULL ? "; " : "", loopback != NULL ? loopback : "");
  return FALSE;
}

static gboolean
is_loopback (const TpsRole *role)
{
  const gchar *colon = strrchr (role->address, ':');
  g_autofree gchar *host = NULL;

  if (g_str_has_prefix (role->address, "unix:") || colon == NULL)
    return FALSE;
  host = role->address[0] == '['
             ? g_strndup (role->address + 1, (gsize) (colon - role->address) - 2)
             : g_strndup (role->address, (gsize) (colon - role->address));
  return tps_reachable_is_loopback (host);
}

/* If a role resolves the name of the master's host to loopback, it serves there. Roles on other
 * hosts then cannot reach it. */
static gboolean
check_reach (const TpsRoster *roster, GError **error)
{
  const TpsRole *inside = NULL, *outside = NULL;

  for (guint i = 0; i < roster->roles->len; i++)
    {
      const TpsRole *role = roster->roles->pdata[i];

      if (g_str_has_prefix (role->address, "unix:"))
        continue;
      if (is_loopback (role))
        inside = role;
      else
        outside = role;
    }
  if (inside == NULL || outside == NULL)
    return TRUE;
  g_set_error (
      error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
      "%s on %s serves at %s, which %s on %s cannot reach: %s is loopback there (see its /etc/hosts); "
      "start it with --bind=ADDRESS, or all with --master-addr=ADDRESS",
      inside->name, tps_card_get (inside->card, "host"), inside->address, outside->name,
      tps_card_get (outside->card, "host"), roster->world->master_addr);
  return FALSE;
}

gboolean
tps_roster_meet (TpsRoster *roster, gboolean (*check) (gpointer user_data, GError **error),
                 gpointer user_data, GError **error)
{
  gint64 deadline_ns = in (roster->world->startup_timeout * SECOND_NS);
  gboolean all_there = FALSE;

  for (;;)
    {
      if (!look_for_all (roster, &all_there, error) || !check (user_data, error))
        return FALSE;
      if (all_there)
        return check_reach (roster, error);
      if (tps_clock_now_ns () > deadline_ns)
        return name_missing (roster, error);
    }
}

/* -- the end -- */

static void
wait_until_stopped (TpsRoster *roster, TpsRole *role, gint64 deadline_ns)
{
  g_autofree gchar *key = tps_world_get_stopped_key (role->rank);
  gint64 left_ms = MAX (deadline_ns - tps_clock_now_ns (), 0) / 1000000;
  GBytes *stopped = tps_remote_get (roster->self, key, (gint32) left_ms, in (CALL_NS), NULL);

  g_clear_pointer (&stopped, g_bytes_unref);
}

/* Returns TRUE if the role has put its card, even if the master has not accepted it. */
static gboolean
has_come (TpsRoster *roster, TpsRole *role)
{
  g_autofree gchar *key = tps_world_get_role_key (role->rank);
  g_autoptr (GBytes) bytes = NULL;

  if (role->card == NULL)
    bytes = tps_remote_get (roster->self, key, 0, in (CALL_NS), NULL);
  return role->card != NULL || bytes != NULL;
}

void
tps_roster_stop (TpsRoster *roster, const gchar *failure)
{
  const gchar *text = failure != NULL ? failure : "";
  g_autoptr (GBytes) stop = g_bytes_new (text, strlen (text));
  gint64 deadline_ns = in (STOP_NS);

  tps_remote_put (roster->self, TPS_WORLD_STOP_KEY, stop, in (CALL_NS), NULL);
  for (guint i = 0; i < roster->roles->len && !tps_interrupt_is_set (); i++)
    {
      TpsRole *role = roster->roles->pdata[i];

      if (!role->is_lost && has_come (roster, role))
        wait_until_stopped (roster, role, deadline_ns);
    }
}

/* -- names -- */

/* Finds the whole `address` in `text`: the match must not be the prefix of a longer port. */
static const gchar *
find_address (const gchar *text, const gchar *address)
{
  gsize n_bytes = strlen (address);
  const gchar *found = strstr (text, address);

  while (found != NULL && g_ascii_isdigit (found[n_bytes]))
    found = strstr (found + 1, address);
  return found;
}

/* Returns TRUE if the name already precedes the address, as in "trainer1: 10.0.0.2:4013". */
static gboolean
is_named (const gchar *text, const gchar *found, const gchar *name)
{
  gsize n_bytes = strlen (name);

  return (gsize) (found - text) >= n_bytes + 2 && strncmp (found - 2, ": ", 2) == 0
         && strncmp (found - 2 - n_bytes, name, n_bytes) == 0;
}

static void
name_address (GError *error, const gchar *name, const gchar *address)
{
  const gchar *found = address != NULL ? find_address (error->message, address) : NULL;
  gchar *named;

  if (found == NULL || is_named (error->message, found, name))
    return;
  named = g_strdup_printf ("%.*s%s at %s", (gint) (found - error->message), error->message, name,
                           found);
  g_free (error->message);
  error->message = named;
}

void
tps_roster_name_addresses (const TpsRoster *roster, GError *error)
{
  name_address (error, "the master", roster->address);
  for (guint i = 0; i < roster->roles->len; i++)
    {
      const TpsRole *role = roster->roles->pdata[i];

      name_address (error, role->name, role->address);
    }
}
