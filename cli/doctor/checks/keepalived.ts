import {
  type Checks,
  noVip,
  type HostFacts,
  given,
  findValue,
  checkHost,
  isHeldWithoutVrrp,
  isSurelyFree,
  isKeepalivedHere,
  checkEach,
  type Finding,
  type NotChecked,
} from '../facts.ts';
import {
  keepalivedName,
  findInstance,
  computeVrid,
  type VrrpAdvert,
  findTracking,
} from '../../../lib/keepalived/read.ts';
import { isKubeVip } from './rules.ts';
import {
  describeElsewhere,
  install,
  copyInstance,
  makeAtBoot,
  addInstance,
  trackServing,
  changeVrid,
  reloadKeepalived,
} from '../remedies.ts';
import { quoteWords, formatAge } from '../../../lib/text.ts';
import type { Config } from '../../../config/options.ts';
import { dirname } from 'node:path';
import { locateServingFile } from '../../../lib/keepalived/write.ts';
import type { Endpoint } from '../../../lib/net.ts';
import type { HostProcess } from '../../../lib/kernel/host.ts';
import type { Drain } from '../../../lib/files.ts';

/** Whether keepalived can bring the virtual IPs here, nothing prevents it, and its track file is that of an agent that runs. */
export const keepalivedChecks: Checks = {
  'keepalived-not-running': {
    levels: ['warn'],
    meaning: 'keepalived does not run here. The VIP cannot come to this node.',
    find: (facts) =>
      given([facts.processes], (running) => {
        const vipHolders = running.filter((process) => process.name === keepalivedName || isKubeVip(process));
        const [hidden] = vipHolders;
        if (vipHolders.some(({ isSurelyHere }) => isSurelyHere)) return null;
        if (hidden !== undefined) return describeElsewhere(hidden);
        return {
          title: 'keepalived does not run on this node',
          why: `If the VIP holder fails, this node cannot take over ${listAddresses(facts.config)}.`,
          remedy: describeStart(facts),
        };
      }),
  },
  'keepalived-lacks-vip': {
    levels: ['warn'],
    meaning: 'keepalived runs, but its configuration has no instance with the VIP.',
    find: ({ config, flags, keepalived, processes }) =>
      given([processes, keepalived], (running, { path, text, files }) => {
        if (!isKeepalivedHere(running)) return notRunning;
        if (text === null) return { unknown: `${path} is not there` };
        return checkEach(config.vips, noVip, ({ address }) => {
          if (findInstance(text, address) !== null) return null;
          return {
            title: `${path} has no vrrp_instance with ${address}`,
            why: 'If the VIP holder fails, keepalived does not bring the VIP to this node.',
            remedy: addInstance({ path, files, text, processes: running }, address, flags, config.runDir),
          };
        });
      }),
  },
  'keepalived-untracked': {
    levels: ['warn'],
    meaning: 'keepalived does not follow the track file, so it does not learn that this node cannot serve.',
    find: ({ config, keepalived, processes }) =>
      given([processes, keepalived], (running, { path, text, files }) => {
        const file = locateServingFile(config.runDir);
        if (!isKeepalivedHere(running)) return notRunning;
        if (text === null) return { unknown: `${path} is not there` };
        if (!config.vips.some(({ address }) => findInstance(text, address) !== null))
          return { unknown: `${path} has no vrrp_instance with ${listAddresses(config)}` };
        const foreign = { path, files, text, processes: running };
        return checkEach(listOwn(config.vips), noVip, (address) => {
          const tracking = findTracking(text, address, file);
          if (tracking === null || tracking === 'fault') return null;
          const how = tracking === 'none' ? 'does not follow' : 'changes only its priority by';
          return {
            title: `keepalived ${how} ${file} for ${address}`,
            why: 'The VIP stays on this node even if the agent reports that this node cannot serve.',
            remedy: trackServing(foreign, [address], config.runDir),
          };
        });
      }),
  },
  'vrid-clash': {
    levels: ['fail'],
    meaning: "Another host, which the finding names, uses the VIP's `virtual_router_id` for other addresses.",
    /** An id belongs to one set of addresses on a link, per family (RFC 9568, section 5.2.3). A master may hold more addresses than asked about. */
    find: (facts) => {
      const { config, adverts, assessment, keepalived, processes } = facts;
      return given(
        [adverts, assessment, keepalived],
        (seen, { observation: { addresses }, health }, { path, text, files }) => {
          const running = findValue(processes) ?? [];
          const known = new Set([...addresses, ...config.endpoints].map(({ address }) => address));
          const masters = [...health.keys()].map((endpoint) => endpoint.replace(/^\[?(.*?)\]?:\d+$/, '$1'));
          const foreign = seen.filter(({ source }) => !known.has(source) && !masters.includes(source));
          return checkEach(config.vips, noVip, (vip) => {
            const vrid = findVrid(vip, text);
            if (vrid === null) return { unknown: `the virtual_router_id of ${vip.address} is not known` };
            const clash = foreign.find(
              (advert) =>
                advert.family === vip.family &&
                advert.vrid === vrid &&
                !advert.addresses.includes(vip.address),
            );
            if (clash === undefined) return null;
            const free = findFreeVrid(seen, vrid);
            return {
              title: `${clash.source} uses virtual_router_id ${vrid} of ${vip.address} for ${clash.addresses.join(', ')}`,
              why: 'Each group treats the other’s adverts as its own. One virtual IP may have no VIP holder, or both may keep moving.',
              remedy: changeVrid({ path, files, text: text ?? '', processes: running }, vip.address, {
                from: vrid,
                to: free,
              }),
            };
          });
        },
      );
    },
  },
  'track-file-dropped': {
    levels: ['warn'],
    meaning: 'keepalived is configured to follow the track file, but cannot. The finding says why.',
    find: (facts) =>
      given(
        [facts.processes, facts.keepalived, facts.trackFile],
        (running, { text }, { isWatched, cause = '' }) => {
          const file = locateServingFile(facts.config.runDir);
          if (isWatched === null || !isFollowed(facts, text)) return notFollowed(file);
          return isWatched ? null : describeDropped(facts, running, file, cause);
        },
      ),
  },
  'track-file-stale': {
    levels: ['fail'],
    meaning: 'The track file says that this node cannot serve, and no agent runs that could reset it.',
    /** See docs/design.md, "Who may hold the VIP". */
    find: (facts) =>
      given([facts.keepalived, facts.trackFile], ({ text }, { content, isWatched }) => {
        const drain = findValue(facts.drain);
        // As its operator wants it: `host-drained` reminds of that.
        if (drain !== null && drain.vipStaysSince === null) return null;
        const file = locateServingFile(facts.config.runDir);
        if (isWatched === null || !isFollowed(facts, text)) return notFollowed(file);
        if (facts.agent !== null || content === null || Number(content) === 0) return null;
        return {
          title: `${file} says ${content.slice(0, 8)}, and no agent runs that could reset the file`,
          why: 'keepalived does not take the VIP on this node, even if all other masters fail.',
          remedy: [reset(file)],
        };
      }),
  },
};

