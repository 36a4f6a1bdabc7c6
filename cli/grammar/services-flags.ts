import { type Command } from 'commander';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { defaultBalancerListen } from '../generate/manifest/options.ts';
import { collect } from './shared-options.ts';

/** Gives `manifest` the switches that are for its kind `services`. */
export function addServicesFlags(command: Command): Command {
  return command
    .option('--pool <value>', 'for services: addresses to give; repeat the flag for more', collect)
    .option('--default-class', 'for services: serve Services without a class too')
    .option(
      '--balancer-listen <value>',
      `for services: where balancers serve metrics and readiness, or off (default: ${formatEndpoint(defaultBalancerListen)})`,
    );
}
