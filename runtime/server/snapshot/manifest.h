/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The manifest of a snapshot: JSON, written last. A folder without a manifest is not a snapshot.
 * FORMAT.md describes every member. */

#pragma once

#include "runtime/base/budget.h"
#include "runtime/embedding/table_spec.h"
#include "runtime/server/command.h"
#include "runtime/server/log/disk.h"
#include "runtime/server/model/model_capture.h"
#include "runtime/server/tables/host/table.h"

#define TPS_MANIFEST_NAME "manifest.json"
#define TPS_MANIFEST_VERSION 2

/* A file of the snapshot. */
typedef struct
{
  gchar *name; /* in the snapshot's folder, without a slash; NULL = there is no file */
  guint64 n_bytes;
  /* of all bytes before the elements; the header holds the checksums of the elements */
  guint32 header_crc32c;
} TpsManifestFile;

typedef struct
{
  TpsManifestFile file; /* all rows, older than those of the increments */
  GArray *increments;   /* of TpsManifestFile: changed rows, the oldest first; NULL = none */
  TpsTableSpec spec;    /* resolved */
  gint64 incarnation;
  TpsTableProgress progress; /* before the first row was read */
} TpsManifestTable;

/* A version of the model. */
typedef struct
{
  TpsManifestFile file;
  gint64 version;
} TpsManifestVersion;

typedef struct
{
  gint64 lsn;
  gint64 incarnation; /* 0 = there is no model, and only `pushes` of the fields below is set */
  TpsOptimizerSpec optimizer;
  guint8 beginning[16]; /* TpsTrainedModel.beginning */
  GArray *versions;     /* of TpsManifestVersion, ascending; the last one is the newest */
  GArray *answers;      /* of TpsModelAnswer */
  TpsManifestFile state;
  TpsManifestFile pushes;
} TpsManifestModel;

typedef struct
{
  gint64 lsn, end_lsn;
  gchar *history;   /* the id of the data directory; NULL = none */
  TpsMoment moment; /* of the command `end_lsn`, or of a later one */
  GArray *tables;   /* of TpsManifestTable */
  TpsManifestFile table_pushes;
  gboolean has_model; /* the server had a model server */
  TpsManifestModel model;
  TpsCharge charge; /* if the text is untrusted, a budget must be set before tps_manifest_read() */
} TpsManifest;

/* Makes an empty manifest in the caller's storage; its strings and arrays are freed by clear(). */
void tps_manifest_init (TpsManifest *manifest);
void tps_manifest_clear (TpsManifest *manifest);

/* Adds a file to the increments of a table; takes ownership of the file's name. */
void tps_manifest_table_add_increment (TpsManifestTable *table, const TpsManifestFile *file);
guint tps_manifest_table_get_n_increments (const TpsManifestTable *table);
/* Returns increment `i`, the oldest first. Borrowed. */
const TpsManifestFile *tps_manifest_table_get_increment (const TpsManifestTable *table, guint i);

/* Returns the table of this name and incarnation; NULL: there is none. Borrowed. */
const TpsManifestTable *tps_manifest_find_table (const TpsManifest *manifest, const gchar *name,
                                                 gint64 incarnation);

guint tps_manifest_count_increments (const TpsManifest *manifest);
guint64 tps_manifest_count_bytes (const TpsManifest *manifest);

/* Returns the text of the manifest. The caller frees it with g_string_free(). */
GString *tps_manifest_to_text (const TpsManifest *manifest);

/* Reads the text of a manifest, which `what` names in errors. `manifest` must be initialised and
 * empty; after an error it contains the parts that had been read. Errors: ABORTED (damaged,
 * a different version). */
gboolean tps_manifest_parse (TpsManifest *manifest, const gchar *text, gsize n_bytes,
                             const gchar *what, GError **error);

/* Writes the manifest of `folder`, whose files must be complete, and syncs the names of the files
 * and of the manifest. Errors: those of the disk. */
gboolean tps_manifest_write (const TpsManifest *manifest, TpsDisk *disk, const gchar *folder,
                             GError **error);

/* Reads the manifest of `folder`, as tps_manifest_parse(). Errors: those of the disk (NOT_FOUND:
 * there is no manifest), ABORTED, RESOURCE_EXHAUSTED. */
gboolean tps_manifest_read (TpsManifest *manifest, TpsDisk *disk, const gchar *folder,
                            GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsManifest, tps_manifest_clear)