/**
 * What starts keepalived on this host. If it does not receive or understand the VIP holder's adverts, it
 * holds the VIP as well.
 */
export function describeStart(facts: HostFacts): string[] {
  const { config, flags, keepalived, units } = facts;
  if ('unknown' in keepalived)
    return [
      '# vipnat could not read the configuration of keepalived. docs/install.md says how to run keepalived',
    ];
  const { path, text } = keepalived.value;
  const foreign = config.vips.find((vip) => isHeldWithoutVrrp(vip, facts));
  if (foreign !== undefined)
    return [`# another host has ${foreign.address} and sends no VRRP here: follow docs/migrate.md`];
  const start = units.has('keepalived')
    ? ['systemctl enable --now keepalived']
    : [
        '# this host has no keepalived unit. Install the package, or run a static pod: docs/install.md',
        ...install('keepalived', facts),
      ];
  const lacking = config.vips.find(({ address }) => findInstance(text ?? '', address) === null);
  if (text !== null && lacking === undefined) return start;
  const held = config.vips.find((vip) => !isSurelyFree(vip, facts));
  if (held !== undefined)
    return [...copyInstance(held.address, path), '# and then:', ...start.map(toComment)];
  if (text === null) return [...writeFile(path, flags, config), ...start];
  return [...explainExample(path, lacking?.address ?? '', flags), '# and then:', ...start.map(toComment)];
}

