/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/card.h"

#include <string.h>
#include <unistd.h>

#include "runtime/base/error.h"

#define ENOUGH_BYTES 2000 /* bytes of text after which a message lists no more differences */

struct TpsCard
{
  GPtrArray *lines; /* of gchar, "name=value" */
};

static TpsCard *
card_new (void)
{
  TpsCard *card = g_new0 (TpsCard, 1);

  card->lines = g_ptr_array_new_with_free_func (g_free);
  return card;
}

/* Adds a line. The value is escaped, so it cannot end the line; it stays escaped in messages. */
static void
add (TpsCard *card, const gchar *name, const gchar *value)
{
  g_autofree gchar *line = g_strconcat (name, "=", value != NULL ? value : "", NULL);

  g_ptr_array_add (card->lines, g_strescape (line, NULL));
}

TpsCard *
tps_card_new (const TpsWorld *world, const gchar *name, const gchar *address,
              const GPtrArray *flags)
{
  TpsCard *card = card_new ();
  g_autofree gchar *pid = g_strdup_printf ("%d", (gint) getpid ());
  g_autofree gchar *nonce = g_uuid_string_random ();

  add (card, "job", world->job);
  add (card, "version", TPS_VERSION);
  add (card, "program", world->program);
  add (card, "name", name);
  add (card, "host", g_get_host_name ());
  add (card, "pid", pid);
  add (card, "nonce", nonce);
  add (card, "address", address);
  for (guint i = 0; i < flags->len; i++)
    {
      g_autofree gchar *line = g_strconcat ("--", flags->pdata[i], NULL);

      g_ptr_array_add (card->lines, g_strescape (line, NULL));
    }
  return card;
}

void
tps_card_free (TpsCard *card)
{
  g_ptr_array_unref (card->lines);
  g_free (card);
}

GBytes *
tps_card_encode (const TpsCard *card)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < card->lines->len; i++)
    g_string_append_printf (text, "%s\n", (const gchar *) card->lines->pdata[i]);
  return g_string_free_to_bytes (text);
}

/* Escapes the text again: a foreign card must not write control characters to a terminal. */
TpsCard *
tps_card_decode (GBytes *bytes)
{
  TpsCard *card = card_new ();
  gsize n_bytes;
  const gchar *data = g_bytes_get_data (bytes, &n_bytes);
  g_autofree gchar *text = g_strndup (n_bytes > 0 ? data : "", n_bytes);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  for (gchar **line = lines; *line != NULL; line++)
    if (strchr (*line, '=') != NULL)
      g_ptr_array_add (card->lines, g_strescape (*line, "\\\""));
  return card;
}

/* Returns the value of a line whose name has `n_bytes` bytes; NULL if there is none. Borrowed. */
static const gchar *
find (const TpsCard *card, const gchar *name, gsize n_bytes)
{
  for (guint i = 0; i < card->lines->len; i++)
    {
      const gchar *line = card->lines->pdata[i];

      if (strncmp (line, name, n_bytes) == 0 && line[n_bytes] == '=')
        return line + n_bytes + 1;
    }
  return NULL;
}

const gchar *
tps_card_get (const TpsCard *card, const gchar *name)
{
  const gchar *value = find (card, name, strlen (name));

  return value != NULL ? value : "";
}

gchar *
tps_card_dup_address (const TpsCard *card)
{
  return g_strcompress (tps_card_get (card, "address"));
}

gchar *
tps_card_describe (const TpsCard *card)
{
  return g_strdup_printf ("%s (pid %s on %s)", tps_card_get (card, "name"),
                          tps_card_get (card, "pid"), tps_card_get (card, "host"));
}

/* Adds the flags of the role that the master does not have, or has with another value. */
static void
add_differences (const TpsCard *role, const TpsCard *master, GString *text)
{
  for (guint i = 0; i < role->lines->len && text->len < ENOUGH_BYTES; i++)
    {
      const gchar *line = role->lines->pdata[i];
      gsize n_bytes = strcspn (line, "=");
      const gchar *other = find (master, line, n_bytes);
      g_autofree gchar *flag = g_strndup (line, n_bytes);

      if (!g_str_has_prefix (line, "--") || tps_world_is_local_flag (flag + 2))
        continue;
      if (other == NULL)
        g_string_append_printf (text, "; %s, which the master does not have", line);
      else if (!g_str_equal (line + n_bytes + 1, other))
        g_string_append_printf (text, "; %s, the master has %s=%s", line, flag, other);
    }
}

/* Adds the flags of the master that the role does not have. */
static void
add_missing (const TpsCard *role, const TpsCard *master, GString *text)
{
  for (guint i = 0; i < master->lines->len && text->len < ENOUGH_BYTES; i++)
    {
      const gchar *line = master->lines->pdata[i];
      gsize n_bytes = strcspn (line, "=");
      g_autofree gchar *flag = g_strndup (line, n_bytes);

      if (g_str_has_prefix (line, "--") && !tps_world_is_local_flag (flag + 2)
          && find (role, line, n_bytes) == NULL)
        g_string_append_printf (text, "; no %s, the master has %s", flag, line);
    }
}

gboolean
tps_card_check (const TpsCard *role, const TpsCard *master, GError **error)
{
  static const gchar *const names[] = { "program", "version" };
  g_autoptr (GString) text = g_string_new (NULL);
  g_autofree gchar *who = tps_card_describe (role);
  g_autofree gchar *whom = tps_card_describe (master);

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (!g_str_equal (tps_card_get (role, names[i]), tps_card_get (master, names[i])))
      g_string_append_printf (text, "; %s %s, the master has %s", names[i],
                              tps_card_get (role, names[i]), tps_card_get (master, names[i]));
  if (text->len == 0) /* differences of flags only matter if program and version are equal */
    {
      add_differences (role, master, text);
      add_missing (role, master, text);
    }
  if (text->len == 0)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "%s does not match the world of the %s: %s", who, whom, text->str + 2);
  return FALSE;
}
