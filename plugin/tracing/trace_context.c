/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/tracing/trace_context.h"

#include <string.h>

/* The format of a traceparent (W3C Trace Context): version "-" trace id "-" parent id "-" flags. */
#define TRACE_ID_OFFSET 3
#define PARENT_ID_OFFSET 36
#define FLAGS_OFFSET 53
#define TEXT_BYTES (TPS_TRACEPARENT_TEXT - 1)
#define FLAG_SAMPLED 0x01

static const gchar digits[] = "0123456789abcdef";

static gint
digit_value (gchar c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static gboolean
parse_hex (const gchar *text, guint8 *bytes, gsize n_bytes)
{
  for (gsize i = 0; i < n_bytes; i++)
    {
      gint high = digit_value (text[2 * i]);
      gint low = digit_value (text[2 * i + 1]);

      if (high < 0 || low < 0)
        return FALSE;
      bytes[i] = (guint8) (high << 4 | low);
    }
  return TRUE;
}

static gboolean
is_zero (const guint8 *bytes, gsize n_bytes)
{
  guint8 all = 0;

  for (gsize i = 0; i < n_bytes; i++)
    all |= bytes[i];
  return all == 0;
}

/* Returns TRUE if the text has the length and the dashes of its version. Later versions may be
 * longer. */
static gboolean
check_form (const gchar *text, guint8 version)
{
  gsize n_bytes = strlen (text);

  if (version == 0 ? n_bytes != TEXT_BYTES : n_bytes > TEXT_BYTES && text[TEXT_BYTES] != '-')
    return FALSE;
  return text[TRACE_ID_OFFSET - 1] == '-' && text[PARENT_ID_OFFSET - 1] == '-'
         && text[FLAGS_OFFSET - 1] == '-';
}

gboolean
tps_trace_context_parse (const gchar *text, TpsTraceContext *context)
{
  TpsTraceContext parsed;
  guint8 version, flags;

  if (text == NULL || strnlen (text, TEXT_BYTES) < TEXT_BYTES || !parse_hex (text, &version, 1)
      || version == 0xff || !check_form (text, version)
      || !parse_hex (text + TRACE_ID_OFFSET, parsed.trace_id, TPS_TRACE_ID_BYTES)
      || !parse_hex (text + PARENT_ID_OFFSET, parsed.parent_id, TPS_SPAN_ID_BYTES)
      || !parse_hex (text + FLAGS_OFFSET, &flags, 1)
      || is_zero (parsed.trace_id, TPS_TRACE_ID_BYTES)
      || is_zero (parsed.parent_id, TPS_SPAN_ID_BYTES))
    return FALSE;
  parsed.is_sampled = (flags & FLAG_SAMPLED) != 0;
  *context = parsed;
  return TRUE;
}

void
tps_hex_format (const guint8 *bytes, gsize n_bytes, gchar *text)
{
  for (gsize i = 0; i < n_bytes; i++)
    {
      *text++ = digits[bytes[i] >> 4];
      *text++ = digits[bytes[i] & 0x0f];
    }
  *text = '\0';
}

void
tps_trace_id_format (const guint8 id[TPS_TRACE_ID_BYTES], gchar text[TPS_TRACE_ID_TEXT])
{
  tps_hex_format (id, TPS_TRACE_ID_BYTES, text);
}

void
tps_trace_context_format (const TpsTraceContext *context, gchar text[TPS_TRACEPARENT_TEXT])
{
  static const guint8 version = 0;
  const guint8 flags = context->is_sampled ? FLAG_SAMPLED : 0;

  tps_hex_format (&version, 1, text);
  text[TRACE_ID_OFFSET - 1] = '-';
  tps_hex_format (context->trace_id, TPS_TRACE_ID_BYTES, text + TRACE_ID_OFFSET);
  text[PARENT_ID_OFFSET - 1] = '-';
  tps_hex_format (context->parent_id, TPS_SPAN_ID_BYTES, text + PARENT_ID_OFFSET);
  text[FLAGS_OFFSET - 1] = '-';
  tps_hex_format (&flags, 1, text + FLAGS_OFFSET);
}

gboolean
tps_tracestate_is_valid (const gchar *text)
{
  gsize n_bytes = 0;

  for (; text[n_bytes] != '\0'; n_bytes++)
    if (n_bytes == TPS_TRACESTATE_MAX_BYTES || text[n_bytes] < ' ' || text[n_bytes] > '~')
      return FALSE;
  return n_bytes > 0;
}
