/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/tls/openssl.h"

#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/process/child.h"
#include "bench/transfer/limits/stream.h"
#include "bench/transfer/system/row.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* -- certificate -- */

#define VALID_S (7 * 24 * 3600) /* seconds; longer than any run */

static gboolean
name_host (X509 *certificate)
{
  X509_EXTENSION *names = X509V3_EXT_conf_nid (NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
  gboolean done = names != NULL && X509_add_ext (certificate, names, -1) == 1;

  X509_EXTENSION_free (names);
  return done;
}

static gboolean
fill (X509 *certificate, EVP_PKEY *key)
{
  X509_NAME *name = X509_get_subject_name (certificate);

  return X509_set_version (certificate, X509_VERSION_3) == 1
         && ASN1_INTEGER_set (X509_get_serialNumber (certificate), 1) == 1
         && X509_gmtime_adj (X509_getm_notBefore (certificate), -3600) != NULL
         && X509_gmtime_adj (X509_getm_notAfter (certificate), VALID_S) != NULL
         && X509_NAME_add_entry_by_txt (name, "CN", MBSTRING_ASC, (const guchar *) "benchmark", -1,
                                        -1, 0)
                == 1
         && X509_set_issuer_name (certificate, name) == 1 && X509_set_pubkey (certificate, key) == 1
         && name_host (certificate) && X509_sign (certificate, key, EVP_sha256 ()) > 0;
}

static gboolean
write_file (const gchar *path, X509 *certificate, EVP_PKEY *key)
{
  gint fd = open (path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  BIO *file = fd >= 0 ? BIO_new_fd (fd, BIO_CLOSE) : NULL;
  gboolean done = file != NULL && PEM_write_bio_X509 (file, certificate) == 1
                  && PEM_write_bio_PrivateKey (file, key, NULL, NULL, 0, NULL, NULL) == 1;

  BIO_free (file);
  return done;
}

gboolean
tps_transfer_certificate_write (const gchar *path, GError **error)
{
  EVP_PKEY *key = EVP_EC_gen ("P-256");
  X509 *certificate = X509_new ();
  gboolean done = key != NULL && certificate != NULL && fill (certificate, key)
                  && write_file (path, certificate, key);

  X509_free (certificate);
  EVP_PKEY_free (key);
  if (!done)
    g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s: no certificate could be written",
                 path);
  return done;
}

/* A process of `openssl s_server`. Only for bench/transfer/tls. */

/* The process. */
typedef struct
{
  gint pid;
  /* stays open: at the end of its input, s_server would poll the input continuously */
  gint stdin_fd;
  gchar *address;
} Server;

#define START_NS G_GINT64_CONSTANT (10000000000)
#define LOOK_US 500

/* Returns an address without a listener, whose port the kernel assigns again after all others. */
static gchar *
find_address (GError **error)
{
  gchar *address = NULL;
  gint fd = tps_stream_listen ("127.0.0.1:0", &address, error);

  if (fd >= 0)
    close (fd);
  return address;
}

static gboolean
check_program (GError **error)
{
  g_autofree gchar *program = g_find_program_in_path ("openssl");

  if (program == NULL)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                         "openssl is not installed (Debian's package of that name)");
  return program != NULL;
}

/* Waits until s_server accepts a connection, because it prints nothing when it listens. */
static gboolean
wait_until_it_listens (const Server *server, TpsSupervisor *supervisor, GError **error)
{
  gint64 until_ns = tps_clock_now_ns () + START_NS;
  gint fd = -1;

  while (tps_clock_now_ns () < until_ns && tps_supervisor_check (supervisor, error))
    {
      fd = tps_stream_connect (server->address, NULL);
      if (fd < 0)
        {
          g_usleep (LOOK_US);
          continue;
        }
      close (fd);
      return TRUE;
    }
  if (error != NULL && *error == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                 "openssl s_server did not listen at %s within 10 s", server->address);
  return FALSE;
}

/* Starts s_server in the folder of `certificate` with the options `flags` (such as "-WWW"), and
 * waits until it listens. It writes received bytes to `output`, and exits after `n_connections`; 0
 * = never. */
