/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A model is cut into blocks, each of whole rows of the optimizer. Most optimizers treat all
 * elements alike and do not depend on rows, so any parameter is cut into rows of BLOCK_ELEMS. For a
 * row-wise optimizer, the rows of a matrix are its rows, and a parameter of any other rank is one
 * row.
 *
 * An update visits each block once. It hashes the block's gradients, if needed, and adds them up in
 * scratch memory that stays in the first-level cache. Then it copies the old values to the new
 * version, where the optimizer changes them. A row of a row-wise optimizer may be longer than
 * BLOCK_ELEMS. The memory for its mean is therefore allocated before the update, once for each
 * thread. */

#include "runtime/server/model/trained_model.h"

#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/optimizer/optimizer.h"
#include "runtime/base/parallel.h"
#include "runtime/base/error.h"
#include "runtime/server/push_digest.h"
#include "runtime/base/sync.h"
#include "runtime/machine/tuning.h"
#include "runtime/server/model/update_digest.h"

#define BLOCK_ELEMS (TPS_TRAINED_MODEL_BLOCK_BYTES / sizeof (gfloat))
#define HASHED_ELEMS (TPS_UPDATE_DIGEST_BLOCK_BYTES / sizeof (gfloat))

typedef struct
{
  guint parameter;
  gsize offset; /* in elements */
  gsize n_rows;
  gsize dim;
  gsize state_offset; /* in floats */
  gsize first_hash;   /* the number of the parameter's first block of the digest */
} Block;

/* ---- versions ---- */

static gboolean
allocate (TpsBufferPool *pool, const TpsShape *shape, TpsTensor *tensor, GError **error)
{
  gsize n_bytes = tps_shape_n_bytes (shape);
  TpsBuffer *buffer = tps_buffer_pool_get (pool, n_bytes, error);

  if (buffer == NULL)
    {
      g_prefix_error (error,
                      "no memory for a version of the model: %" G_GSIZE_FORMAT " bytes: ", n_bytes);
      return FALSE;
    }
  tps_tensor_init_take (tensor, shape, buffer, 0);
  return TRUE;
}

/* Returns a new version with the names and shapes of `like`. The caller must write its elements. */
static TpsModelVersion *
version_new (TpsBufferPool *pool, gint64 number, const TpsNamedTensor *like, guint n_parameters,
             GError **error)
{
  TpsModelVersion *version = tps_model_version_new (number, n_parameters);

  for (guint i = 0; i < n_parameters; i++)
    {
      version->parameters[i].name = g_strdup (like[i].name);
      if (allocate (pool, &like[i].tensor.shape, &version->parameters[i].tensor, error))
        continue;
      tps_model_version_unref (version);
      return NULL;
    }
  return version;
}

/* ---- blocks ---- */

static void
add_block (TpsTrainedModel *model, guint parameter, gsize offset, gsize n_rows, gsize dim)
{
  Block block = { .parameter = parameter,
                  .offset = offset,
                  .n_rows = n_rows,
                  .dim = dim,
                  .state_offset = model->n_state,
                  .first_hash = model->n_hashes };

  model->n_state += n_rows * tps_optimizer_state_per_row (&model->optimizer, dim);
  model->max_elems = MAX (model->max_elems, n_rows * dim);
  g_array_append_val (model->blocks, block);
}

static void
add_parameter (TpsTrainedModel *model, guint parameter, const TpsShape *shape)
{
  gsize n_elems = (gsize) tps_shape_n_elems (shape);
  gboolean has_rows = tps_optimizer_mixes_row (&model->optimizer);
  gsize dim = has_rows && shape->n_dims == 2 ? (gsize) shape->dims[1] : n_elems;
  gsize n_rows;

  if (n_elems == 0)
    return;
  n_rows = MAX (1, BLOCK_ELEMS / dim);
  if (!has_rows)
    for (gsize at = 0; at < n_elems; at += BLOCK_ELEMS)
      add_block (model, parameter, at, 1, MIN (BLOCK_ELEMS, n_elems - at));
  else
    for (gsize at = 0; at < n_elems; at += n_rows * dim)
      add_block (model, parameter, at, MIN (n_rows, (n_elems - at) / dim), dim);
  model->n_hashes += tps_update_digest_n_blocks (n_elems * sizeof (gfloat));
}

/* ---- beginning and end ---- */

