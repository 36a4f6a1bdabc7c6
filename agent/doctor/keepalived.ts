import { quoteWords } from '../../lib/shell-words.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { findInstance, findWire, keepalivedName } from '../../lib/keepalived/find.ts';
import { type HostProcess } from '../../lib/kernel/processes.ts';
import { computeVrid } from '../../lib/naming/vrid.ts';
import { type VrrpAdvert } from '../../lib/vrrp/advert.ts';
import { type Config } from '../config/config.ts';
import { locateServingFile } from '../keepalived/serving-file.ts';
import { type Check } from './check.ts';
import { type Finding, given, lookAt, lookAtHost, type NotChecked } from './fact.ts';
import { describeElsewhere } from './remedies.ts';
import { type HostFacts } from './host-facts.ts';
import { isKubeVip } from './strangers.ts';

/** Whether keepalived can bring the virtual IPs here, and nobody gets into its way. */
export const keepalivedChecks: readonly Check[] = [
  { code: 'keepalived-not-running', find: findNoKeepalived },
  { code: 'keepalived-lacks-vip', find: findUnknownVip },
  { code: 'keepalived-untracked', find: findUntracked },
  { code: 'vrid-clash', find: findVridClash },
];

/** Whether one of these processes is this host's keepalived, as far as it may be known. */
export function isKeepalivedHere(processes: readonly HostProcess[]): boolean {
  return processes.some(({ name, isSurelyHere }) => name === keepalivedName && isSurelyHere);
}

function findNoKeepalived({ config, processes }: HostFacts): ReturnType<Check['find']> {
  return given([processes], (running) => {
    const holders = running.filter((process) => process.name === keepalivedName || isKubeVip(process));
    const [hidden] = holders;
    return lookAtHost(() => {
      if (holders.some(({ isSurelyHere }) => isSurelyHere)) return [];
      if (hidden !== undefined) return describeElsewhere(hidden);
      return [
        {
          level: 'warn',
          title: 'no keepalived runs on this node',
          why: `${listAddresses(config)} cannot come here when its holder fails.`,
          remedy: ['systemctl enable --now keepalived'],
        },
      ];
    });
  });
}

function findUnknownVip({ config, flags, keepalived, processes }: HostFacts): ReturnType<Check['find']> {
  return given([processes, keepalived], (running, { path, text }) => {
    if (!isKeepalivedHere(running)) return notRunning;
    if (text === null) return { unknown: `${path} is not there` };
    return lookAt(config.vips, noVip, ({ address }) => {
      if (findInstance(text, address) !== null) return [];
      return [
        {
          level: 'warn',
          title: `${path} has no vrrp_instance with ${address}`,
          why: 'keepalived does not bring it here when its holder fails.',
          remedy: renew(flags, path, text),
        },
      ];
    });
  });
}

function findUntracked({ config, flags, keepalived, processes }: HostFacts): ReturnType<Check['find']> {
  return given([processes, keepalived], (running, { path, text }) => {
    const file = locateServingFile(config.runDir);
    if (!isKeepalivedHere(running)) return notRunning;
    if (text === null) return { unknown: `${path} is not there` };
    if (!config.vips.some(({ address }) => findInstance(text, address) !== null))
      return { unknown: `${path} has no vrrp_instance with ${listAddresses(config)}` };
    return lookAtHost(() => {
      if (text.includes(file)) return [];
      return [
        {
          level: 'warn',
          title: `keepalived does not follow ${file}`,
          why: 'The VIP stays on this node when the agent finds that it can serve neither balanced nor by itself.',
          remedy: renew(flags, path, text),
        },
      ];
    });
  });
}

const notRunning = { unknown: 'no keepalived is seen on this node' };
const noVip = { unknown: 'no virtual IP is named' };

/** Masters go on to reach each other as before: one that changed to multicast alone would hear nobody. */
function renew(flags: string, path: string, text: string): string[] {
  const { masters, advertSeconds } = findWire(text);
  const wire = [
    ...(masters.length === 0 ? [] : [`--peers=${masters.join(',')}`]),
    ...(advertSeconds === null ? [] : [`--advert=${Math.round(advertSeconds * 1000)}ms`]),
  ];
  return [
    quoteWords(['cp', path, `${path}.old`]),
    `vipnat keepalived ${[flags, ...wire].join(' ')} > ${quoteWords([path])}`,
    'systemctl restart keepalived',
  ];
}

/** An id belongs to one set of addresses on a link, per family (RFC 9568, section 5.2.3). A master may hold more addresses than asked about. */
function findVridClash({ config, adverts, assessment, keepalived }: HostFacts): ReturnType<Check['find']> {
  return given([adverts, assessment, keepalived], (seen, { observation, health }, { files, text }) => {
    const known = new Set([...observation.addresses, ...config.endpoints].map(({ address }) => address));
    const masters = [...health.keys()].map((endpoint) => endpoint.replace(/^\[?(.*?)\]?:\d+$/, '$1'));
    const strangers = seen.filter(({ source }) => !known.has(source) && !masters.includes(source));
    return lookAt(config.vips, noVip, (vip): Finding[] | NotChecked => {
      const vrid = findVrid(vip, text);
      if (vrid === null) return { unknown: `the virtual_router_id of ${vip.address} is not known` };
      const clash = strangers.find(
        (advert) =>
          advert.family === vip.family && advert.vrid === vrid && !advert.addresses.includes(vip.address),
      );
      if (clash === undefined) return [];
      const free = findFreeVrid(seen, vrid);
      return [
        {
          level: 'fail',
          title: `virtual_router_id ${vrid} of ${vip.address} is used by ${clash.source} for ${clash.addresses.join(', ')}`,
          why: 'Each takes the other for a member of its group: one of the two virtual IPs is held by nobody, or both move about.',
          remedy: [
            '# the same on every master',
            `sed -i 's/virtual_router_id ${vrid}$/virtual_router_id ${free}/' ${quoteWords(files)}`,
            'systemctl restart keepalived',
          ],
        },
      ];
    });
  });
}

function findVrid({ family, address }: Endpoint, text: string | null): number | null {
  const configured = findInstance(text ?? '', address)?.vrid;
  if (configured !== undefined) return configured;
  try {
    return computeVrid({ family, text: address });
  } catch {
    return null;
  }
}

function findFreeVrid(adverts: readonly VrrpAdvert[], taken: number): number {
  const used = new Set([taken, ...adverts.map(({ vrid }) => vrid)]);
  let free = taken;
  while (used.has(free) && used.size < 255) free = (free % 255) + 1;
  return free;
}

function listAddresses({ vips }: Config): string {
  return [...new Set(vips.map(({ address }) => address))].join(', ');
}