static gboolean
server_start (Server *server, TpsSupervisor *supervisor, const gchar *certificate,
              const gchar *flags, guint n_connections, const gchar *output, GError **error)
{
  g_autofree gchar *folder = g_path_get_dirname (certificate);
  g_autofree gchar *limit = n_connections > 0 ? g_strdup_printf ("-naccept %u", n_connections + 1)
                                              : g_strdup ("");
  g_autofree gchar *command = NULL;
  gchar *argv[] = { (gchar *) (gsize) "/bin/sh", (gchar *) (gsize) "-c", NULL, NULL };

  *server = (Server) {
    .stdin_fd = -1,
  };
  if (!check_program (error) || (server->address = find_address (error)) == NULL)
    return FALSE;
  command = g_strdup_printf (
      "cd '%s' && exec openssl s_server -quiet -accept %s -cert '%s' -tls1_3 "
      "-ciphersuites " TPS_TRANSFER_CIPHER " %s %s >'%s' 2>/dev/null",
      folder, server->address, certificate, limit, flags, output);
  argv[2] = command;
  if (!tps_supervisor_start (supervisor, "openssl s_server", argv, &server->stdin_fd, NULL, error))
    return FALSE;
  server->pid = tps_supervisor_get_newest_pid (supervisor);
  return wait_until_it_listens (server, supervisor, error);
}

static void
server_clear (Server *server)
{
  if (server->stdin_fd >= 0)
    close (server->stdin_fd);
  g_free (server->address);
  *server = (Server) { .stdin_fd = -1 };
}

/* Waits until s_server has ended by itself, and clears `server`. */
static gboolean
server_wait (Server *server, TpsSupervisor *supervisor, GError **error)
{
  gboolean ended = tps_supervisor_reap (supervisor, server->pid, error);

  server_clear (server);
  return ended;
}

/* Kills s_server unless it has been waited for, and clears `server`. */
static void
server_stop (Server *server, TpsSupervisor *supervisor)
{
  if (server->pid > 0)
    {
      kill (server->pid, SIGKILL);
      tps_supervisor_reap (supervisor, server->pid, NULL);
    }
  server_clear (server);
}

/* -- handshakes -- */

static gchar *
run_s_time (TpsSupervisor *supervisor, const gchar *address, const gchar *certificate,
            guint seconds, GError **error)
{
  g_autofree gchar *command = g_strdup_printf (
      "exec openssl s_time -new -tls1_3 -ciphersuites " TPS_TRANSFER_CIPHER
      " -connect %s -CAfile '%s' -verify 1 -time %u 2>/dev/null",
      address, certificate, seconds);
  gchar *argv[] = { (gchar *) (gsize) "/bin/sh", (gchar *) (gsize) "-c", command, NULL };
  g_autoptr (TpsChild) child = tps_child_start (supervisor, "openssl s_time", argv, error);

  return child != NULL ? tps_child_receive_all (child, error) : NULL;
}

/* Parses "892 connections in 2 real seconds, 0 bytes read per connection". The seconds in this line
 * are rounded, so they are not used. */
static gboolean
parse_count (const gchar *output, guint *n)
{
  const gchar *line = strstr (output, " connections in ");

  while (line != NULL && line > output && g_ascii_isdigit (line[-1]))
    line--;
  return line != NULL && sscanf (line, "%u", n) == 1 && *n > 0;
}

static gdouble
measure (TpsSupervisor *supervisor, const gchar *address, const gchar *certificate, guint seconds,
         GError **error)
{
  gint64 start_ns = tps_clock_now_ns ();
  g_autofree gchar *output = run_s_time (supervisor, address, certificate, seconds, error);
  gdouble elapsed_s = (gdouble) (tps_clock_now_ns () - start_ns) / 1e9;
  guint n;

  if (output == NULL)
    return -1;
  if (parse_count (output, &n))
    return n / elapsed_s;
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
               "openssl s_time made no handshake with %s: %.200s", address, output);
  return -1;
}