static gboolean
check_parameter (const TpsNamedTensor *parameters, guint i, GHashTable *names, GError **error)
{
  const TpsNamedTensor *parameter = &parameters[i];
  g_autofree gchar *shape = tps_shape_to_string (&parameter->tensor.shape);

  if (!g_hash_table_add (names, parameter->name))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "parameters[%u].name is %s, which is also the name of another parameter", i,
                     parameter->name);
  if (parameter->tensor.shape.dtype != TPS_DTYPE_FLOAT32)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "parameters[%u] (%s) is %s, expected FLOAT32", i, parameter->name, shape);
  return TRUE;
}

static gboolean
check_parameters (const TpsNamedTensor *parameters, guint n_parameters, GError **error)
{
  g_autoptr (GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);

  if (n_parameters == 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "parameters is empty, expected at least one");
  if (n_parameters > TPS_TRAINED_MODEL_MAX_PARAMETERS)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%u parameters, expected at most %d",
                     n_parameters, TPS_TRAINED_MODEL_MAX_PARAMETERS);
  for (guint i = 0; i < n_parameters; i++)
    if (!check_parameter (parameters, i, names, error))
      return FALSE;
  return TRUE;
}

static gboolean
set_beginning (TpsTrainedModel *model, const TpsNamedTensor *parameters, guint n_parameters,
               GError **error)
{
  TpsPushHash *hash;

  model->newest = version_new (model->buffers, 1, parameters, n_parameters, error);
  if (model->newest == NULL)
    return FALSE;
  hash = tps_push_hash_new ();
  for (guint i = 0; i < n_parameters; i++)
    {
      const TpsTensor *from = &parameters[i].tensor;
      const TpsTensor *to = &model->newest->parameters[i].tensor;
      gsize n_bytes = tps_shape_n_bytes (&from->shape);

      if (n_bytes > 0)
        memcpy (tps_tensor_data (to), tps_tensor_data (from), n_bytes);
      tps_push_hash_add_string (hash, parameters[i].name);
      tps_push_hash_add_tensor (hash, tps_tensor_view (to)); /* the sender may change `from` */
      add_parameter (model, i, &from->shape);
    }
  model->beginning = tps_push_hash_end (hash);
  return TRUE;
}

static gboolean
allocate_state (TpsTrainedModel *model, GError **error)
{
  gsize n_bytes = model->n_state * sizeof (gfloat);

  model->state = tps_buffer_pool_get (model->buffers, n_bytes, error);
  if (model->state == NULL)
    {
      g_prefix_error (error,
                      "no memory for the optimizer's state: %" G_GSIZE_FORMAT " bytes: ", n_bytes);
      return FALSE;
    }
  memset (tps_buffer_get_data (model->state), 0, n_bytes);
  return TRUE;
}

static TpsTrainedModel *
model_alloc (const TpsOptimizerSpec *optimizer, TpsBufferPool *buffers)
{
  TpsTrainedModel *model = g_new0 (TpsTrainedModel, 1);

  tps_refcount_init (&model->refcount);
  model->optimizer = *optimizer;
  model->update_row = tps_cpu_optimizer_get (optimizer->kind);
  model->buffers = tps_buffer_pool_ref (buffers);
  model->blocks = g_array_new (FALSE, FALSE, sizeof (Block));
  return model;
}

TpsTrainedModel *
tps_trained_model_new (const TpsNamedTensor *parameters, guint n_parameters,
                       const TpsOptimizerSpec *optimizer, TpsBufferPool *buffers, GError **error)
{
  TpsOptimizerSpec resolved = *optimizer;
  g_autoptr (TpsTrainedModel) model = NULL;

  if (!check_parameters (parameters, n_parameters, error)
      || !tps_optimizer_spec_resolve (&resolved, "optimizer", error))
    return NULL;
  model = model_alloc (&resolved, buffers);
  if (!set_beginning (model, parameters, n_parameters, error) || !allocate_state (model, error))
    return NULL;
  return g_steal_pointer (&model);
}

void
tps_trained_model_set_shared_versions (TpsTrainedModel *model, TpsBufferPool *versions)
{
  if (versions != NULL)
    model->shared_versions = tps_buffer_pool_ref (versions);
}

TPS_DEFINE_REF (TpsTrainedModel, tps_trained_model)

void
tps_trained_model_unref (TpsTrainedModel *model)
{
  if (!tps_refcount_dec (&model->refcount))
    return;
  g_clear_pointer (&model->newest, tps_model_version_unref);
  g_clear_pointer (&model->state, tps_buffer_unref);
  g_clear_pointer (&model->spare, tps_buffer_unref);
  tps_buffer_pool_unref (model->buffers);
  g_clear_pointer (&model->shared_versions, tps_buffer_pool_unref);
  g_array_unref (model->blocks);
  g_free (model);
}

