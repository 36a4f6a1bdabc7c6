import { parseAddress } from '../../../lib/address/address.ts';
import { type Endpoint, formatEndpoint, parseEndpoint } from '../../../lib/address/endpoint.ts';
import { quoteWords } from '../../../lib/text/shell-words.ts';
import { type Serving } from '../../../lib/probe/serving.ts';
import { type Check } from '../facts/check.ts';
import { type Fact, type Finding, given, lookAt, type NotChecked, type Verdict } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';
import { endpointsRefusedCheck } from './endpoints-refused.ts';
import { livenessOnlyCheck } from './liveness-only.ts';
import { findNobodyKnown, nobodyKnown } from './nobody-known.ts';
import { shutdownDelayCheck } from './shutdown-delay.ts';
import type { ApiserverHealth, HostLook } from '../../../agent/main.ts';

/** How the apiservers are that the virtual IPs lead to. */
export const apiserverChecks: readonly Check[] = [
  {
    code: 'no-apiserver-known',
    levels: ['fail'],
    meaning: "vipnat knows no apiserver, so only the VIP holder's own apiserver answers.",
    find: findNobodyKnown,
  },
  {
    code: 'apiserver-down',
    levels: ['warn', 'fail'],
    meaning: 'An apiserver is dead, or draining without `vipnat drain`. If all are, it is a failure.',
    find: findDown,
  },
  livenessOnlyCheck,
  endpointsRefusedCheck,
  {
    code: 'certificate-lacks-vip',
    levels: ['fail'],
    meaning: 'The certificate of an apiserver is not valid for the VIP.',
    find: findLackingNames,
  },
  {
    code: 'certificate-expires',
    levels: ['warn', 'fail'],
    meaning: 'The certificate of an apiserver expires within 7 days. If it has expired, it is a failure.',
    find: findExpiry,
  },
  {
    code: 'clock-off',
    levels: ['warn'],
    meaning: 'The clocks of an apiserver and of this node differ by 3 s or more.',
    find: findClockOff,
  },
  shutdownDelayCheck,
];

function findDown({ assessment, flags, units }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], (assessed) => {
    // One that is draining because its host is drained still serves, and is used where no other one is left.
    const isDown = ({ state, isDrained = false }: ApiserverHealth) =>
      state === 'dead' || (state === 'draining' && !isDrained);
    const isAnyUp = [...assessed.health.values()].some((one) => !isDown(one));
    return lookAt([...assessed.health], nobodyKnown, ([text, health]) => {
      if (!isDown(health)) return [];
      return [
        {
          level: isAnyUp ? 'warn' : 'fail',
          title: `${text} is ${health.state}: ${health.reason}`,
          why: 'The VIP sends no new connections to this apiserver. Fewer apiservers are left if another one fails.',
          remedy: onHost(isLocal(text, assessed), { text, flags }, [
            'crictl logs --tail 50 $(crictl ps -a --name kube-apiserver -q | head -1)',
            units.has('kubelet')
              ? 'systemctl restart kubelet'
              : '# this host has no kubelet unit: start the apiserver as before',
          ]),
        },
      ];
    });
  });
}

function findLackingNames({ config, assessment, serving, flags }: HostFacts): ReturnType<Check['find']> {
  return overAnswering({ assessment, serving }, (endpoint, { alternativeNames }, assessed) => {
    const names = listNames(alternativeNames);
    const lacking = config.vips.filter(
      ({ family, address }) => family === endpoint.family && !names.includes(address),
    );
    return lacking.map(({ address }) => ({
      level: 'fail',
      title: `the certificate of ${formatEndpoint(endpoint)} is not valid for ${address}`,
      why: 'Clients of this address refuse the connection: x509: certificate is valid for other names.',
      remedy: onHost(
        isLocal(formatEndpoint(endpoint), assessed),
        { text: formatEndpoint(endpoint), flags },
        // All names that it has now stay: kubeadm adds its own, and knows none that somebody added.
        renewCertificate([...names, address]),
      ),
    }));
  });
}

const pki = '/etc/kubernetes/pki';
const savedPki = '/root/pki.old';

