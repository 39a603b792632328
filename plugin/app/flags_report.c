/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/flags_report.h"

#define SECRET "(secret)"

static const gchar *
get_shown (const TpsOption *option, const gchar *text)
{
  return option->is_secret ? SECRET : text;
}

static void
add_value (TpsJsonWriter *json, const TpsOption *option, const GPtrArray *texts)
{
  if (texts->len == 0)
    tps_json_add_null (json, "value");
  else if (option->type != TPS_OPTION_TEXTS)
    tps_json_add_text (json, "value", get_shown (option, texts->pdata[texts->len - 1]));
  else
    {
      tps_json_open (json, "value", '[');
      for (guint i = 0; i < texts->len; i++)
        tps_json_add_text (json, NULL, get_shown (option, texts->pdata[i]));
      tps_json_close (json, ']');
    }
}

static const gchar *
get_default (const TpsOption *option)
{
  if (option->type == TPS_OPTION_FLAG)
    return "false";
  return option->meaning != NULL ? option->meaning : option->initial;
}

static void
add_option (TpsJsonWriter *json, const TpsArguments *arguments, const TpsOption *option)
{
  gboolean is_from_file;
  g_autoptr (GPtrArray) texts = tps_arguments_list (arguments, option, &is_from_file);
  const gchar *origin = is_from_file ? "file" : "command line";

  tps_json_open (json, NULL, '{');
  tps_json_add_text (json, "name", option->name);
  add_value (json, option, texts);
  tps_json_add_text (json, "origin", texts->len > 0 ? origin : "default");
  tps_json_add_text (json, "default", get_default (option));
  tps_json_add_text (json, "help", option->help);
  tps_json_close (json, '}');
}

GString *
tps_flags_report_new (const TpsServerFlags *flags)
{
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_open (&json, "flags", '[');
  for (const TpsOption *option = tps_server_flags_get_options (); option->name != NULL; option++)
    add_option (&json, flags->arguments, option);
  tps_json_close (&json, ']');
  tps_json_close (&json, '}');
  return tps_json_writer_take (&json);
}

void
tps_flags_report_serve (TpsHttpRequest *request, gpointer flags)
{
  tps_http_request_reply (request, 200, "application/json", tps_flags_report_new (flags));
}
