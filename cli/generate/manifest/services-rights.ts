import {
  apiGroup,
  deviceSecret,
  electionLease,
  firstPools,
  webhookName,
} from '../../../lib/services/names.ts';
import { allow, type Account, type Rights, toAccount, toRole } from './rights.ts';
import { type Manifest } from './yaml.ts';

/** The controller's Deployment, its account and its rights. */
export const controllerName = 'vipnat-controller';

/** The balancer's DaemonSet, its account and its rights. */
export const balancerName = 'vipnat-balancer';

/** Of all namespaces, and of vipnat's own. */
interface AllRights {
  readonly cluster: Rights;
  readonly own: Rights;
}

/** An account with what controller/kinds/ asks for, and nothing else. */
export function toControllerRights(namespace: string): Manifest[] {
  const account = { name: controllerName, namespace };
  return [toAccount(account), ...toRoles(controllerName, account, controller)];
}

/** An account with what balancer/follow/ and balancer/report/ ask for, and nothing else. */
export function toBalancerRights(namespace: string): Manifest[] {
  const account = { name: balancerName, namespace };
  return [toAccount(account), ...toRoles(balancerName, account, balancer)];
}

/** What the controller's account needs besides to keep the webhook's certificate. */
export function toWebhookRights(namespace: string): Manifest[] {
  return toRoles(webhookName, { name: controllerName, namespace }, webhook);
}

function toRoles(name: string, account: Account, { cluster, own }: AllRights): Manifest[] {
  return [
    ...toRole({ name, namespace: null }, account, cluster),
    ...toRole({ name, namespace: account.namespace }, account, own),
  ];
}

const leases = 'coordination.k8s.io';

const controller: AllRights = {
  cluster: {
    purpose:
      'To follow Services, pods, nodes, namespaces, ServiceCIDRs and the addresses of apiservers. To give addresses, and to write finalizers, statuses and events. To open readiness gates by EndpointSlices of its own.',
    rules: [
      allow('', 'services', 'get list watch patch'),
      allow('', 'services/status', 'patch'),
      allow('', 'nodes namespaces pods', 'list watch'),
      allow('', 'pods/status', 'patch'),
      allow('discovery.k8s.io', 'endpointslices', 'list watch create patch delete'),
      allow('networking.k8s.io', 'servicecidrs', 'list watch'),
      allow(apiGroup, 'addresspools', 'list watch create patch'),
      allow(apiGroup, 'virtualips', 'get list watch create patch delete'),
      allow(apiGroup, 'loadbalancerdevices', 'list watch patch'),
      allow(apiGroup, 'addresspools/status virtualips/status loadbalancerdevices/status', 'patch'),
      allow('events.k8s.io', 'events', 'create patch'),
    ],
  },
  own: {
    purpose:
      'To learn what the nodes report. To note and delete Leases of nodes that report no more. To choose one controller that writes, and to create the first pools. To read the credentials of devices.',
    // What is created has no name to be limited to.
    rules: [
      allow(leases, 'leases', 'list watch create patch delete'),
      allow(leases, 'leases', 'get', [electionLease]),
      allow('', 'configmaps', 'get patch', [firstPools]),
      allow('', 'secrets', 'get', [deviceSecret]),
    ],
  },
};

const balancer: AllRights = {
  cluster: {
    purpose:
      'To follow Services, their pods, who has which address, and nodes: their zones, and whether they shut down.',
    rules: [
      allow('', 'services nodes', 'list watch'),
      allow('discovery.k8s.io', 'endpointslices', 'list watch'),
      allow(apiGroup, 'addresspools virtualips', 'list watch'),
    ],
  },
  own: {
    purpose:
      'To report what this node has done, in the Lease of the node, and to learn where other nodes are.',
    rules: [allow(leases, 'leases', 'get list create patch')],
  },
};

const webhook: AllRights = {
  cluster: {
    purpose:
      'To write which certificates the API server trusts. This right also allows to change what the webhook is asked about.',
    rules: [
      allow('admissionregistration.k8s.io', 'mutatingwebhookconfigurations', 'list watch patch', [
        webhookName,
      ]),
    ],
  },
  own: {
    purpose:
      'To make and renew the certificate of the webhook. An admission policy lets it create no other Secret.',
    // What is created has no name to be limited to.
    rules: [allow('', 'secrets', 'create'), allow('', 'secrets', 'list watch patch', [webhookName])],
  },
};