/** kubeadm makes no certificate where one is. When it fails the old one is put back, and nothing is started anew. */
function renewCertificate(names: readonly string[]): string[] {
  const files = (folder: string) => `${folder}/apiserver.crt ${folder}/apiserver.key`;
  const phase = ['kubeadm', 'init', 'phase', 'certs', 'apiserver'];
  return [
    `mkdir -p ${savedPki} && mv ${files(pki)} ${savedPki}/ &&`,
    `  { ${quoteWords([...phase, `--apiserver-cert-extra-sans=${names.join()}`])} ||`,
    `    { cp -p ${files(savedPki)} ${pki}/; false; }; } &&`,
    '  crictl stop $(crictl ps --name kube-apiserver -q)',
  ];
}

/** `DNS:kubernetes, IP Address:FD77:0:0:0:0:0:0:50`, addresses in canonical text. */
function listNames(alternativeNames: string): string[] {
  return alternativeNames
    .split(', ')
    .map((name) => name.replace(/^(?:DNS|IP Address):/, ''))
    .filter((name) => name !== '')
    .map((name) => parseAddress(name)?.text ?? name);
}

const dayMs = 24 * 60 * 60 * 1000;
/** As Kubernetes' own alert KubeClientCertificateExpiration (kubernetes-mixin). */
const expiryWarningDays = 7;

function findExpiry({ now, assessment, serving, flags }: HostFacts): ReturnType<Check['find']> {
  return overAnswering({ assessment, serving }, (endpoint, { validTo }, assessed) => {
    const days = Math.floor((validTo.getTime() - now.getTime()) / dayMs);
    if (!(days < expiryWarningDays)) return [];
    const text = formatEndpoint(endpoint);
    return [
      {
        level: days < 0 ? 'fail' : 'warn',
        title:
          days < 0
            ? `the certificate of ${text} has expired`
            : `the certificate of ${text} expires in ${days} days`,
        why: 'From then on every client refuses this apiserver.',
        remedy: onHost(isLocal(text, assessed), { text, flags }, [
          // One that could not be renewed is not started anew: what runs still has the old one in its memory.
          'kubeadm certs renew apiserver && crictl stop $(crictl ps --name kube-apiserver -q)',
        ]),
      },
    ];
  });
}

/** Leases last 10 to 15 s; a clock that is kept by NTP is off by milliseconds. */
const clockWarningMs = 3000;

function findClockOff({ assessment, serving }: HostFacts): ReturnType<Check['find']> {
  return overAnswering({ assessment, serving }, (endpoint, { clockAheadMs }) => {
    const text = formatEndpoint(endpoint);
    if (clockAheadMs === null) return { unknown: `${text} does not report its time` };
    if (Math.abs(clockAheadMs) < clockWarningMs) return [];
    const seconds = Math.round(Math.abs(clockAheadMs) / 1000);
    return [
      {
        level: 'warn',
        title: `the clock of ${text} is ${seconds} s ${clockAheadMs > 0 ? 'ahead of' : 'behind'} this node's`,
        why: 'One of the two clocks is wrong. Tokens, certificates and leases then start and expire at the wrong time.',
        remedy: ['# on both hosts', 'timedatectl set-ntp true'],
      },
    ];
  });
}

/** Looks at each apiserver that is known. Of one that did not answer nothing is told to be well. */
function overAnswering(
  { assessment, serving }: { assessment: Fact<HostLook>; serving: Fact<ReadonlyMap<string, Serving | null>> },
  find: (endpoint: Endpoint, serving: Serving, assessed: HostLook) => Finding[] | NotChecked,
): Verdict {
  return given([assessment, serving], (assessed, answers) =>
    lookAt([...answers], nobodyKnown, ([text, answer]) => {
      const endpoint = parseEndpoint(text);
      if (endpoint === null || answer === null) return { unknown: `${text} did not answer` };
      return find(endpoint, answer, assessed);
    }),
  );
}

function isLocal(text: string, { observation }: HostLook): boolean {
  return observation.addresses.some(({ address }) => address === parseEndpoint(text)?.address);
}

/** What mends an apiserver of this host. Of another one its own doctor says it: pasted here it would change this one. */
function onHost(
  isHere: boolean,
  { text, flags }: { readonly text: string; readonly flags: string },
  remedy: readonly string[],
): readonly string[] {
  return isHere ? remedy : [`# on ${parseEndpoint(text)?.address ?? text}: vipnat doctor ${flags}`];
}
