/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Uses any bytes as the files of a snapshot. A file must be refused with a reason or accepted. An
 * accepted file can be written and read again. The first byte determines the rest: 'm' a manifest
 * without its checksum, 's' a safetensors file, 'p' records of push ids. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/crc32c.h"
#include "runtime/base/error.h"
#include "runtime/server/push_window.h"
#include "runtime/server/snapshot/manifest.h"
#include "runtime/server/snapshot/safetensors.h"
#include "tests/fuzz/input_disk.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t n_bytes);

static void
require (gboolean ok)
{
  if (!ok)
    abort ();
}

/* ---- manifests ------------------------------------------------------------------------------- */

static void
try_manifest (const uint8_t *data, size_t n_bytes)
{
  GString *text = g_string_new_len ((const gchar *) data, (gssize) n_bytes);
  g_auto (TpsManifest) manifest = { 0 };
  g_auto (TpsManifest) again = { 0 };
  g_autoptr (GError) error = NULL;

  g_string_append_printf (text, ",\"crc32c\":\"%08x\"}\n", tps_crc32c (0, text->str, text->len));
  tps_manifest_init (&manifest);
  tps_manifest_init (&again);
  if (!tps_manifest_parse (&manifest, text->str, text->len, "fuzz", &error))
    require (error != NULL && error->code == TPS_ERROR_ABORTED);
  else
    {
      GString *written = tps_manifest_to_text (&manifest);

      require (tps_manifest_parse (&again, written->str, written->len, "fuzz", NULL));
      g_string_free (written, TRUE);
    }
  g_string_free (text, TRUE);
}

/* ---- safetensors ----------------------------------------------------------------------------- */

static void
read_elements (TpsSafetensorsReader *reader, const TpsSafetensor *tensor)
{
  gsize n_bytes = (gsize) (tensor->end - tensor->begin);
  g_autofree guint8 *elements = g_malloc (n_bytes + 1);
  g_autoptr (GError) error = NULL;
  TpsSafetensorStream stream;

  tps_safetensor_stream_init (&stream, reader, tensor);
  if (!tps_safetensor_stream_read (&stream, elements, n_bytes / 2, &error)
      || !tps_safetensor_stream_read (&stream, elements, n_bytes - n_bytes / 2, &error))
    require (error != NULL && error->code == TPS_ERROR_ABORTED);
}

static void
try_safetensors (const uint8_t *data, size_t n_bytes)
{
  InputDisk disk;
  g_autoptr (GError) error = NULL;
  g_autoptr (TpsSafetensorsReader) reader = NULL;

  input_disk_init (&disk, data, n_bytes);
  reader = tps_safetensors_reader_new (&disk.disk, "fuzz", &error);
  if (reader == NULL)
    {
      require (error != NULL && error->code == TPS_ERROR_ABORTED);
      return;
    }
  for (guint i = 0; i < reader->tensors->len; i++)
    read_elements (reader, &g_array_index (reader->tensors, TpsSafetensor, i));
}

/* ---- push ids -------------------------------------------------------------------------------- */

static void
try_records (const uint8_t *data, size_t n_bytes)
{
  g_autoptr (TpsPushWindow) window = tps_push_window_new (NULL);
  g_autoptr (GByteArray) records = g_byte_array_new ();
  gsize n_used;

  tps_push_export_read (window, data, n_bytes, &n_used, NULL);
  tps_push_export_end_read (window);
  require (n_used <= n_bytes);
  tps_push_export_begin (window);
  while (tps_push_export_some (window, records))
    ;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t n_bytes)
{
  if (n_bytes == 0)
    return 0;
  if (data[0] == 'm')
    try_manifest (data + 1, n_bytes - 1);
  else if (data[0] == 's')
    try_safetensors (data + 1, n_bytes - 1);
  else if (data[0] == 'p')
    try_records (data + 1, n_bytes - 1);
  return 0;
}
