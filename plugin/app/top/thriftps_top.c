/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A view of a server's figures in a terminal, like top(1). The program collects the samples of an
 * interval from /events, requests /status, and then shows a page, or prints text or a line of JSON.
 * Then the next interval begins.
 *
 * Exit codes: 0 done; 1 the server cannot be reached or does not answer; 2 the arguments are
 * invalid.
 */

#include <errno.h>
#include <glib-unix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/app/top/event_stream.h"
#include "plugin/app/top/figures.h"
#include "plugin/app/top/request.h"
#include "plugin/app/top/screen.h"
#include "plugin/app/top/view.h"
#include "runtime/base/error.h"
#include "runtime/base/options.h"
#include "runtime/base/text_file.h"
#include "runtime/base/version.h"

#define RETRY_MS 1000
#define TIMEOUT_S 30 /* without a received byte; the server sends a sample each second */
#define MAX_LATER 64 /* samples in the queue during a request of /status */
#define PLAIN_COLUMNS 100
#define MAX_STATUS_BYTES ((gsize) 16 << 20)
#define MAX_TOKEN_BYTES 4096
#define MAX_TOKEN_FILE_BYTES (64 << 10)

typedef struct
{
  guint interval;
  gboolean once;
  gboolean json;
  gchar *token_file;
  gboolean help;
  gboolean version;
} Flags;

#define FIELD(name) offsetof (Flags, name)

static const TpsOption options[] = {
  { "interval", TPS_OPTION_UINT, FIELD (interval), "SECONDS", "1", .min = 1, .max = 3600,
    .help = "Time between two updates of the screen; rates are averages over this time" },
  { "once", TPS_OPTION_FLAG, FIELD (once), .help = "Print the figures of one interval and exit" },
  { "json", TPS_OPTION_FLAG, FIELD (json), .help = "Print a line of JSON for each interval" },
  { "token-file", TPS_OPTION_TEXT, FIELD (token_file), "FILE", .meaning = "none",
    .help = "File with the token of a principal that has the right \"admin\"" },
  { "version", TPS_OPTION_FLAG, FIELD (version), .help = "Print the version" },
  { "help", TPS_OPTION_FLAG, FIELD (help), .help = "Print this help and exit" },
  { NULL },
};

typedef struct
{
  Flags flags;
  gchar *url;   /* without a slash at its end */
  gchar *token; /* NULL = none */
  GMainLoop *loop;
  SoupSession *session;
  TpsScreen *screen; /* NULL = the program prints: no terminal, --once or --json */
  TpsFigures *figures;
  gchar *trouble; /* the reason why there are no new figures; NULL = none */

  TpsRequest *events; /* NULL = not connected */
  TpsEventStream *stream;
  GQueue later;       /* of gchar *: samples that have arrived during the request of /status */
  TpsRequest *status; /* the request of /status; NULL = none */
  GString *status_text;
  guint retry;
  gint exit_status;
} Top;

static gint
fail (gint status, const gchar *text)
{
  fprintf (stderr, "thriftps_top: %s\n", text);
  return status;
}

/* ---- output --------------------------------------------------------------------------------- */

static void
show (Top *top)
{
  TpsViewSize size;
  g_auto (GStrv) lines = NULL;

  tps_screen_get_size (top->screen, &size.n_columns, &size.n_rows);
  lines = tps_view_render (top->figures, top->trouble, &size);
  for (guint i = 0; lines[i] != NULL; i++)
    if (strlen (lines[i]) > size.n_columns)
      lines[i][size.n_columns] = '\0';
  tps_screen_show (top->screen, lines);
}

static void
print (Top *top)
{
  TpsViewSize size = { .n_columns = PLAIN_COLUMNS };
  g_auto (GStrv) lines = NULL;

  if (top->flags.json)
    {
      g_autofree gchar *json = tps_figures_to_json (top->figures);

      printf ("%s\n", json);
    }
  else
    {
      lines = tps_view_render (top->figures, NULL, &size);
      for (guint i = 0; lines[i] != NULL; i++)
        printf ("%s\n", lines[i]);
      if (!top->flags.once)
        printf ("\n");
    }
  if (fflush (stdout) != 0)
    {
      top->exit_status = fail (1, "standard output cannot be written");
      g_main_loop_quit (top->loop);
    }
}

static void
end_interval (Top *top)
{
  tps_figures_end (top->figures);
  if (top->screen != NULL)
    show (top);
  else
    print (top);
  tps_figures_begin (top->figures);
  if (top->flags.once)
    g_main_loop_quit (top->loop);
}

/* ---- trouble -------------------------------------------------------------------------------- */

static gboolean connect_again (gpointer data);

/* With a screen, connects again after RETRY_MS. Without one, ends the program with an error. */
static void
lose_server (Top *top, const GError *error)
{
  g_autofree gchar *text = g_strdup_printf ("%s: %s", top->url, error->message);

  g_clear_pointer (&top->stream, tps_event_stream_free);
  if (top->screen == NULL)
    {
      top->exit_status = fail (1, text);
      g_main_loop_quit (top->loop);
      return;
    }
  g_free (top->trouble);
  top->trouble = g_strdup_printf ("%s; trying again", text);
  /* The request of /status and the samples belong to the lost interval. */
  g_clear_pointer (&top->status, tps_request_cancel);
  g_queue_clear_full (&top->later, g_free);
  tps_figures_begin (top->figures);
  show (top);
  top->retry = g_timeout_add (RETRY_MS, connect_again, top);
}