gboolean
tps_trained_model_began_as (const TpsTrainedModel *model, const TpsTrainedModel *other)
{
  return memcmp (&model->beginning, &other->beginning, sizeof model->beginning) == 0
         && tps_optimizer_spec_equal (&model->optimizer, &other->optimizer);
}

static gsize
get_n_bytes (const TpsTrainedModel *model)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < model->newest->n_parameters; i++)
    n_bytes += tps_shape_n_bytes (&model->newest->parameters[i].tensor.shape);
  return n_bytes;
}

/* ---- snapshots ---- */

gfloat *
tps_trained_model_get_state (const TpsTrainedModel *model, gsize *n_floats)
{
  *n_floats = model->n_state;
  return (gfloat *) (gpointer) tps_buffer_get_data (model->state);
}

TpsBuffer *
tps_trained_model_share_state (TpsTrainedModel *model, TpsBuffer *spare)
{
  tps_trained_model_drop_spare (model);
  model->spare = spare;
  return tps_buffer_ref (model->state);
}

void
tps_trained_model_drop_spare (TpsTrainedModel *model)
{
  g_clear_pointer (&model->spare, tps_buffer_unref);
}

TpsTrainedModel *
tps_trained_model_new_restored (TpsModelVersion *newest, const TpsOptimizerSpec *optimizer,
                                const TpsPushDigest *beginning, TpsBufferPool *buffers,
                                GError **error)
{
  g_autoptr (TpsTrainedModel) model = NULL;

  if (!check_parameters (newest->parameters, newest->n_parameters, error))
    return NULL;
  model = model_alloc (optimizer, buffers);
  model->newest = tps_model_version_ref (newest);
  model->beginning = *beginning;
  for (guint i = 0; i < newest->n_parameters; i++)
    add_parameter (model, i, &newest->parameters[i].tensor.shape);
  return allocate_state (model, error) ? g_steal_pointer (&model) : NULL;
}

/* ---- scratch memory ---- */

struct TpsModelScratch
{
  TpsBuffer *memory;
  gsize n_slot_bytes;
  atomic_uint free_slots; /* one bit for each slot */
};

static void
scratch_free (TpsModelScratch *scratch)
{
  tps_buffer_unref (scratch->memory);
  g_free (scratch);
}

/* Sets `scratch` to one slot for each thread, with room for the longest row. Sets it to NULL if all
 * blocks fit on the stack, or if a single gradient is its own mean. */
static gboolean
provide_scratch (const TpsTrainedModel *model, guint n_gradients, guint n_threads,
                 TpsModelScratch **scratch, GError **error)
{
  gsize n_slot_bytes = model->max_elems * sizeof (gfloat) + TPS_BUFFER_ALIGNMENT;
  TpsBuffer *memory;

  *scratch = NULL;
  if (model->max_elems <= BLOCK_ELEMS || n_gradients == 1)
    return TRUE;
  n_slot_bytes -= n_slot_bytes % TPS_BUFFER_ALIGNMENT;
  memory = tps_buffer_pool_get (model->buffers, n_threads * n_slot_bytes, error);
  if (memory == NULL)
    return FALSE;
  *scratch = g_new0 (TpsModelScratch, 1);
  (*scratch)->memory = memory;
  (*scratch)->n_slot_bytes = n_slot_bytes;
  atomic_init (&(*scratch)->free_slots, G_MAXUINT32 >> (TPS_MODEL_MAX_THREADS - n_threads));
  return TRUE;
}

/* Takes the free slot with the lowest number. There are as many slots as threads, so at least one
 * slot is free. */
static guint
take_slot (TpsModelScratch *scratch)
{
  guint free_slots = atomic_load (&scratch->free_slots);

  while (!atomic_compare_exchange_weak (&scratch->free_slots, &free_slots,
                                        free_slots & (free_slots - 1)))
    continue;
  return (guint) __builtin_ctz (free_slots);
}

/* ---- an update ---- */

static guint
get_n_blocks (const TpsTrainedModel *model)
{
  return MAX (1, model->blocks->len);
}

