/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The standalone server with the service Trainer. */

#include "plugin/app/thriftps_server.h"
#include "plugin/trainer/trainer_links.h"
#include "plugin/trainer/trainer_service.h"

/* If encryption is required, the trainer must encrypt its connections, too. */
static void
add_trainer (TpsPlugin *plugin, const TpsServerFlags *flags, TpsTls *tls)
{
  static TpsTrainerReach reach; /* of the only trainer */
  TpsTrainerLinks links = tps_trainer_links (&reach);
  TpsService service;

  reach.token = g_getenv ("THRIFTPS_TOKEN");
  reach.tls = flags->tls == TPS_TLS_REQUIRED ? tls : NULL;
  links.no_plain_groups = flags->tls == TPS_TLS_REQUIRED && !flags->allow_plain_collectives;
  service = tps_trainer_service (tps_trainer_new (&links, plugin->metrics));
  tps_plugin_add_service (plugin, &service);
}

int
main (int argc, char **argv)
{
  static const TpsServerAddition trainer = { .program = "thriftps_trainer",
                                             .service = "Trainer",
                                             .add_service = add_trainer };

  return tps_server_main (argv, &trainer);
}
