import {
  type Checks,
  type HostFacts,
  given,
  checkHost,
  type NotHere,
  checkEach,
  type Finding,
} from '../facts.ts';
import {
  type InstanceView,
  viewInstances,
  type KeepalivedConfiguration,
  type VrrpAdvert,
} from '../../../lib/keepalived/read.ts';
import { toPrintableLine, quoteWords, shorten } from '../../../lib/text.ts';
import type { ServicesView, DeviceView, ServiceView } from '../../services/view.ts';
import { servicesNamespace } from '../../command.ts';
import { chooseDevice, listCurrentOwners, toDeviceFinalizer } from '../../../lib/api/device.ts';

/** What the API says of pools and Services. Each is to be asked only where Services are used. */
export const poolChecks: Checks = {
  'pool-off-network': {
    levels: ['warn'],
    meaning: 'The API has a seat for this node that the node cannot hold: the finding says why.',
    /** By the same rules as the balancer's. */
    find: ({ services: { cluster } }) =>
      given([cluster], ({ plan, node }) =>
        checkHost(plan.problems, (problem) => ({
          title: problem,
          why: `If ${node} is the last living node of such a seat, no node holds its addresses.`,
          remedy: [
            '# take the node out of nodeSelector of the pool, or give the pool the interface: kubectl edit addresspool NAME',
            '# the addresses of a pool have to be in a network of each node that may hold them: docs/services-operate.md',
          ],
        })),
      ),
  },
  'pool-address-in-use': {
    levels: ['fail'],
    meaning: 'Another host on the network answers for an address of a pool.',
    /** By what balancers found on the networks of their nodes, and by this host's own question for free addresses. */
    find: ({ services: { cluster, host, poolUsers } }) => {
      const reported = 'value' in cluster ? cluster.value.view.reports : [];
      const addressToText = new Map([
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
      if (addressToText.size === 0 && 'unknown' in poolUsers) return poolUsers;
      return checkHost([...addressToText], ([address, words]) => ({
        title: `another host has ${address}, which is an address of a pool: ${words}`,
        why: 'As long as that host answers, no Service gets the address. vipnat withdraws it from a Service that has it.',
        remedy: [
          '# find that host, and take the address off it. Or take the address out of the pool: kubectl edit addresspool NAME',
        ],
      }));
    },
  },
  'node-reports-service-address': {
    levels: ['warn'],
    meaning: 'A Node of the API reports the address of a Service as its own.',
    /** As the controller judges it: it follows Nodes. */
    find: ({ services: { cluster } }) =>
      given([cluster], ({ view: { pools } }) =>
        checkHost(pools, ({ metadata: { name }, status }) => {
          const detail = status?.conditions?.find(({ type }) => type === 'Accepted');
          if (detail?.reason !== 'NodeReportsAddress') return [];
          return {
            title: `a Node reports addresses of Services as its own, of the AddressPool ${name}`,
            why: `A connection to the Node by this address reaches the Service. The controller says: ${detail.message}`,
            remedy: [
              '# on each node that the message names, tell the kubelet its own address: --node-ip=ADDRESS',
              '# with kubeadm: KUBELET_EXTRA_ARGS=--node-ip=ADDRESS in /etc/default/kubelet, or in /etc/sysconfig/kubelet',
              '# then, on the node: systemctl restart kubelet',
            ],
          };
        }),
      ),
  },
  'service-without-class': {
    levels: ['warn'],
    meaning: 'A Service of type LoadBalancer has no class, and no controller serves such Services.',
    find: ({ services: { cluster } }) =>
      given([cluster], ({ view: { services } }) => {
        const waiting = services.filter(({ reason }) => reason === 'NoClass').map(({ key }) => key);
        const [first] = waiting;
        if (first === undefined) return null;
        const more = waiting.length === 1 ? '' : ` and ${waiting.length - 1} more`;
        return {
          title: `no controller serves ${first}${more}: no loadBalancerClass`,
          why: 'A Service of type LoadBalancer without a class gets an address only if the controller runs with --default-class.',
          remedy: [
            '# if vipnat shall serve it: create it again with loadBalancerClass: vipnat.io/lb. The class of a Service cannot be added later',
            '# if vipnat alone shall serve all such Services, add this to your options: vipnat manifest services --default-class',
          ],
        };
      }),
  },
};

/** Whether keepalived can hold the seats of this node. Each is to be asked only where Services are used. */
export const seatChecks: Checks = {
  'seats-keepalived-not-running': {
    levels: ['fail'],
    meaning: 'The keepalived that holds addresses of Services on this node does not run.',
    find: (facts) =>
      given([facts.services.keepalived, facts.seatProcesses], ({ path }, running) => {
        const seats = readSeats(facts);
        if (seats.length === 0) return noSeats;
        if (running.length > 0) return null;
        return {
          title: `no keepalived runs with ${path}`,
          why: `This node holds none of the ${seats.length} seats that it may hold. If no other node does, their Services have no address.`,
          remedy: [
            '# see why its container does not run: kubectl -n vipnat-system describe pod -l app.kubernetes.io/name=vipnat-balancer',
            '# without a pod: docs/services-operate.md says how to start it. If a pod runs it, do not start it by hand',
          ],
        };
      }),
  },
  'seats-configuration-refused': {
    levels: ['fail'],
    meaning: 'keepalived refused the configuration of the balancer, and keeps the one before it.',
    find: (facts) =>
      given([facts.services.keepalived], ({ path, refusal }) => {
        if (readSeats(facts).length === 0 && refusal === '') return noSeats;
        if (refusal === '') return null;
        const [line = ''] = refusal.split('\n');
        return {
          title: `keepalived refused ${path}: ${toPrintableLine(line)}`,
          why: 'keepalived keeps its former configuration: addresses that came since are not held here, and addresses that went still are.',
          remedy: [`keepalived --config-test --use-file=${path}`],
        };
      }),
  },
  'seats-balancer-not-watched': {
    levels: ['warn'],
    meaning: "keepalived does not look whether the balancer runs. The balancer's log has the cause.",
    find: (facts) => {
      const { activity, runDir } = facts.services.host;
      if (readSeats(facts).length === 0) return noSeats;
      if (typeof activity?.isWatched !== 'boolean') return { unknown: 'the balancer does not say it' };
      if (activity.isWatched) return null;
      return {
        title: `keepalived does not run ${runDir}/check-balancer`,
        why: 'If the balancer of this node ends, its seats stay here, and their Services may be dead.',
        remedy: [
          `# balancer and keepalived need the same folder ${runDir}, and keepalived needs sh and the right to write there`,
          `ls -l ${quoteWords([runDir])}`,
        ],
      };
    },
  },
  'seat-vrid-clash': {
    levels: ['fail'],
    meaning: "Another host or keepalived uses a seat's `virtual_router_id` for other addresses.",
    /** An id belongs to one set of addresses on a link (RFC 9568, section 5.2.3). Adverts of a seat name its anchor alone. */
    find: (facts) => {
      const { adverts, keepalived, services } = facts;
      const other = 'value' in keepalived ? keepalived.value : { path: '', text: null };
      return given([services.keepalived, adverts], (_, seen) =>
        checkEach(readSeats(facts), noSeats, (seat) => {
          const who = describeHere(seat, other) ?? describeAdvert(seat, seen);
          return who === null ? null : describeClash(seat, who);
        }),
      );
    },
  },
};

const noSeats: NotHere = { notHere: 'this node may hold no address of a Service' };

function readSeats({ services: { keepalived } }: HostFacts): readonly InstanceView[] {
  return 'value' in keepalived ? viewInstances(keepalived.value.text ?? '') : [];
}

function describeHere(seat: InstanceView, other: Pick<KeepalivedConfiguration, 'path' | 'text'>) {
  const { path, text } = other;
  const clash = viewInstances(text ?? '').find((one) => isClash(one, seat));
  return clash === undefined ? null : `the vrrp_instance ${clash.name} of ${path} has it, too`;
}

function describeAdvert(seat: InstanceView, adverts: readonly VrrpAdvert[]): string | null {
  const clash = adverts.find((one) => isForeign(one, seat));
  return clash === undefined ? null : `${clash.source} uses it for ${clash.addresses.join(', ')}`;
}

function isClash(one: InstanceView, seat: InstanceView): boolean {
  const isSameLink = one.device === seat.device || one.device === '';
  return one.vrid === seat.vrid && isSameLink && familyOf(one) === familyOf(seat);
}

/** Its adverts go by the family of its first address. */
function familyOf({ addresses: [first = ''] }: InstanceView): 'ipv4' | 'ipv6' {
  return first.includes(':') ? 'ipv6' : 'ipv4';
}

function isForeign({ vrid, family, addresses }: VrrpAdvert, seat: InstanceView): boolean {
  return (
    vrid === seat.vrid &&
    family === familyOf(seat) &&
    !addresses.some((address) => seat.addresses.includes(address))
  );
}

/** Whoever pastes a change of a pool, or of another host's keepalived, moves addresses: both are for a person. */
function describeClash({ name, vrid }: InstanceView, who: string): Finding {
  const pool = /^seat-([^/]*)/.exec(name)?.[1] ?? '';
  return {
    title: `virtual_router_id ${vrid} of ${name} is used twice: ${toPrintableLine(who)}`,
    why: 'Each group treats the other’s adverts as its own. No node may hold the addresses of one group, or both may keep moving.',
    remedy: [
      '# change the virtual_router_id of the other keepalived on all its hosts,',
      `# or give spec.vrids of the pool ${pool} a free range. Then its Services do not answer for about a second`,
    ],
  };
}

/** What the API says of load balancers outside of the cluster. To be asked only where the API was. */
export const deviceChecks: Checks = {
  'device-not-ready': {
    levels: ['warn', 'fail'],
    meaning: 'A LoadBalancerDevice is not `Ready`. With only a unit or the Secret away: a warning.',
    find: of(({ devices }) => devices.filter(({ reason }) => reason !== secretMissing).flatMap(judgeDevice)),
  },
  'device-secret-missing': {
    levels: ['fail'],
    meaning: 'A LoadBalancerDevice names a Secret that does not exist.',
    find: of(({ devices }) => devices.filter(({ reason }) => reason === secretMissing).map(describeSecret)),
  },
  'device-missing': {
    levels: ['fail'],
    meaning: 'The class of a Service names a LoadBalancerDevice that does not exist.',
    find: of(({ services, devices }) => {
      const names = new Set(devices.map(({ name }) => name));
      const nameToKeys = Map.groupBy(
        services.filter(
          ({ devices: own, service }) => own.length > 0 && chooseDevice(service, undefined) !== null,
        ),
        ({ service }) => chooseDevice(service, undefined) ?? '',
      );
      return [...nameToKeys]
        .filter(([name]) => !names.has(name))
        .map(([name, all]) => ({
          title: `there is no LoadBalancerDevice ${toPrintableLine(name)}: ${shorten(all.map(({ key }) => key))}`,
          why: 'The class of these Services names it. A Service without its device gets no address, and its device does not follow it.',
          remedy: [
            '# see which devices there are: kubectl get loadbalancerdevices',
            '# create it, or create the Service again with another loadBalancerClass: docs/services-reference.md#loadbalancerdevice',
          ],
        }));
    }),
  },
  'device-finalizer-left': {
    levels: ['fail'],
    meaning: 'A Service has the finalizer of a LoadBalancerDevice that does not exist, so it cannot end.',
    /** Where the class names the device, it is missing: that is another finding, and its remedy fixes both. */
    find: of(({ services, devices }) => {
      const names = new Set(devices.map(({ name }) => name));
      return services.flatMap((view) =>
        listCurrentOwners(view.service)
          .filter((name) => !names.has(name) && chooseDevice(view.service, undefined) !== name)
          .map((name) => describeFinalizer(view, name)),
      );
    }),
  },
};

/** Of the controller's condition. */
const secretMissing = 'SecretMissing';

const notUsed: NotHere = { notHere: 'the cluster has no LoadBalancerDevice, and no Service of one' };

function of(find: (view: ServicesView) => readonly Finding[]): Checks[string]['find'] {
  return ({ services: { cluster } }: HostFacts) =>
    given([cluster], ({ view }) => {
      const isUsed = view.devices.length > 0 || view.services.some(({ devices }) => devices.length > 0);
      return isUsed ? checkHost([view], find) : notUsed;
    });
}

function judgeDevice(device: DeviceView): Finding[] {
  const { name, isReady, reason, why } = device;
  if (isReady === true && reason === 'Ready') return [];
  const detail = toPrintableLine(why);
  const word = toPrintableLine(reason);
  const see = [
    '# see its units, and what waits there: vipnat services',
    `# what to do for the reason ${word}: docs/services-reference.md#conditions`,
  ];
  const warn = (title: string, effect: string, remedy = see): Finding[] => [
    { level: 'warn', title, why: effect, remedy },
  ];
  if (isReady === true && reason === 'CredentialsUnread')
    return warn(
      `the credentials of the LoadBalancerDevice ${name} are gone: ${detail}`,
      'The controller still has them. If another one leads, the device no longer follows its Services.',
    );
  if (isReady === true && reason === 'ClusterNameTaken')
    return warn(
      `another cluster uses the name of the LoadBalancerDevice ${name}: ${detail}`,
      'Each cluster leaves what the other one has. Versions of vipnat before this one delete it.',
    );
  if (isReady === true)
    return warn(
      `the LoadBalancerDevice ${name} has no unit that could take over: ${detail}`,
      'The active unit works. If it fails, connections to the addresses of the device may end.',
    );
  if (isReady === null)
    return warn(
      `no controller has looked at the LoadBalancerDevice ${name}`,
      'Its Services get no address.',
      ['# see whether a controller leads: vipnat services', ...readLog],
    );
  const title = `the LoadBalancerDevice ${name} is not ready: ${word}`;
  const effect = `${detail}. Until then, the device does not follow its Services.`;
  return [{ level: 'fail', title, why: effect, remedy: see }];
}

const readLog = [
  `# see what it says: kubectl -n ${servicesNamespace} logs -l app.kubernetes.io/name=vipnat-controller --tail 50 --prefix`,
];

function describeSecret({ name, why }: DeviceView): Finding {
  return {
    title: `the LoadBalancerDevice ${name} has no credentials: ${toPrintableLine(why)}`,
    why: 'No unit is asked without them, so the device does not follow its Services.',
    remedy: [
      '# write the files username, password and ca.crt, and give the Secret the name that the message has:',
      `# kubectl -n ${servicesNamespace} create secret generic NAME --from-file=username --from-file=password --from-file=ca.crt`,
      '# the controller reads it within a minute',
    ],
  };
}

function describeFinalizer({ key, service }: ServiceView, name: string): Finding {
  const { namespace, name: own, finalizers } = service.metadata;
  const finalizer = toDeviceFinalizer(name);
  const path = `/metadata/finalizers/${(finalizers ?? []).indexOf(finalizer)}`;
  // The test fails where the list has changed meanwhile: then nothing is removed.
  const patch = JSON.stringify([
    { op: 'test', path, value: finalizer },
    { op: 'remove', path },
  ]);
  const change = ['patch', 'service', own, '--type=json', '-p', patch];
  const command = quoteWords(['kubectl', '-n', namespace, ...change]);
  return {
    title: `the Service ${key} has the finalizer ${toPrintableLine(finalizer)}, and there is no such LoadBalancerDevice`,
    why: 'The device may still have something of the Service. No program removes it there, and a deleted Service stays.',
    remedy: [
      '# create the LoadBalancerDevice again: vipnat then removes what is left there, and the finalizer',
      `# only if the device is gone for good, or has nothing of the Service: ${command}`,
    ],
  };
}