gdouble
tps_transfer_handshakes_run (TpsSupervisor *supervisor, const gchar *address,
                             const gchar *certificate, guint seconds, GError **error)
{
  Server server;
  gdouble rate = -1;

  if (address != NULL)
    return measure (supervisor, address, certificate, seconds, error);
  if (server_start (&server, supervisor, certificate, "", 0, "/dev/null", error))
    rate = measure (supervisor, server.address, certificate, seconds, error);
  server_stop (&server, supervisor);
  return rate;
}

/* -- load openssl -- */

#define REQUEST "GET /" PULLED " HTTP/1.0\r\n\r\n"
#define PULLED "pulled" /* a file in the folder of the certificate */
/* the bytes take at least a tenth of a stream, even if the empty stream was slow by chance */
#define MIN_SHARE 10
#define MAX_COMPARED_BYTES ((gsize) 256 << 20)

/* A file without a name. Other processes open its path. */
typedef struct
{
  gint fd;
  gchar *path;
} MemoryFile;

typedef struct
{
  const gchar *certificate;
  TpsSupervisor *supervisor;
  TpsBuffer *pattern;
  MemoryFile sent, nothing, request, received;
  const gchar *pulled;     /* the path of the link to the pulled bytes */
  gboolean is_compared[2]; /* for each operation: the bytes have been compared once */
} Loader;

/* -- files -- */

static void
init_file (MemoryFile *file)
{
  file->fd = memfd_create ("openssl", MFD_CLOEXEC);
  file->path = g_strdup_printf ("/proc/%d/fd/%d", getpid (), file->fd);
}

static void
clear_file (MemoryFile *file)
{
  if (file->fd >= 0)
    close (file->fd);
  g_free (file->path);
}

static gboolean
append (const MemoryFile *file, gconstpointer data, gsize n_bytes)
{
  const guint8 *at = data;

  while (n_bytes > 0)
    {
      gssize n = write (file->fd, at, n_bytes);

      if (n <= 0)
        return FALSE;
      at += n;
      n_bytes -= (gsize) n;
    }
  return TRUE;
}

static gboolean
empty_file (const MemoryFile *file)
{
  return ftruncate (file->fd, 0) == 0 && lseek (file->fd, 0, SEEK_SET) == 0;
}

static gboolean
fill_sent (const Loader *loader, const TpsTransferRow *row)
{
  gboolean done = empty_file (&loader->sent);

  for (guint i = 0; i < row->n_calls && done; i++)
    done = append (&loader->sent, tps_buffer_get_data (loader->pattern), row->n_bytes);
  return done;
}

/* Returns TRUE if the received bytes, after an HTTP header, are those of all calls. */
static gboolean
has_received (const Loader *loader, const TpsTransferRow *row)
{
  gsize n_expected = row->n_bytes * row->n_calls;
  off_t n_bytes = lseek (loader->received.fd, 0, SEEK_END);
  g_autofree guint8 *one = g_malloc (row->n_bytes);
  gboolean right = n_bytes >= (off_t) n_expected;

  for (guint i = 0; i < row->n_calls && right; i++)
    right = pread (loader->received.fd, one, row->n_bytes,
                   n_bytes - (off_t) n_expected + (off_t) (i * row->n_bytes))
                == (gssize) row->n_bytes
            && tps_transfer_pattern_matches (one, row->n_bytes);
  return right;
}

/* -- one stream -- */

static gboolean
run_client (const Loader *loader, const gchar *address, const gchar *flags, const gchar *input,
            const gchar *output, GError **error)
{
  g_autofree gchar *command = g_strdup_printf (
      "exec openssl s_client %s -connect %s -CAfile '%s' -verify_return_error -tls1_3 "
      "-ciphersuites " TPS_TRANSFER_CIPHER " <%s >%s 2>/dev/null",
      flags, address, loader->certificate, input, output);
  gchar *argv[] = { (gchar *) (gsize) "/bin/sh", (gchar *) (gsize) "-c", command, NULL };

  return tps_supervisor_start (loader->supervisor, "openssl s_client", argv, NULL, NULL, error)
         && tps_supervisor_reap (loader->supervisor,
                                 tps_supervisor_get_newest_pid (loader->supervisor), error);
}

