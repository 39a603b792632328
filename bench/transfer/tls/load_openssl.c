/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/tls/load_openssl.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/process/supervisor.h"
#include "bench/transfer/system/pattern.h"
#include "bench/transfer/system/row.h"
#include "bench/transfer/system/serve.h"
#include "bench/transfer/tls/certificate.h"
#include "bench/transfer/tls/openssl_server.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

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

/* Returns TRUE if the received bytes end with the bytes of all calls. An HTTP header may precede
 * them. */
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
move (const Loader *loader, TpsTransferOp op, TpsOpensslServer *server, const MemoryFile *file,
      const gchar *output, GError **error)
{
  if (op == TPS_TRANSFER_PUSH)
    return run_client (loader, server->address, "-nocommands", file->path, "/dev/null", error)
           && tps_openssl_server_wait (server, loader->supervisor, error);
  return run_client (loader, server->address, "-quiet", loader->request.path, output, error);
}

/* Returns the nanoseconds from the start of the client to the end of the receiver; -1 with an
 * error. */
static gint64
run_stream (const Loader *loader, TpsTransferOp op, const MemoryFile *file, const gchar *output,
            GError **error)
{
  gboolean is_push = op == TPS_TRANSFER_PUSH;
  TpsOpensslServer server;
  gint64 ns = -1, start_ns;

  if (!is_push && !offer (loader, file))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s cannot be made", loader->pulled);
      return -1;
    }
  if (tps_openssl_server_start (&server, loader->supervisor, loader->certificate,
                                is_push ? "" : "-WWW", 1, is_push ? output : "/dev/null", error))
    {
      start_ns = tps_clock_now_ns ();
      if (move (loader, op, &server, file, output, error))
        ns = tps_clock_now_ns () - start_ns;
    }
  tps_openssl_server_stop (&server, loader->supervisor);
  return ns;
}

/* -- rows -- */

/* Moves the bytes of a row once to a file, and compares them. Returns the nanoseconds; -1 with an
 * error. */
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

/* Runs a row: an empty stream, and then a stream with the bytes. The difference of their times is
 * the time of the bytes. */
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
