/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Click logs, synthetic and of files. */

#pragma once

#include <glib.h>

#include "bench/zipf/zipf.h"

G_BEGIN_DECLS

/* -- click batch -- */

/* Samples of a click log in the shape of the public Criteo data: 13 dense features, and ids of 26
 * tables. */

#define TPS_CLICK_DENSE 13
#define TPS_CLICK_TABLES 26

/* The sizes of the tables, and the numbers of ids of their bags. */
typedef struct
{
  gint64 rows[TPS_CLICK_TABLES];
  gsize bag_length[TPS_CLICK_TABLES];
} TpsClickShape;

/* Initialises the shape. The sizes are the published numbers of values of the Kaggle Display
 * Advertising Challenge, each multiplied by `scale` and rounded up. Bags of the six largest tables
 * have `multi_hot` ids; bags of other tables have one id. */
void tps_click_shape_init (TpsClickShape *shape, gdouble scale, gsize multi_hot);

/* Returns the number of rows of all tables together. */
gint64 tps_click_shape_count_rows (const TpsClickShape *shape);

/* The arrays of `n_samples` samples; owned. */
typedef struct
{
  gsize n_samples;
  gfloat *labels;                /* [n_samples], 0 or 1 */
  gfloat *dense;                 /* [n_samples, TPS_CLICK_DENSE] */
  gint64 *ids[TPS_CLICK_TABLES]; /* [n_samples, bag_length] of each table, in [0, rows) */
} TpsClickBatch;

/* tps_click_batch_init() allocates the arrays, which the caller must fill. tps_click_batch_clear()
 * frees them. */
void tps_click_batch_init (TpsClickBatch *batch, const TpsClickShape *shape, gsize n_samples);
void tps_click_batch_clear (TpsClickBatch *batch);

/* -- synthetic log -- */

/* A synthetic click log, which is a function of a seed and of the number of a sample. Dense
 * features have an exponential distribution. Labels follow a logistic model of the dense features
 * and of an effect of each id; a model can therefore learn them. */

/* The parameters of the log. Read-only after the initialisation. */
typedef struct
{
  TpsClickShape shape;
  gint64 seed;
  gboolean is_uniform; /* distribution of ids; FALSE = Zipf */
  TpsZipf zipf[TPS_CLICK_TABLES];
} TpsSyntheticLog;

/* Initialises the log in the caller's storage. `shape` is copied. `exponent` is ignored for uniform
 * ids. */
void tps_synthetic_log_init (TpsSyntheticLog *log, const TpsClickShape *shape, gint64 seed,
                             gboolean is_uniform, gdouble exponent);

/* Fills `batch` with the samples from number `first` on. A permutation spreads the frequent ids of
 * the Zipf distribution over the table. Thread: any. */
void tps_synthetic_log_fill (const TpsSyntheticLog *log, guint64 first, TpsClickBatch *batch);

/* -- criteo log -- */

/* Reads the public Criteo format. A line has 40 fields, separated by tabs: a label (0 or 1), 13
 * decimal integers, and 26 hexadecimal numbers of up to 8 digits. Integers and hexadecimal numbers
 * may be missing (empty). A dense feature is ln (1 + max (integer, 0)), as in DLRM; it is 0 for a
 * missing integer. An id is the hexadecimal number modulo the rows of its table; it is 0 for a
 * missing number. */

/* bytes with the newline; lines of the public data are below 400 */
#define TPS_CRITEO_MAX_LINE 1024

typedef struct TpsCriteoLog TpsCriteoLog;

/* Opens a file. The caller owns the result. Errors: NOT_FOUND (the file cannot be opened),
 * INVALID_ARGUMENT (a shape whose bags have several ids). */
TpsCriteoLog *tps_criteo_log_open (const gchar *path, const TpsClickShape *shape, GError **error);
void tps_criteo_log_free (TpsCriteoLog *log);

/* Fills `batch` with the next lines. After the last line, continues with the first line. Errors:
 * INVALID_ARGUMENT, for a bad value with its file, line and field, as in "clicks.tsv:17: field 3:
 * …"; for an empty file; for a file that cannot be read. */
gboolean tps_criteo_log_read (TpsCriteoLog *log, TpsClickBatch *batch, GError **error);

/* Skips `n_samples` lines without parsing them. Errors: as above, but fields are not checked. */
gboolean tps_criteo_log_skip (TpsCriteoLog *log, guint64 n_samples, GError **error);

/* -- click log -- */

/* The samples of a run by their numbers, from a file or synthetic. */

/* A log of either kind. */
typedef struct
{
  TpsSyntheticLog synthetic;
  TpsCriteoLog *file; /* NULL = synthetic */
  guint64 position;   /* the number of the next sample of the file */
} TpsClickLog;

/* Initialises a log in the caller's storage. `path` is NULL for synthetic samples. `synthetic` is
 * copied; its shape also applies to files. Errors: those of tps_criteo_log_open(). */
gboolean tps_click_log_init (TpsClickLog *log, const TpsSyntheticLog *synthetic, const gchar *path,
                             GError **error);
void tps_click_log_clear (TpsClickLog *log);

/* Fills `batch`, which must have been initialised, with the samples from number `first` on. `first`
 * must not decrease from call to call. Errors: those of the file. */
gboolean tps_click_log_read (TpsClickLog *log, guint64 first, TpsClickBatch *batch, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsClickBatch, tps_click_batch_clear)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCriteoLog, tps_criteo_log_free)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsClickLog, tps_click_log_clear)

G_END_DECLS