/* ---- /status -------------------------------------------------------------------------------- */

static gboolean
take_status (gpointer data, const gchar *bytes, gsize n_bytes, GError **error)
{
  Top *top = data;

  g_string_append_len (top->status_text, bytes, (gssize) n_bytes);
  if (top->status_text->len <= MAX_STATUS_BYTES)
    return TRUE;
  g_set_error_literal (error, TPS_ERROR, TPS_ERROR_PROTOCOL, "/status is too long");
  return FALSE;
}

static void take_samples (Top *top);

/* If /status fails and there is a screen, the rates are shown without a new status. The request of
 * /events reports a lost server. */
static void
end_status (gpointer data, const GError *error)
{
  Top *top = data;

  top->status = NULL;
  if (error == NULL)
    tps_figures_set_status (top->figures, top->status_text->str);
  else if (top->screen == NULL)
    {
      lose_server (top, error);
      return;
    }
  end_interval (top);
  take_samples (top);
}

static void
ask_for_status (Top *top)
{
  static const TpsRequestOps ops = { take_status, end_status };
  g_autofree gchar *url = g_strconcat (top->url, "/status", NULL);

  g_string_truncate (top->status_text, 0);
  top->status = tps_request_begin (top->session, url, top->token, &ops, top);
}

/* ---- /events -------------------------------------------------------------------------------- */

/* Adds queued samples to the interval. An interval ends with the reply of /status. Samples that
 * arrive during this request belong to the next interval, so they stay in the queue. */
static void
take_samples (Top *top)
{
  while (top->status == NULL && !g_queue_is_empty (&top->later))
    {
      g_autofree gchar *text = g_queue_pop_head (&top->later);

      tps_figures_add_sample (top->figures, text);
      if (top->figures->n_samples >= top->flags.interval)
        ask_for_status (top);
    }
}

static void
on_event (gpointer data, const gchar *name, const gchar *text)
{
  Top *top = data;

  if (strcmp (name, "sample") != 0 || g_queue_get_length (&top->later) == MAX_LATER)
    return;
  g_clear_pointer (&top->trouble, g_free);
  g_queue_push_tail (&top->later, g_strdup (text));
  take_samples (top);
}

static gboolean
take_events (gpointer data, const gchar *bytes, gsize n_bytes, GError **error)
{
  Top *top = data;

  return tps_event_stream_feed (top->stream, bytes, n_bytes, error);
}

static void
end_events (gpointer data, const GError *error)
{
  Top *top = data;
  g_autoptr (GError) ended = g_error_new_literal (TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
                                                  "the server has ended the stream");

  top->events = NULL;
  lose_server (top, error != NULL ? error : ended);
}

static void
connect_events (Top *top)
{
  static const TpsRequestOps ops = { take_events, end_events };
  g_autofree gchar *url = g_strconcat (top->url, "/events", NULL);

  top->stream = tps_event_stream_new (on_event, top);
  top->events = tps_request_begin (top->session, url, top->token, &ops, top);
}

static gboolean
connect_again (gpointer data)
{
  Top *top = data;

  top->retry = 0;
  connect_events (top);
  return G_SOURCE_REMOVE;
}

/* ---- keys and signals ----------------------------------------------------------------------- */

static gboolean
on_key (gint fd, GIOCondition condition, gpointer data)
{
  Top *top = data;
  gchar key = 'q'; /* if the terminal is gone, nothing is read and the program quits */

  if (read (fd, &key, 1) <= 0 && (condition & (G_IO_HUP | G_IO_ERR)) == 0)
    return G_SOURCE_CONTINUE;
  if (key == 'q' || key == 'Q')
    g_main_loop_quit (top->loop);
  return G_SOURCE_CONTINUE;
}

static gboolean
on_end_signal (gpointer data)
{
  Top *top = data;

  g_main_loop_quit (top->loop);
  return G_SOURCE_CONTINUE;
}

/* Shows the current page in the new size. */
static gboolean
on_resize (gpointer data)
{
  Top *top = data;

  if (top->screen != NULL)
    show (top);
  return G_SOURCE_CONTINUE;
}

static void
watch_terminal (Top *top)
{
  g_unix_signal_add (SIGINT, on_end_signal, top);
  g_unix_signal_add (SIGTERM, on_end_signal, top);
  g_unix_signal_add (SIGHUP, on_end_signal, top);
  if (top->flags.once || top->flags.json)
    return;
  top->screen = tps_screen_new (STDIN_FILENO, STDOUT_FILENO);
  if (top->screen == NULL)
    return;
  top->trouble = g_strdup_printf ("connecting to %s", top->url);
  g_unix_signal_add (SIGWINCH, on_resize, top);
  g_unix_fd_add (STDIN_FILENO, G_IO_IN | G_IO_HUP | G_IO_ERR, on_key, top);
  show (top);
}