/* Returns the pool for the new version, which depends on the origin of the gradients. */
static TpsBufferPool *
choose_pool (const TpsTrainedModel *model, const TpsTensor *const *gradients, guint n_gradients)
{
  for (guint i = 0; model->shared_versions != NULL && i < n_gradients; i++)
    for (guint p = 0; p < model->newest->n_parameters; p++)
      if (gradients[i][p].buffer != NULL && tps_buffer_is_shared (gradients[i][p].buffer))
        return model->shared_versions;
  return model->buffers;
}

gboolean
tps_model_update_begin (TpsModelUpdate *update, TpsTrainedModel *model,
                        const TpsTensor *const *gradients, guint n_gradients, guint n_threads,
                        GError **error)
{
  const TpsModelVersion *old = model->newest;
  TpsModelScratch *scratch;
  TpsModelVersion *version;

  if (!provide_scratch (model, n_gradients, n_threads, &scratch, error))
    return FALSE;
  version = version_new (choose_pool (model, gradients, n_gradients), old->version + 1,
                         old->parameters, old->n_parameters, error);
  if (version == NULL)
    {
      g_clear_pointer (&scratch, scratch_free);
      return FALSE;
    }
  *update = (TpsModelUpdate) {
    .model = tps_trained_model_ref (model),
    .gradients = gradients,
    .n_gradients = n_gradients,
    .hashes = g_new0 (TpsPushDigest *, n_gradients),
    .version = version,
    .state = tps_buffer_is_exclusive (model->state) ? NULL : g_steal_pointer (&model->spare),
    .n_blocks = get_n_blocks (model),
    .scratch = scratch,
  };
  return TRUE;
}

void
tps_model_update_want_hashes (TpsModelUpdate *update, guint i)
{
  update->hashes[i] = g_new (TpsPushDigest, update->model->n_hashes);
}

static const gfloat *
get_gradient (const TpsModelUpdate *update, guint i, const Block *block)
{
  return (const gfloat *) tps_tensor_data (&update->gradients[i][block->parameter]) + block->offset;
}

/* Returns the mean of the block's gradients, in `scratch`. If there is a single gradient, returns
 * this gradient. */
static const gfloat *
average (const TpsModelUpdate *update, const Block *block, gfloat *scratch)
{
  gsize n_elems = block->n_rows * block->dim;

  if (update->n_gradients == 1)
    return get_gradient (update, 0, block);
  tps_cpu_add (TPS_DTYPE_FLOAT32, scratch, get_gradient (update, 0, block),
               get_gradient (update, 1, block), n_elems);
  for (guint i = 2; i < update->n_gradients; i++)
    tps_cpu_accumulate (TPS_DTYPE_FLOAT32, scratch, get_gradient (update, i, block), n_elems);
  tps_cpu_divide (TPS_DTYPE_FLOAT32, scratch, scratch, update->n_gradients, n_elems);
  return scratch;
}

/* Hashes the blocks of the digest that begin in this block of the model. The two kinds of blocks
 * have different sizes if the optimizer is row-wise, so the last block of the digest may extend
 * into the next block of the model. */
static void
hash_gradient (const TpsModelUpdate *update, guint i, const Block *block)
{
  const TpsTensor *gradient = &update->gradients[i][block->parameter];
  const gfloat *elems = tps_tensor_data (gradient);
  gsize n_elems = (gsize) tps_shape_n_elems (&gradient->shape);
  gsize end = block->offset + block->n_rows * block->dim;

  for (gsize k = (block->offset + HASHED_ELEMS - 1) / HASHED_ELEMS; k * HASHED_ELEMS < end; k++)
    update->hashes[i][block->first_hash + k] = tps_update_digest_of_block (
        elems + k * HASHED_ELEMS, MIN (HASHED_ELEMS, n_elems - k * HASHED_ELEMS) * sizeof (gfloat));
}

/* Returns the state of a block for writing. If a snapshot shares the old state, this is a copy in
 * the new state. */
static gfloat *
take_state (const TpsModelUpdate *update, const Block *block, gsize n_floats)
{
  gfloat *old = (gfloat *) (gpointer) tps_buffer_get_data (update->model->state)
                + block->state_offset;
  gfloat *copy;

  if (update->state == NULL)
    return old;
  copy = (gfloat *) (gpointer) tps_buffer_get_data (update->state) + block->state_offset;
  memcpy (copy, old, n_floats * sizeof (gfloat));
  return copy;
}

