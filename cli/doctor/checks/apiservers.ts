import {
  type Checks,
  noVip,
  type HostFacts,
  given,
  byReading,
  filePaths,
  findFile,
  findValue,
  checkHost,
  checkEach,
  type Finding,
  type NotChecked,
  type Verdict,
} from '../facts.ts';
import { parseEndpoint, formatEndpoint, type Family, isAtVip, parseAddress } from '../../../lib/net.ts';
import { isBalanced } from '../../../config/options.ts';
import type { HostReading } from '../../../agent/main.ts';
import type { Serving } from '../../../lib/http/client.ts';
import { findLiveSources } from '../../../agent/endpoints.ts';
import { quoteWords } from '../../../lib/text.ts';
import { describeDown } from '../../findings.ts';

/** How the apiservers are that the virtual IPs lead to. */
export const apiserverChecks: Checks = {
  'no-apiserver-known': {
    levels: ['fail'],
    meaning: "vipnat knows no apiserver, so only the VIP holder's own apiserver answers.",
    /** Whether the VIP holder's own apiserver answers for a virtual IP, as no apiserver is known that could be balanced over. */
    find: byReading((assessed, { flags }) =>
      checkEach(assessed.decisions, noVip, (decision) => {
        const { vip, reason } = decision;
        const { missingSwitches, health } = assessed;
        const isClosed = missingSwitches.some(({ family }) => family === vip.family);
        const isAnyKnown = [...health.keys()].some((text) => parseEndpoint(text)?.family === vip.family);
        if (isBalanced(decision) || (isClosed && isAnyKnown)) return null;
        return {
          title: `${formatEndpoint(vip)} is not balanced: the apiserver of the VIP holder answers`,
          why:
            isClosed && !reason.startsWith(nobodyKnown.unknown)
              ? `No apiserver is known, and ${reason}.`
              : `The reason: ${reason}.`,
          remedy: [
            ...(isAnyAtVip(vip.family, assessed) ? advertiseOwn : []),
            '# name the apiservers, here and in the options of the agent',
            `vipnat check ${flags} --endpoints ADDR:6443,ADDR:6443,ADDR:6443`,
          ],
        };
      }),
    ),
  },
  'apiserver-down': {
    levels: ['warn', 'fail'],
    meaning: 'An apiserver is dead, suspected, or draining without `vipnat drain`. All: a failure.',
    find: byReading(({ health: view }, facts) => {
      const words = [...view.values()].map(describeDown);
      if (words.length > 0 && !words.includes(null))
        return describeOutage([...new Set(words)].join(', '), facts.units);
      return checkEach([...view], nobodyKnown, ([text, health]) => {
        const how = describeDown(health);
        if (how === null) return null;
        return {
          level: 'warn',
          title: `${text} is ${how}`,
          why: 'The VIP sends no new connections to this apiserver. Fewer apiservers are left if another one fails.',
          remedy: onHost(text, facts, [readLog('kube-apiserver'), restart(facts.units)]),
        };
      });
    }),
  },
  'liveness-only': {
    levels: ['warn'],
    meaning: 'An apiserver answers `GET /readyz` with 401 or 403, so vipnat cannot see whether it is ready.',
    find: byReading(({ health }) =>
      checkEach([...health], nobodyKnown, ([text, { livenessOnly }]) =>
        livenessOnly === undefined
          ? null
          : {
              title: `vipnat sees only whether ${text} lives: ${livenessOnly}`,
              why: 'An apiserver that shuts down, or has lost its etcd, still gets new connections.',
              remedy: [
                "# FILE: a kubeconfig whose user may read /readyz, with the CA that signed the apiservers' certificates. It prints ok:",
                '# kubectl --kubeconfig FILE get --raw /readyz',
                '# start the agent with the option --kubeconfig FILE',
              ],
            },
      ),
    ),
  },
  'endpoints-refused': {
    levels: ['warn'],
    meaning: 'The API, kube-proxy or `--endpoints` names an apiserver that vipnat does not use.',
    find: byReading(({ refused }) =>
      checkHost([...new Set(refused)], (sentence) => ({
        title: sentence,
        why: 'Two sources contradict each other, or one of them is wrong. So vipnat may balance over too few apiservers.',
        remedy: [
          '# compare both sources, and correct the wrong one. This names the apiservers of the API:',
          '# kubectl get endpointslices --namespace default --selector kubernetes.io/service-name=kubernetes',
          '# the API and kube-proxy outrank --endpoints: take the option away, or name the same apiservers',
        ],
      })),
    ),
  },
  'certificate-lacks-vip': {
    levels: ['fail'],
    meaning: 'The certificate of an apiserver is not valid for the VIP.',
    find: (facts) =>
      overAnswering(facts, (text, { alternativeNames }) => {
        const names = listNames(alternativeNames);
        const lacking = facts.config.vips.filter(
          ({ family, address }) => family === parseEndpoint(text)?.family && !names.includes(address),
        );
        return lacking.map(({ address }) => ({
          title: `the certificate of ${text} is not valid for ${address}`,
          why: 'Clients of this address refuse the connection: x509: certificate is valid for other names.',
          // All names that it has now stay: kubeadm adds its own, and knows none that somebody added.
          remedy: onHost(text, facts, renewCertificate([...names, address])),
        }));
      }),
  },
  'certificate-expires': {
    levels: ['warn', 'fail'],
    meaning: 'The certificate of an apiserver expires within 7 days. If it has expired, it is a failure.',
    find: (facts) =>
      overAnswering(facts, (text, { validTo }) => {
        const days = Math.floor((validTo.getTime() - facts.now.getTime()) / dayMs);
        if (!(days < expiryWarningDays)) return null;
        return {
          level: days < 0 ? 'fail' : 'warn',
          title: `the certificate of ${text} ${days < 0 ? 'has expired' : `expires in ${days} days`}`,
          why: 'From then on every client refuses this apiserver.',
          remedy: onHost(text, facts, [
            // An apiserver whose certificate could not be renewed is not restarted: what runs still has the old one in its memory.
            'kubeadm certs renew apiserver && crictl stop $(crictl ps --name kube-apiserver -q)',
          ]),
        };
      }),
  },
  'clock-off': {
    levels: ['warn'],
    meaning: 'The clocks of an apiserver and of this node differ by 3 s or more.',
    find: (facts) =>
      overAnswering(facts, (text, { clockAheadMs }) => {
        if (clockAheadMs === null) return { unknown: `${text} does not report its time` };
        if (Math.abs(clockAheadMs) < clockWarningMs) return null;
        const seconds = Math.round(Math.abs(clockAheadMs) / 1000);
        return {
          title: `the clock of ${text} is ${seconds} s ${clockAheadMs > 0 ? 'ahead of' : 'behind'} this node's`,
          why: 'One of the two clocks is wrong. Tokens, certificates and leases then start and expire at the wrong time.',
          remedy: ['# on both hosts', 'timedatectl set-ntp true'],
        };
      }),
  },
  'no-shutdown-delay': {
    levels: ['warn'],
    meaning: 'The kube-apiserver of this node has no `--shutdown-delay-duration`.',
    /** Source: kube-apiserver --help; the listener closes immediately when it is 0, while others still send connections. */
    find: (facts) => {
      const manifest = findFile(facts, filePaths.apiserverManifest);
      const text = findValue(manifest);
      const words = findFlags(facts) ?? text?.split(/[\s"']+/);
      if (words === undefined) {
        if ('unknown' in manifest) return manifest;
        return { unknown: 'this node shows no kube-apiserver, and no manifest of one' };
      }
      const delay = findDelay(words);
      if (delay !== null && !/^0(?:ms|s|m|h)?$/.test(delay)) return null;
      return {
        title: `this node's apiserver stops without a delay (shutdown-delay-duration ${delay ?? '0s'})`,
        why: 'At each restart, new connections fail until every agent notices that the apiserver stops. A delay of 10s or more is safe.',
        remedy: describeDelay(text !== null, delay !== null),
      };
    },
  },
};

/** One finding for all of them: they fail for one reason. */
function describeOutage(how: string, units: ReadonlySet<string>): Finding {
  return {
    level: 'fail',
    title: `no apiserver is ready (${how})`,
    why: 'By the probes of this node, the API is down. All apiservers stay in use, so rules are not the cause.',
    remedy: [
      '# etcd first, on each master: no apiserver is ready without it',
      readLog('etcd'),
      readLog('kube-apiserver'),
      restart(units),
      '# if apiservers are ready on another master, the network of this node fails',
    ],
  };
}

function readLog(name: string): string {
  return `crictl logs --tail 50 $(crictl ps -a --name ${name} -q | head -1)`;
}

function restart(units: ReadonlySet<string>): string {
  return units.has('kubelet')
    ? 'systemctl restart kubelet'
    : '# this host has no kubelet unit: start the apiserver as before';
}

const nobodyKnown = { unknown: 'no apiserver is known' };

/** Whether the API or kube-proxy names an apiserver at a virtual IP now. */
function isAnyAtVip(family: Family, { observation, memory, decisions }: HostReading): boolean {
  const config = { endpoints: [], vips: [] };
  const { api, kubeProxy } = findLiveSources(family, { observation, memory, config });
  const vips = decisions.map(({ vip }) => vip);
  return [api, kubeProxy].some((source) => source?.value.some((one) => isAtVip(one, vips)) === true);
}

const advertiseOwn = [
  '# on each master in turn: give kube-apiserver the own address of its host by',
  `# --advertise-address in ${filePaths.apiserverManifest}; until then`,
];

/** Those of the running one; a process that has changed its command line tells nothing, nor one that may be another host's. */
function findFlags({ processes }: HostFacts): readonly string[] | null {
  const all = findValue(processes) ?? [];
  const running = all.find(({ name, isSurelyHere }) => name === 'kube-apiserver' && isSurelyHere);
  return running?.arguments.some((word) => word.startsWith('--')) === true ? running.arguments : null;
}

function describeDelay(hasManifest: boolean, hasFlag: boolean): string[] {
  if (!hasManifest) return ['# start kube-apiserver with --shutdown-delay-duration=10s'];
  const path = filePaths.apiserverManifest;
  const copy = '/etc/kubernetes/kube-apiserver.yaml.new';
  const change = hasFlag
    ? 's/--shutdown-delay-duration=[0-9a-z]*/--shutdown-delay-duration=10s/'
    : String.raw`s/^\( *\)- kube-apiserver$/&\n\1- --shutdown-delay-duration=10s/`;
  return [
    '# the kubelet restarts the apiserver: do one master after the other',
    // The kubelet reads whatever file is in its folder, also a half-written one.
    `cp -p ${path} ${copy} && sed -i '${change}' ${copy} && mv ${copy} ${path}`,
  ];
}

function findDelay(words: readonly string[]): string | null {
  const flag = '--shutdown-delay-duration';
  const index = words.findIndex((word) => word === flag || word.startsWith(`${flag}=`));
  const word = words[index];
  return word === undefined ? null : (word.split('=')[1] ?? words[index + 1] ?? null);
}

const pki = '/etc/kubernetes/pki';
const savedPki = '/root/pki.old';

/** kubeadm makes no certificate where one is. When it fails the old one is put back, and nothing is restarted. */
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
/** Leases last 10 to 15 s; a clock that is kept by NTP is off by milliseconds. */
const clockWarningMs = 3000;

/** Checks each apiserver that is known, by its endpoint's text. One that did not answer is never reported as healthy. */
function overAnswering(
  { assessment, serving }: HostFacts,
  find: (text: string, serving: Serving) => Finding | null | readonly Finding[] | NotChecked,
): Verdict {
  return given([assessment, serving], (_, answers) =>
    checkEach([...answers], nobodyKnown, ([text, answer]) =>
      answer === null ? { unknown: `${text} did not answer` } : find(text, answer),
    ),
  );
}

/** The fix for an apiserver of this host. For another host it names that host's own doctor: pasted here, the fix would change this one. */
function onHost(text: string, facts: Pick<HostFacts, 'assessment' | 'flags'>, remedy: readonly string[]) {
  const { assessment, flags } = facts;
  const host = parseEndpoint(text)?.address ?? text;
  const local = findValue(assessment)?.observation.addresses ?? [];
  return local.some(({ address }) => address === host) ? remedy : [`# on ${host}: vipnat doctor ${flags}`];
}