/* Links `file` to the name that clients request. */
static gboolean
offer (const Loader *loader, const MemoryFile *file)
{
  unlink (loader->pulled);
  return symlink (file->path, loader->pulled) == 0;
}

static gboolean
move (const Loader *loader, TpsTransferOp op, Server *server, const MemoryFile *file,
      const gchar *output, GError **error)
{
  if (op == TPS_TRANSFER_PUSH)
    return run_client (loader, server->address, "-nocommands", file->path, "/dev/null", error)
           && server_wait (server, loader->supervisor, error);
  return run_client (loader, server->address, "-quiet", loader->request.path, output, error);
}

/* Returns the ns from the start of the client to the end of the receiver; -1 with an error. */
static gint64
run_stream (const Loader *loader, TpsTransferOp op, const MemoryFile *file, const gchar *output,
            GError **error)
{
  gboolean is_push = op == TPS_TRANSFER_PUSH;
  Server server;
  gint64 ns = -1, start_ns;

  if (!is_push && !offer (loader, file))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s cannot be made", loader->pulled);
      return -1;
    }
  if (server_start (&server, loader->supervisor, loader->certificate, is_push ? "" : "-WWW", 1,
                    is_push ? output : "/dev/null", error))
    {
      start_ns = tps_clock_now_ns ();
      if (move (loader, op, &server, file, output, error))
        ns = tps_clock_now_ns () - start_ns;
    }
  server_stop (&server, loader->supervisor);
  return ns;
}

/* -- rows -- */

/* Moves the bytes of a row once to a file, and compares them. Returns the ns; -1 with an error. */
static gint64
compare (const Loader *loader, const TpsTransferRow *row, GError **error)
{
  gint64 ns = -1;

  if (empty_file (&loader->received))
    ns = run_stream (loader, row->op, &loader->sent, loader->received.path, error);
  if (ns >= 0 && !has_received (loader, row))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "wrong bytes");
      ns = -1;
    }
  return empty_file (&loader->received) ? ns : -1;
}

/* Runs a row: an empty stream, and one with the bytes. The difference is the time of the bytes. */
static gint64
run_row (gpointer user_data, const TpsTransferRow *row, gint64 *ns, GError **error)
{
  Loader *loader = user_data;
  gint64 nothing_ns, all_ns = 0;

  if (!fill_sent (loader, row))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "no memory for a file");
      return -1;
    }
  if (!loader->is_compared[row->op] && row->n_bytes * row->n_calls <= MAX_COMPARED_BYTES)
    all_ns = compare (loader, row, error);
  loader->is_compared[row->op] = TRUE;
  nothing_ns = all_ns < 0 ? -1 : run_stream (loader, row->op, &loader->nothing, "/dev/null", error);
  all_ns = nothing_ns < 0 ? -1 : run_stream (loader, row->op, &loader->sent, "/dev/null", error);
  if (all_ns < 0)
    return -1;
  all_ns = MAX (all_ns - nothing_ns, all_ns / MIN_SHARE);
  for (guint i = 0; i < row->n_calls; i++)
    ns[i] = all_ns / row->n_calls;
  return all_ns;
}

/* -- life -- */

gint
tps_transfer_load_openssl (const gchar *address, gsize max_bytes, const gchar *certificate)
{
  g_autoptr (TpsSupervisor) supervisor = tps_supervisor_new ();
  g_autoptr (TpsBuffer) pattern = tps_transfer_pattern_new (max_bytes);
  g_autofree gchar *folder = g_path_get_dirname (certificate);
  g_autofree gchar *pulled = g_build_filename (folder, PULLED, NULL);
  Loader loader = {
    .certificate = certificate, .supervisor = supervisor, .pattern = pattern, .pulled = pulled
  };
  gint status;

  init_file (&loader.sent);
  init_file (&loader.nothing);
  init_file (&loader.request);
  init_file (&loader.received);
  append (&loader.request, REQUEST, strlen (REQUEST));
  status = tps_transfer_serve_rows (run_row, &loader);
  clear_file (&loader.sent);
  clear_file (&loader.nothing);
  clear_file (&loader.request);
  clear_file (&loader.received);
  unlink (pulled);
  return status;
}
