import { text, defineCommand, namespaceFlag, checkNamespace } from '../command.ts';
import {
  controllerFlags,
  checkGates,
  checkDrivers,
  checkWebhookPort,
  checkDefaultDevice,
} from '../manifest/request.ts';

/** `vipnat controller`. */
export const controller = defineCommand({
  help: `
Examples:
  vipnat controller --kubeconfig controller.conf
  vipnat controller --namespace vipnat-system --default-class
  vipnat controller --gate example.com/load-balancer-ready

Gives addresses of AddressPools to Services of type LoadBalancer, and withdraws them.
Start it as often as you like: one process leads, and the others wait. It needs no
root and no other rights on its host. In a pod it takes the pod's service account.
vipnat manifest services prints all that it needs. --vip names addresses that no pool
may have, such as the API's virtual IP. Pods with the readiness gate
vipnat.io/load-balancer-ready, or one of --gate, are ready when nodes serve them.
It also configures load balancers outside of the cluster. Each is a
LoadBalancerDevice. Services choose one by the class vipnat.io/NAME. With --driver it
runs a driver of your own, which docs/drivers.md describes.
Exit status: 0 ended by a signal, 1 failed, 78 bad configuration.`,
  flags: {
    namespace: namespaceFlag("the namespace of vipnat's Leases"),
    ...controllerFlags,
    webhookPort: text('PORT', 'serve the webhook that gives pods a readiness gate at this port'),
  },
  configOptions: ['vip', 'kubeconfig', 'listen', 'logLevel', 'logFormat'],
  hasLog: () => true,
  check: ({ options }) => [
    ...checkNamespace(options.namespace),
    ...checkGates(options.gate),
    ...checkDrivers(options.driver),
    ...checkWebhookPort(options.webhookPort),
    ...checkDefaultDevice(options),
  ],
  run: async ({
    config,
    options: { defaultClass: isDefaultClass, gate: gates, driver: drivers, ...options },
  }) => {
    const { runController } = await import('../../controller/main.ts');
    return await runController(config, { ...options, isDefaultClass, gates, drivers });
  },
});