const toComment = (line: string) => (line.startsWith('#') ? line : `# ${line}`);

/** Red Hat's package brings a file that holds other addresses, with the virtual_router_id of many a VIP. */
function explainExample(path: string, address: string, flags: string): string[] {
  const move = quoteWords(['mv', path, `${path}.before`]);
  return [
    `# ${quoteWords([path])} has no vrrp_instance with ${address}. If it is only the example of keepalived's`,
    `# package, move it away, and run vipnat doctor again: ${move}`,
    '# otherwise copy the vrrp_instance that this command prints, and the track_file before it',
    `vipnat keepalived ${flags}`,
  ];
}

/** Whole or not at all: a command that fails leaves no empty file. */
function writeFile(path: string, flags: string, { runDir }: Config): string[] {
  return [
    '# use the same options on every master. If the network drops multicast, add --peers=ADDR,ADDR,ADDR',
    quoteWords(['mkdir', '-p', dirname(path), dirname(locateServingFile(runDir))]),
    `vipnat keepalived ${flags} > ${quoteWords([`${path}.new`])} && ${quoteWords(['mv', `${path}.new`, path])}`,
    ...makeAtBoot(runDir),
  ];
}

const notRunning = { unknown: 'no keepalived is seen on this node' };

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

function listOwn(vips: readonly Endpoint[]): string[] {
  return [...new Set(vips.map(({ address }) => address))];
}

function listAddresses(config: Config): string {
  return listOwn(config.vips).join(', ');
}

/** A reload keeps the VIP, as long as the file does not tell it to go. */
function describeDropped(
  { agent, config }: HostFacts,
  running: readonly HostProcess[],
  file: string,
  cause: string,
): Finding {
  return {
    title: `keepalived ignores ${file}: ${cause}`,
    why: 'The VIP stays on this node even if the agent reports that this node cannot serve.',
    remedy: [
      quoteWords(['mkdir', '-p', dirname(file)]),
      ...(agent === null ? [reset(file)] : []),
      reloadKeepalived(running),
      ...makeAtBoot(config.runDir),
    ],
  };
}

function reset(file: string): string {
  return `echo 0 > ${quoteWords([file])}`;
}

function isFollowed({ config }: HostFacts, text: string | null): boolean {
  const file = locateServingFile(config.runDir);
  return text !== null && config.vips.some(({ address }) => findTracking(text, address, file) === 'fault');
}

function notFollowed(file: string): NotChecked {
  return { unknown: `no keepalived is configured here to follow ${file}` };
}

/** Whether a drain of this host was forgotten, or does not work. */
export const hostDrainedChecks: Checks = {
  'host-drained': {
    levels: ['warn'],
    meaning: 'This host has been drained for more than a day, or no other host took its VIP.',
    find: ({ drain, now }) =>
      given([drain], (drained) => {
        if (drained === null) return null;
        const ageMs = now.getTime() - drained.since.getTime();
        return checkHost([drained], ({ vipStaysSince }) => [
          ...(vipStaysSince === null ? [] : [vipStays]),
          ...(ageMs <= forgottenMs ? [] : [toForgotten(ageMs, drained)]),
        ]);
      }),
  },
};

/** Maintenance takes hours. */
const forgottenMs = 86_400_000;
const vipStays: Finding = {
  title: 'this host is drained, but no other host took its VIP',
  why: 'If this host goes down, no host has the VIP.',
  remedy: [
    '# on each other master, vipnat doctor says why keepalived did not take the VIP. Then here:',
    'vipnat undrain',
    'vipnat drain',
  ],
};

function toForgotten(ageMs: number, { vipStaysSince }: Drain): Finding {
  const vip = vipStaysSince === null ? ', and the VIP stays on other masters' : '';
  return {
    title: `this host has been drained for ${formatAge(ageMs)}`,
    why: `Its apiserver gets no new connections through the VIP${vip}.`,
    remedy: ['# if the maintenance is over:', 'vipnat undrain'],
  };
}
