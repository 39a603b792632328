/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Uses any bytes as a .npy file. The file must be refused with a reason, or be an array with all
 * its elements. The array must then be imported into a table or refused. The first byte determines
 * the rest: 'f' a file, or 'd' the dictionary of a file, to which the program adds a header and
 * matching elements. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/server/snapshot/import.h"
#include "runtime/server/snapshot/npy.h"
#include "runtime/server/snapshot/safetensors.h"
#include "tests/fuzz/input_disk.h"

#define PATH "fuzz.npy"
#define TABLE_ROWS 4
#define TABLE_DIM 2
#define MAX_TABLE_BYTES ((gsize) 1 << 20)
#define MAX_ARRAY_BYTES ((guint64) 1 << 16)

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t n_bytes);

static void
require (gboolean ok)
{
  if (!ok)
    abort ();
}

/* Returns G_MAXUINT64 if the size overflows. */
static guint64
count_bytes (const TpsSafetensor *array)
{
  guint64 n_bytes = array->element_bytes;

  for (guint i = 0; i < array->n_dims; i++)
    {
      require (array->dims[i] >= 0);
      if (!g_uint64_checked_mul (&n_bytes, n_bytes, (guint64) array->dims[i]))
        return G_MAXUINT64;
    }
  return n_bytes;
}

static void
read_array (InputDisk *disk)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TpsSafetensorsReader)
      reader = tps_safetensors_reader_new_charged (&disk->disk, PATH, NULL, &error);
  const TpsSafetensor *array;
  g_autofree guint8 *elements = NULL;
  TpsSafetensorStream stream;

  if (reader == NULL)
    {
      require (error != NULL && error->code == TPS_ERROR_ABORTED);
      return;
    }
  require (reader->tensors->len == 1);
  array = &g_array_index (reader->tensors, TpsSafetensor, 0);
  require (count_bytes (array) == (guint64) (array->end - array->begin));
  elements = g_malloc ((gsize) (array->end - array->begin) + 1);
  tps_safetensor_stream_init (&stream, reader, array);
  require (
      tps_safetensor_stream_read (&stream, elements, (gsize) (array->end - array->begin), NULL));
}

static void
import_array (InputDisk *disk)
{
  static const gchar *const paths[] = { PATH };
  g_autoptr (TpsBudget) budget = tps_budget_new (NULL, "tables", MAX_TABLE_BYTES);
  TpsBudgets budgets = { .tables = budget };
  TpsTableStoreOptions options = { .budgets = &budgets };
  g_autoptr (TpsTableStore) store = tps_table_store_new (&options);
  TpsTableImport import = { .disk = &disk->disk, .into = store, .paths = paths, .n_paths = 1 };
  g_auto (TpsTableSpec) spec = { 0 };
  g_autoptr (GError) error = NULL;
  gboolean is_imported;

  tps_table_spec_init (&spec, "emb", TABLE_ROWS, TABLE_DIM);
  is_imported = tps_table_import (&import, &spec, &error);
  require (is_imported == (error == NULL));
  require ((tps_table_store_estimate_rows (store, "emb", 1) != 0) == is_imported);
}

static void
try_file (const uint8_t *data, size_t n_bytes)
{
  InputDisk disk;

  input_disk_init (&disk, data, n_bytes);
  read_array (&disk);
  import_array (&disk);
}

/* Makes a file of version 1 with as many elements as the dictionary says, or with none if that is
 * too many. */
static void
try_dictionary (const uint8_t *text, size_t n_bytes)
{
  g_autoptr (GByteArray) file = g_byte_array_new ();
  guint16 length = (guint16) MIN (n_bytes, G_MAXUINT16);
  guint8 prefix[10] = { 0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, length & 0xff, length >> 8 };
  TpsSafetensor array = { 0 };
  guint64 n_array = 0;

  if (tps_npy_parse ((const gchar *) text, length, &array))
    n_array = count_bytes (&array);
  if (n_array > MAX_ARRAY_BYTES)
    n_array = 0;
  g_byte_array_append (file, prefix, sizeof prefix);
  g_byte_array_append (file, text, length);
  g_byte_array_set_size (file, file->len + (guint) n_array);
  memset (file->data + file->len - n_array, 0, n_array);
  try_file (file->data, file->len);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t n_bytes)
{
  if (n_bytes == 0)
    return 0;
  if (data[0] == 'f')
    try_file (data + 1, n_bytes - 1);
  else if (data[0] == 'd')
    try_dictionary (data + 1, n_bytes - 1);
  return 0;
}
