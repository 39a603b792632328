/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The sequence without failures: read the card of the master, check that the rank is free, put the
 * role's own card, and find this card under the welcome key. */

#include "bench/world/enroll.h"

#include <string.h>

#include "bench/process/interrupt.h"
#include "bench/process/reachable.h"
#include "plugin/client/stubs.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define CALL_NS (5 * SECOND_NS)
#define POLL_MS 100

typedef struct
{
  TpsClient *master;
  const TpsWorld *world;
  TpsCard *card;
  gint64 deadline_ns;
} Enrolment;

/* Returns TRUE if a retry can help: the master is not listening yet, or the key does not exist
 * yet. */
static gboolean
is_early (const GError *error)
{
  return tps_error_damage (error) == TPS_DAMAGE_CONNECTION
         || g_error_matches (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED)
         || g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND);
}

/* Sets the error if the master replies, but the key does not exist. Takes over `cause`. */
static void
fail_without_key (const Enrolment *self, GError *cause, GError **error)
{
  g_autofree gchar *place = tps_world_get_master (self->world);

  g_set_error (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED,
               "the master at %s has not accepted %s within %d s (--startup-timeout)", place,
               tps_card_get (self->card, "name"), self->world->startup_timeout);
  g_error_free (cause);
}

/* Sets the error if no master replies. A frequent cause is a name that resolves to loopback on the
 * host of the master. Takes over `cause`. */
static void
fail_without_master (const Enrolment *self, GError *cause, GError **error)
{
  g_autofree gchar *place = tps_world_get_master (self->world);
  g_autofree gchar *address = tps_reachable_resolve (self->world->master_addr);
  gboolean is_name = g_strcmp0 (address, self->world->master_addr) != 0;

  g_set_error (
      error, TPS_ERROR, cause->code, "no master at %s%s%s%s within %d s (--startup-timeout): %s%s",
      place, is_name && address != NULL ? " (" : "", is_name && address != NULL ? address : "",
      is_name && address != NULL ? ")" : "", self->world->startup_timeout, cause->message,
      is_name ? "; if the master runs there, its host may resolve this name to loopback: see the "
                "master's output"
              : "");
  g_error_free (cause);
}

/* Waits for the key until the deadline. Between two attempts, `gives_up` can end the wait with an
 * error. The caller owns the result. */
static GBytes *
wait_for (const Enrolment *self, const gchar *key,
          gboolean (*gives_up) (const Enrolment *self, GError **error), GError **error)
{
  for (;;)
    {
      GError *local = NULL;
      GBytes *value = tps_remote_get (self->master, key, POLL_MS, tps_clock_now_ns () + CALL_NS,
                                      &local);

      if (value != NULL)
        return value;
      if (!tps_interrupt_check (error) || (gives_up != NULL && gives_up (self, error)))
        {
          g_error_free (local);
          return NULL;
        }
      if (!is_early (local) || tps_clock_now_ns () > self->deadline_ns)
        {
          if (tps_error_damage (local) == TPS_DAMAGE_CONNECTION)
            fail_without_master (self, local, error);
          else
            fail_without_key (self, local, error);
          return NULL;
        }
      if (tps_error_damage (local) == TPS_DAMAGE_CONNECTION)
        g_usleep (POLL_MS * 1000);
      g_error_free (local);
    }
}

/* Checks the job of the master, and restarts the startup timeout: the master waits for all
 * roles. */
static gboolean
check_job (Enrolment *self, GError **error)
{
  g_autoptr (GBytes) bytes = wait_for (self, TPS_WORLD_MASTER_KEY, NULL, error);
  g_autoptr (TpsCard) master = NULL;
  g_autofree gchar *name = NULL;
  g_autofree gchar *place = NULL;

  if (bytes == NULL)
    return FALSE;
  self->deadline_ns = tps_clock_now_ns () + self->world->startup_timeout * SECOND_NS;
  master = tps_card_decode (bytes);
  if (self->world->job == NULL || g_str_equal (self->world->job, tps_card_get (master, "job")))
    return TRUE;
  name = tps_card_describe (master);
  place = tps_world_get_master (self->world);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "this role is of job %s, but at %s is the %s of job %s; use another --master-port",
               self->world->job, place, name, tps_card_get (master, "job"));
  return FALSE;
}

/* Checks that `bytes`, the card of the process with this rank, is the card of this process. */
static gboolean
check_mine (const Enrolment *self, GBytes *bytes, GError **error)
{
  g_autoptr (TpsCard) other = tps_card_decode (bytes);
  g_autofree gchar *me = NULL;
  g_autofree gchar *them = NULL;

  if (g_str_equal (tps_card_get (other, "nonce"), tps_card_get (self->card, "nonce")))
    return TRUE;
  me = tps_card_describe (self->card);
  them = tps_card_describe (other);
  g_set_error (
      error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS,
      "this is %s, but rank %d of that world is taken by %s at %s; a second world needs another --master-port, "
      "and --job distinguishes worlds",
      me, self->world->rank, them, tps_card_get (other, "address"));
  return FALSE;
}

/* Checks that the rank is free. If another process has the rank, its card must not be replaced. */
static gboolean
check_free (const Enrolment *self, const gchar *key, GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autoptr (GBytes)
      taken = tps_remote_get (self->master, key, 0, tps_clock_now_ns () + CALL_NS, &local);

  return taken == NULL || check_mine (self, taken, error);
}

/* Returns TRUE if the master has ended the run, because of this role or of another one. */
static gboolean
has_stopped (const Enrolment *self, GError **error)
{
  g_autoptr (GBytes) stop = tps_remote_get (self->master, TPS_WORLD_STOP_KEY, 0,
                                            tps_clock_now_ns () + CALL_NS, NULL);

  if (stop == NULL)
    return FALSE;
  tps_enroll_confirm_stop (self->master, self->world);
  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED, "the run failed: %.*s",
               (gint) g_bytes_get_size (stop), (const gchar *) g_bytes_get_data (stop, NULL));
  return TRUE;
}

/* Puts the card under the key of the role, and waits until the master has copied it to the welcome
 * key. */
static gboolean
apply (const Enrolment *self, GError **error)
{
  guint rank = (guint) self->world->rank;
  g_autofree gchar *role_key = tps_world_get_role_key (rank);
  g_autofree gchar *welcome_key = tps_world_get_welcome_key (rank);
  g_autoptr (GBytes) card = tps_card_encode (self->card);
  g_autoptr (GBytes) taken = NULL;

  if (!check_free (self, welcome_key, error)
      || !tps_remote_put (self->master, role_key, card, tps_clock_now_ns () + CALL_NS, error))
    return FALSE;
  taken = wait_for (self, welcome_key, has_stopped, error);
  return taken != NULL && check_mine (self, taken, error);
}

gboolean
tps_enroll (TpsClient *master, const TpsWorld *world, const gchar *name, const gchar *address,
            const GPtrArray *flags, GError **error)
{
  g_autoptr (TpsCard) card = tps_card_new (world, name, address, flags);
  Enrolment self = { .master = master,
                     .world = world,
                     .card = card,
                     .deadline_ns = tps_clock_now_ns () + world->startup_timeout * SECOND_NS };

  return check_job (&self, error) && apply (&self, error);
}

void
tps_enroll_confirm_stop (TpsClient *master, const TpsWorld *world)
{
  g_autofree gchar *key = tps_world_get_stopped_key ((guint) world->rank);
  g_autoptr (GBytes) value = g_bytes_new_static ("", 0);

  tps_remote_put (master, key, value, tps_clock_now_ns () + SECOND_NS, NULL);
}
