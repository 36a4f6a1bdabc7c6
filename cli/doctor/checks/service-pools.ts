import { type Check } from '../facts/check.ts';
import { given, lookAtHost } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';

/** What the API says of pools and Services. Each is to be asked only where Services are used. */
export const poolChecks: readonly Check[] = [
  {
    code: 'pool-off-network',
    levels: ['warn'],
    meaning:
      'The API has a seat for this node that the node cannot hold, such as one outside of its networks.',
    find: findOffNetwork,
  },
  {
    code: 'pool-address-in-use',
    levels: ['fail'],
    meaning: 'Another host on the network answers for an address of a pool.',
    find: findInUse,
  },
  {
    code: 'node-reports-service-address',
    levels: ['warn'],
    meaning: 'A Node of the API reports the address of a Service as its own.',
    find: findMisreported,
  },
  {
    code: 'service-without-class',
    levels: ['warn'],
    meaning: 'A Service of type LoadBalancer has no class, and no controller serves such Services.',
    find: findNoClass,
  },
];

/** By the same rules as the balancer's. */
function findOffNetwork({ services: { cluster } }: HostFacts): ReturnType<Check['find']> {
  return given([cluster], ({ plan, node }) =>
    lookAtHost(() =>
      plan.problems.map((problem) => ({
        level: 'warn' as const,
        title: problem,
        why: `If ${node} is the last living node of such a seat, no node holds its addresses.`,
        remedy: [
          '# take the node out of nodeSelector of the pool, or give the pool the interface: kubectl edit addresspool NAME',
          '# the addresses of a pool have to be in a network of each node that may hold them: docs/services.md',
        ],
      })),
    ),
  );
}

/** By what balancers found on the networks of their nodes, and by this host's own question for free addresses. */
function findInUse({ services: { cluster, host, poolUsers } }: HostFacts): ReturnType<Check['find']> {
  const reported = 'value' in cluster ? cluster.value.view.reports : [];
  const addressToWords = new Map([
    ...(host.activity?.inUse ?? []).map(
      (address) => [address, 'the balancer of this node found it'] as const,
    ),
    ...reported
      .filter(({ isLiving }) => isLiving)
      .flatMap(({ node, inUse }) => inUse.map((address) => [address, `${node} found it`] as const)),
    ...('value' in poolUsers ? [...poolUsers.value] : []).map(
      ([address, mac]) => [address, `MAC ${mac} answers on a network of this host`] as const,
    ),
  ]);
  if (addressToWords.size === 0 && 'unknown' in poolUsers) return poolUsers;
  return lookAtHost(() =>
    [...addressToWords].map(([address, words]) => ({
      level: 'fail' as const,
      title: `another host has ${address}, which is an address of a pool: ${words}`,
      why: 'As long as that host answers, no Service gets the address. vipnat withdraws it from a Service that has it.',
      remedy: [
        '# find that host, and take the address off it. Or take the address out of the pool: kubectl edit addresspool NAME',
      ],
    })),
  );
}

/** As the controller judges it: it follows Nodes. */
function findMisreported({ services: { cluster } }: HostFacts): ReturnType<Check['find']> {
  return given([cluster], ({ view: { pools } }) =>
    lookAtHost(() =>
      pools.flatMap(({ metadata: { name }, status }) => {
        const said = status?.conditions?.find(({ type }) => type === 'Accepted');
        if (said?.reason !== 'NodeReportsAddress') return [];
        return [
          {
            level: 'warn' as const,
            title: `a Node reports addresses of Services as its own, of the AddressPool ${name}`,
            why: `A connection to the Node by this address reaches the Service. The controller says: ${said.message}`,
            remedy: [
              '# on each node that the message names, tell the kubelet its own address: --node-ip=ADDRESS',
              '# with kubeadm: KUBELET_EXTRA_ARGS=--node-ip=ADDRESS in /etc/default/kubelet, or in /etc/sysconfig/kubelet',
              '# then, on the node: systemctl restart kubelet',
            ],
          },
        ];
      }),
    ),
  );
}

function findNoClass({ services: { cluster } }: HostFacts): ReturnType<Check['find']> {
  return given([cluster], ({ view: { services } }) =>
    lookAtHost(() => {
      const waiting = services.filter(({ reason }) => reason === 'NoClass').map(({ key }) => key);
      const [first] = waiting;
      if (first === undefined) return [];
      const more = waiting.length === 1 ? '' : ` and ${waiting.length - 1} more`;
      return [
        {
          level: 'warn',
          title: `no controller serves ${first}${more}: no loadBalancerClass`,
          why: 'A Service of type LoadBalancer without a class gets an address only if the controller runs with --default-class.',
          remedy: [
            '# if vipnat shall serve it: create it again with loadBalancerClass: vipnat.io/lb. The class of a Service cannot be added later',
            '# if vipnat alone shall serve all such Services, add this to your options: vipnat manifest services --default-class',
          ],
        },
      ];
    }),
  );
}
