import { bySchema, text, list, defineCommand, namespaceFlag, checkNamespace } from '../command.ts';
import type { Address } from '../../lib/net.ts';
import { address } from '../../config/options.ts';
import { probePortMeaning, findProbePortProblems, readProbePort } from '../manifest/request.ts';

const readAddress = bySchema<Address | null>(address, null, '10.0.0.21');

/** `vipnat balancer`. */
export const balancer = defineCommand({
  help: `
Examples:
  vipnat balancer                    in a pod, with its service account
  vipnat balancer --kubeconfig /etc/vipnat/kubeconfig --node-name worker-1

The balancer serves Services of type LoadBalancer that have an address. It writes the
tables vipnat-lb of nftables, and touches nothing of vipnat run. When it stops, its
rules work for 30 more seconds. Then kube-proxy's rules count.
Exit status: 0 ended by a signal, 1 failed, 78 bad configuration.`,
  flags: {
    namespace: namespaceFlag("where vipnat's own objects are"),
    nodeAddress: list(
      'ADDR,…',
      'the address of this node for other nodes; repeat the flag for more (default: by its default route)',
      // The downward API gives all addresses of a pod's host in one text, and none before it has any.
      (texts, reading) =>
        texts
          .flatMap((each) => each.split(','))
          .filter((each) => each !== '')
          .flatMap((each) => readAddress(each, reading)?.text ?? []),
    ),
    nodeProbePort: text('PORT', probePortMeaning, (given, { report }) => {
      findProbePortProblems(given ?? null).forEach(report);
      return readProbePort(given ?? null);
    }),
  },
  configOptions: ['kubeconfig', 'nodeName', 'runDir', 'listen', 'logLevel', 'logFormat'],
  hasLog: () => true,
  check: ({ options }) => checkNamespace(options.namespace),
  run: async ({ config, given, options: { namespace, nodeAddress: nodeAddresses, nodeProbePort } }) => {
    const { runBalancer } = await import('../../balancer/main.ts');
    return await runBalancer(config, { given, namespace, nodeAddresses, probePort: nodeProbePort });
  },
});