static void
update_block (const TpsModelUpdate *update, const TpsOptimizerStep *step, const Block *block,
              gfloat *scratch)
{
  const TpsTrainedModel *model = update->model;
  const gfloat *old = tps_tensor_data (&model->newest->parameters[block->parameter].tensor);
  gfloat *values = tps_tensor_data (&update->version->parameters[block->parameter].tensor);
  gsize state_per_row = tps_optimizer_state_per_row (&model->optimizer, block->dim);
  gfloat *state = take_state (update, block, block->n_rows * state_per_row);
  const gfloat *gradient;

  for (guint i = 0; i < update->n_gradients; i++)
    if (update->hashes[i] != NULL)
      hash_gradient (update, i, block);
  gradient = average (update, block, scratch);
  old += block->offset;
  values += block->offset;
  memcpy (values, old, block->n_rows * block->dim * sizeof (gfloat));
  for (gsize row = 0; row < block->n_rows; row++)
    model->update_row (step, values + row * block->dim, gradient + row * block->dim,
                       state + row * state_per_row, block->dim);
}

static void
run_blocks (const TpsModelUpdate *update, guint first_block, guint n_blocks, gfloat *scratch)
{
  const TpsTrainedModel *model = update->model;
  TpsOptimizerStep step;

  /* The update of version v is step v of the optimizer. */
  tps_cpu_optimizer_step_init (&step, &model->optimizer, model->newest->version);
  for (guint i = first_block; i < first_block + n_blocks && i < model->blocks->len; i++)
    update_block (update, &step, &g_array_index (model->blocks, Block, i), scratch);
}

void
tps_model_update_run (TpsModelUpdate *update, guint first_block, guint n_blocks)
{
  TpsModelScratch *scratch = update->scratch;
  _Alignas(TPS_BUFFER_ALIGNMENT) gfloat short_rows[BLOCK_ELEMS];
  guint slot;

  if (scratch == NULL)
    {
      run_blocks (update, first_block, n_blocks, short_rows);
      return;
    }
  slot = take_slot (scratch);
  run_blocks (
      update, first_block, n_blocks,
      (gfloat *) (gpointer) (tps_buffer_get_data (scratch->memory) + slot * scratch->n_slot_bytes));
  atomic_fetch_or (&scratch->free_slots, 1u << slot);
}

static guint
get_blocks_per_helper (void)
{
  return (guint) (tps_tuning_get ()->model_helper_bytes / TPS_TRAINED_MODEL_BLOCK_BYTES);
}

guint
tps_trained_model_get_n_threads (const TpsTrainedModel *model, TpsWorkerPool *workers)
{
  return tps_block_work_get_n_threads (workers, get_n_blocks (model), get_blocks_per_helper ());
}

static void
run_range (gpointer update, guint first_block, guint n_blocks)
{
  tps_model_update_run (update, first_block, n_blocks);
}

static void
blocks_done (gpointer user_data)
{
  TpsModelUpdate *update = user_data;

  update->done (update->user_data);
}

static void
compute_on_workers (gpointer user_data)
{
  TpsModelUpdate *update = user_data;
  gsize range_bytes = tps_tuning_get ()->model_range_bytes;
  TpsBlockWork work = {
    .n_blocks = update->n_blocks,
    .range_blocks = (guint) (range_bytes / TPS_TRAINED_MODEL_BLOCK_BYTES),
    .blocks_per_helper = get_blocks_per_helper (),
    .run = run_range,
    .done = blocks_done,
    .user_data = update,
  };

  tps_block_work_run (update->workers, &work);
}

gboolean
tps_model_update_compute (TpsModelUpdate *update, TpsWorkerPool *workers,
                          void (*done) (gpointer user_data), gpointer user_data)
{
  gsize n_bytes = get_n_bytes (update->model) * update->n_gradients;

  if (n_bytes <= tps_tuning_get ()->inline_bytes)
    {
      tps_model_update_run (update, 0, update->n_blocks);
      return TRUE;
    }
  update->workers = workers;
  update->done = done;
  update->user_data = user_data;
  tps_worker_pool_submit (workers, compute_on_workers, update);
  return FALSE;
}

void
tps_model_update_end (TpsModelUpdate *update)
{
  TpsTrainedModel *model = update->model;
  TpsModelVersion *old = model->newest;

  for (guint i = 0; i < update->n_gradients; i++)
    g_free (update->hashes[i]);
  g_free (update->hashes);
  g_clear_pointer (&update->scratch, scratch_free);
  model->newest = g_steal_pointer (&update->version);
  tps_model_version_unref (old);
  if (update->state != NULL)
    {
      tps_buffer_unref (model->state);
      model->state = g_steal_pointer (&update->state);
    }
  tps_trained_model_unref (g_steal_pointer (&update->model));
}
