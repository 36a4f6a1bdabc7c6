import { chooseDevice, listHolders, toDeviceFinalizer } from '../../../lib/services/devices.ts';
import { toPrintableLine } from '../../../lib/text/printable.ts';
import { quoteWords } from '../../../lib/text/shell-words.ts';
import { servicesNamespace } from '../../generate/manifest/options.ts';
import { shorten } from '../../services/judge-service.ts';
import { type ServicesView, type ServiceView } from '../../services/services-view.ts';
import { type DeviceView } from '../../services/view-devices.ts';
import { type Check } from '../facts/check.ts';
import { type Finding, given, lookAtHost, type NotHere } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';

/** What the API says of load balancers outside of the cluster. To be asked only where the API was. */
export const deviceChecks: readonly Check[] = [
  {
    code: 'device-not-ready',
    levels: ['warn', 'fail'],
    meaning:
      'The condition `Ready` of a LoadBalancerDevice is not true. If it is true, but a unit or the Secret is away, it is a warning.',
    find: of(({ devices }) => devices.filter(({ reason }) => reason !== secretMissing).flatMap(judgeDevice)),
  },
  {
    code: 'device-secret-missing',
    levels: ['fail'],
    meaning: 'A LoadBalancerDevice names a Secret that does not exist.',
    find: of(({ devices }) => devices.filter(({ reason }) => reason === secretMissing).map(describeSecret)),
  },
  {
    code: 'device-missing',
    levels: ['fail'],
    meaning: 'The class of a Service names a LoadBalancerDevice that does not exist.',
    find: of(findMissing),
  },
  {
    code: 'device-finalizer-left',
    levels: ['fail'],
    meaning: 'A Service has the finalizer of a LoadBalancerDevice that does not exist, so it cannot end.',
    find: of(findLeftFinalizers),
  },
];

/** Of the controller's condition. */
const secretMissing = 'SecretMissing';

const notUsed: NotHere = { notHere: 'the cluster has no LoadBalancerDevice, and no Service of one' };

function of(find: (view: ServicesView) => readonly Finding[]): Check['find'] {
  return ({ services: { cluster } }: HostFacts) =>
    given([cluster], ({ view }) => {
      const isUsed = view.devices.length > 0 || view.services.some(({ devices }) => devices.length > 0);
      return isUsed ? lookAtHost(() => find(view)) : notUsed;
    });
}

function judgeDevice(device: DeviceView): Finding[] {
  const { name, isReady, reason, why } = device;
  if (isReady === true && reason === 'Ready') return [];
  const said = toPrintableLine(why);
  const see = [
    '# see its units, and what waits there: vipnat services',
    `# what to do for the reason ${toPrintableLine(reason)}: docs/services-reference.md#conditions`,
  ];
  if (isReady === true && reason === 'CredentialsUnread')
    return [
      {
        level: 'warn',
        title: `the credentials of the LoadBalancerDevice ${name} are gone: ${said}`,
        why: 'The controller still has them. If another one leads, the device no longer follows its Services.',
        remedy: see,
      },
    ];
  if (isReady === true)
    return [
      {
        level: 'warn',
        title: `the LoadBalancerDevice ${name} has no unit that could take over: ${said}`,
        why: 'The active unit works. If it fails, connections to the addresses of the device may end.',
        remedy: see,
      },
    ];
  if (isReady === null)
    return [
      {
        level: 'warn',
        title: `no controller has looked at the LoadBalancerDevice ${name}`,
        why: 'Its Services get no address.',
        remedy: ['# see whether a controller leads: vipnat services', ...readLog],
      },
    ];
  return [
    {
      level: 'fail',
      title: `the LoadBalancerDevice ${name} is not ready: ${toPrintableLine(reason)}`,
      why: `${said}. Until then, the device does not follow its Services.`,
      remedy: see,
    },
  ];
}

const readLog = [
  `# see what it says: kubectl -n ${servicesNamespace} logs -l app.kubernetes.io/name=vipnat-controller --tail 50 --prefix`,
];

function describeSecret({ name, why }: DeviceView): Finding {
  return {
    level: 'fail',
    title: `the LoadBalancerDevice ${name} has no credentials: ${toPrintableLine(why)}`,
    why: 'No unit is asked without them, so the device does not follow its Services.',
    remedy: [
      '# write the files username, password and ca.crt, and give the Secret the name that the message has:',
      `# kubectl -n ${servicesNamespace} create secret generic NAME --from-file=username --from-file=password --from-file=ca.crt`,
      '# the controller reads it within a minute',
    ],
  };
}

function findMissing({ services, devices }: ServicesView): Finding[] {
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
      level: 'fail',
      title: `there is no LoadBalancerDevice ${toPrintableLine(name)}: ${shorten(all.map(({ key }) => key))}`,
      why: 'The class of these Services names it. A Service without its device gets no address, and its device does not follow it.',
      remedy: [
        '# see which devices there are: kubectl get loadbalancerdevices',
        '# create it, or create the Service again with another loadBalancerClass: docs/services-reference.md#loadbalancerdevice',
      ],
    }));
}

/** Where the class names the device, it is missing: that is another finding, and its remedy mends both. */
function findLeftFinalizers({ services, devices }: ServicesView): Finding[] {
  const names = new Set(devices.map(({ name }) => name));
  return services.flatMap((view) =>
    listHolders(view.service)
      .filter((name) => !names.has(name) && chooseDevice(view.service, undefined) !== name)
      .map((name) => describeFinalizer(view, name)),
  );
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
  const command = quoteWords([
    'kubectl',
    '-n',
    namespace,
    'patch',
    'service',
    own,
    '--type=json',
    '-p',
    patch,
  ]);
  return {
    level: 'fail',
    title: `the Service ${key} has the finalizer ${toPrintableLine(finalizer)}, and there is no such LoadBalancerDevice`,
    why: 'The device may still have something of the Service. No program removes it there, and a deleted Service stays.',
    remedy: [
      '# create the LoadBalancerDevice again: vipnat then removes what is left there, and the finalizer',
      `# only if the device is gone for good, or has nothing of the Service: ${command}`,
    ],
  };
}
