import { type Command } from 'commander';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { defaultBalancerListen, defaultProbePort, servicesNamespace } from '../generate/manifest/options.ts';
import { collect } from './shared-options.ts';

const probePortHelp = `the TCP port at which to ask whether other nodes live, or off (default: ${defaultProbePort})`;

/** Gives `manifest` the switches that are for its kind `services`. */
export function addServicesFlags(command: Command): Command {
  return command
    .option('--pool <value>', 'for services: addresses to give; repeat the flag for more', collect)
    .option('--default-class', 'for services: serve Services without a class too')
    .option(
      '--default-device <value>',
      'for services: the LoadBalancerDevice of Services without a class that have an annotation lb.zcloud.cn/vip or lb.zdns.cn/vip',
    )
    .option(
      '--gate <value>',
      'for services: also open readiness gates of this type; repeat the flag for more',
      collect,
    )
    .option(
      '--inject-gates [value]',
      'for services: give pods a readiness gate where their namespace asks for it, by policy (default, Kubernetes 1.36) or webhook',
    )
    .option(
      '--balancer-listen <value>',
      `for services: where balancers serve metrics and readiness, or off (default: ${formatEndpoint(defaultBalancerListen)})`,
    )
    .option('--node-probe-port <value>', `for services: ${probePortHelp}`);
}

/** Gives `balancer` its own switches. */
export function addBalancerFlags(command: Command): Command {
  return command
    .option('--namespace <value>', `where vipnat's own objects are (default: ${servicesNamespace})`)
    .option(
      '--node-address <value>',
      'the address of this node for other nodes; repeat the flag for more (default: by its default route)',
      collect,
    )
    .option('--node-probe-port <value>', probePortHelp);
}
