/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/gpu_bundle/file_store.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define PAUSE_US 2000

typedef struct
{
  TpsStore base;
  gchar *folder;
} FileStore;

/* Returns the path of a key. Slashes are replaced, because the key becomes the name of a file. */
static gchar *
dup_path (TpsStore *store, const gchar *key)
{
  g_autofree gchar *name = g_strdelimit (g_strdup (key), "/", '-');

  return g_build_filename (((FileStore *) store)->folder, name, NULL);
}

/* Writes a value. g_file_set_contents() renames a temporary file, so a reader never finds a partial
 * value. */
static gboolean
file_put (TpsStore *store, const gchar *key, GBytes *value, GError **error)
{
  g_autofree gchar *path = dup_path (store, key);
  gsize n_bytes;
  gconstpointer data = g_bytes_get_data (value, &n_bytes);

  return g_file_set_contents (path, data != NULL ? data : "", (gssize) n_bytes, error);
}

static GBytes *
file_get (TpsStore *store, const gchar *key, gint64 deadline_ns, GError **error)
{
  g_autofree gchar *path = dup_path (store, key);
  gchar *data;
  gsize n_bytes;

  while (!g_file_get_contents (path, &data, &n_bytes, NULL))
    {
      if (tps_clock_now_ns () >= deadline_ns)
        {
          g_set_error (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED, "no %s", path);
          return NULL;
        }
      g_usleep (PAUSE_US);
    }
  return g_bytes_new_take (data, n_bytes);
}

/* Does nothing: the creator of the folder must remove it. */
static gboolean
file_remove (TpsStore *store, const gchar *prefix, GError **error)
{
  return TRUE;
}

static void
file_free (TpsStore *store)
{
  g_free (((FileStore *) store)->folder);
  g_free (store);
}

static const TpsStoreOps file_ops = {
  .put = file_put, .get = file_get, .remove = file_remove, .free = file_free
};

TpsStore *
tps_file_store_new (const gchar *folder)
{
  FileStore *store = g_new0 (FileStore, 1);

  store->base.ops = &file_ops;
  store->folder = g_strdup (folder);
  return &store->base;
}