/* ---- arguments ------------------------------------------------------------------------------ */

static void
print_help (void)
{
  g_autofree gchar *text = tps_options_to_help (options);

  printf ("Usage: thriftps_top ADDRESS [OPTION]...\n"
          "Shows the figures of a server: calls, latencies, tables, memory, log. ADDRESS is the "
          "address of\nthe server's option --http, HOST:PORT, or an http or https URL. Press q to "
          "quit.\n\n%s\n"
          "Exit status: 0 on success, 1 if the server cannot be reached or does not answer, 2 for "
          "bad\narguments.\n",
          text);
}

/* Returns the URL of the server without a slash at its end, or NULL if `address` is invalid. The
 * caller owns the URL. */
static gchar *
to_url (const gchar *address)
{
  gboolean is_url = strstr (address, "://") != NULL;
  gchar *url = is_url ? g_strdup (address) : g_strconcat ("http://", address, NULL);
  g_autoptr (GUri) uri = NULL;

  while (g_str_has_suffix (url, "/"))
    url[strlen (url) - 1] = '\0';
  uri = g_uri_parse (url, SOUP_HTTP_URI_FLAGS, NULL);
  if (uri != NULL && g_uri_get_host (uri) != NULL && *g_uri_get_host (uri) != '\0'
      && (strcmp (g_uri_get_scheme (uri), "http") == 0
          || strcmp (g_uri_get_scheme (uri), "https") == 0))
    return url;
  g_free (url);
  return NULL;
}

/* Reads the token from the first line of --token-file, if there is one. */
static gboolean
read_token (Top *top, GError **error)
{
  if (top->flags.token_file == NULL)
    return TRUE;
  top->token = tps_text_file_read (top->flags.token_file, MAX_TOKEN_FILE_BYTES, error);
  if (top->token == NULL)
    {
      g_prefix_error (error, "%s: ", top->flags.token_file);
      return FALSE;
    }
  top->token[strcspn (top->token, "\r\n")] = '\0';
  if (*top->token != '\0' && strlen (top->token) <= MAX_TOKEN_BYTES && g_str_is_ascii (top->token))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s: the first line is not a token",
               top->flags.token_file);
  return FALSE;
}

static void
run (Top *top)
{
  top->loop = g_main_loop_new (NULL, FALSE);
  /* No proxy resolver: GLib would search the settings of the desktop for proxies. */
  top->session = soup_session_new_with_options ("timeout", TIMEOUT_S, "proxy-resolver", NULL,
                                                "user-agent", "thriftps_top/" TPS_VERSION, NULL);
  top->figures = tps_figures_new ();
  top->status_text = g_string_new (NULL);
  g_queue_init (&top->later);
  watch_terminal (top);
  connect_events (top);
  g_main_loop_run (top->loop);
}

static void
clear (Top *top)
{
  g_clear_pointer (&top->screen, tps_screen_free);
  g_clear_handle_id (&top->retry, g_source_remove);
  if (top->events != NULL)
    tps_request_cancel (top->events);
  if (top->status != NULL)
    tps_request_cancel (top->status);
  if (top->session != NULL)
    {
      soup_session_abort (top->session);
      while (g_main_context_iteration (NULL, FALSE))
        ; /* cancelled requests end and free themselves */
    }
  g_clear_object (&top->session);
  g_clear_pointer (&top->stream, tps_event_stream_free);
  g_queue_clear_full (&top->later, g_free);
  g_clear_pointer (&top->figures, tps_figures_free);
  g_clear_pointer (&top->loop, g_main_loop_unref);
  if (top->status_text != NULL)
    g_string_free (top->status_text, TRUE);
  g_free (top->trouble);
  g_free (top->token);
  g_free (top->url);
  tps_options_clear (options, &top->flags);
}

/* Returns the exit status. */
static gint
run_program (Top *top, gint argc, gchar **argv)
{
  g_autoptr (TpsArguments) arguments = tps_arguments_new (options);
  g_autoptr (GError) error = NULL;
  gboolean has_address = argc > 1 && argv[1][0] != '-';

  if (!tps_arguments_add_line (arguments, (const gchar *const *) argv + (has_address ? 1 : 0),
                               &error)
      || !tps_arguments_apply (arguments, &top->flags, &error))
    return fail (2, error->message);
  if (top->flags.help)
    print_help ();
  if (top->flags.version)
    printf ("thriftps_top %s\n", TPS_VERSION);
  if (top->flags.help || top->flags.version)
    return 0;
  top->url = has_address ? to_url (argv[1]) : NULL;
  if (top->url == NULL)
    return fail (2, "expected the address of --http, HOST:PORT or a URL; see --help");
  if (!read_token (top, &error))
    return fail (2, error->message);
  run (top);
  return top->exit_status;
}

int
main (int argc, char **argv)
{
  Top top = { 0 };
  gint status = run_program (&top, argc, argv);

  clear (&top);
  return status;
}
