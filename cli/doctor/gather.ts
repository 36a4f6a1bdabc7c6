import {
  readIpvs,
  readRights,
  readInterfaces,
  readGateways,
  viewHostPaths,
  type HostProcess,
  listProcesses,
  readListeners,
  isInFirstPidNamespace,
  listUnits,
  type PathView,
} from '../../lib/kernel/host.ts';
import type { Config } from '../../config/options.ts';
import { type Clock, sleep } from '../../lib/clock.ts';
import type { Kernel, LocalAddress } from '../../lib/kernel/port.ts';
import { type Endpoint, parseEndpoint, sortEndpoints, formatEndpoint, isInSubnet } from '../../lib/net.ts';
import { type ConnectOutcome, askServing, type HttpsAnswer, askLoopback } from '../../lib/http/client.ts';
import type { HostReading } from '../../agent/main.ts';
import { readJson } from '../../lib/text.ts';
import { usualReadLimitMs } from '../../lib/kernel/kernel.ts';
import {
  type HostFacts,
  toolNames,
  type Fact,
  unitNames,
  ipvsModules,
  sysctlNames,
  type LinkHolder,
  filePaths,
} from './facts.ts';
import { readServicesFacts, type ServicesNeeds } from './services-facts.ts';
import { readEarlyRules, readInputRules } from '../../lib/kernel/iptables.ts';
import { findLockOwner, agentRole } from '../../lib/http/singleton.ts';
import { isInPath, captureVrrp } from '../../lib/kernel/tools.ts';
import { createDrainStore, readIfThere } from '../../lib/files.ts';
import { VipnatError } from '../../lib/errors.ts';
import {
  partKeepalived,
  type VrrpAdvert,
  parseCapture,
  readConfiguration,
  keepalivedFile,
  viewWatch,
} from '../../lib/keepalived/read.ts';
import {
  readModules,
  listSwitchedInterfaces,
  readSysctls,
  nameReversePathFilter,
} from '../../lib/kernel/forwarding.ts';
import {
  type NeighbourQuestion,
  readOwnLinks,
  type OwnLinks,
  askNeighbours,
  readNeighbours,
  type Neighbour,
} from '../../lib/kernel/addresses.ts';
import { locateKeepalivedFile, locateServingFile } from '../../lib/keepalived/write.ts';
import { dirname, join } from 'node:path';
import { access } from 'node:fs/promises';
import * as z from 'zod/mini';

interface GatherNeeds extends Pick<HostFacts, 'config' | 'flags' | 'version'>, Omit<ServicesNeeds, 'within'> {
  readonly kernel: Pick<Kernel, 'listForwardChains'>;
  /** Connects once and closes again. Never rejects; answers after the limit at the latest. */
  readonly connect: (endpoint: Endpoint, limitMs: number) => Promise<ConnectOutcome>;
  /** One complete reading of this host. */
  readonly readHost: () => Promise<HostReading>;
  /** For how long adverts are listened to, in milliseconds; 0 does not listen. */
  readonly captureMs: number;
}

/** Every part has this long: what hangs is not waited for. */
const limitMs = 5000;

/** What reads rules has as long as the agent gives it: on a slow host, too, doctor sees what the agent sees. */
const rulesLimitMs = usualReadLimitMs + 2000;

/**
 * Finds out everything at the same time. Reads only. What cannot be found out is unknown, and nothing else fails by
 * it; the whole takes as long as the longest part: a few seconds, and where a tool hangs `rulesLimitMs`. Never rejects for what the host is like.
 */
export async function gatherFacts(needs: GatherNeeds): Promise<HostFacts> {
  const { config, flags, version, clock, kernel } = needs;
  const within = <T>(promise: Promise<T>, limit = limitMs) => toFact(promise, clock, limit);
  const seen = within(needs.readHost(), rulesLimitMs);
  const people = within(observeProcesses());
  const { found, onDisk, asked, ...parts } = await waitForAll({
    assessment: seen,
    rights: within(readRights()),
    forwardChains: within(kernel.listForwardChains(), rulesLimitMs),
    earlyRules: within(readEarlyRules()),
    inputRules: within(readInputRules()),
    sysctls: listSwitchedInterfaces().then((devices) =>
      readSysctls([...Object.values(sysctlNames), ...devices.map(nameReversePathFilter)]),
    ),
    ipvs: within(readIpvs()),
    adverts: captureAdverts(needs),
    kubeProxy: askProxyHealth(),
    agent: findLockOwner(agentRole),
    units: listUnits(unitNames),
    modules: readModules(ipvsModules),
    services: readServicesFacts({ ...needs, within }),
    found: people,
    onDisk: people.then((all) => readDisk(needs, all)),
    asked: seen.then((reading) => askOthers(needs, reading)),
  });
  const pick = <Key extends keyof Processes>(key: Key): Fact<Processes[Key]> =>
    'unknown' in found ? found : { value: found.value[key] };
  return {
    ...{ config, flags, version, now: clock.date(), tools: new Set(toolNames.filter(isInPath)) },
    ...{ ...parts, ...onDisk, ...asked, interfaces: readInterfaces(), gateways: readGateways() },
    ...{ processes: pick('processes'), seatProcesses: pick('seatProcesses'), listeners: pick('listeners') },
  };
}

/** What each promise resolves to. Rejects as the first one that does. */
async function waitForAll<T extends object>(promises: {
  readonly [Name in keyof T]: Promise<T[Name]>;
}): Promise<T> {
  const all = Object.entries<Promise<unknown>>(promises);
  return Object.fromEntries(await Promise.all(all.map(async ([name, one]) => [name, await one]))) as T;
}

/** Files, which in a container are seen in part. */
async function readDisk({ config, clock }: GatherNeeds, found: Fact<Processes>) {
  const processes = 'unknown' in found ? [] : found.value.processes;
  const mayHide = await viewHostPaths();
  return await waitForAll({
    files: readFiles(mayHide),
    hasMemory: findMemory(config, mayHide),
    drain: toFact(createDrainStore(config.stateDir).load(), clock, limitMs),
    keepalived: toFact(findConfiguration(processes, config, mayHide), clock, limitMs),
    trackFile: toFact(findTrackFile(processes, config, mayHide), clock, limitMs),
  });
}

/** Other hosts, by what this one shows of them. */
async function askOthers(
  needs: GatherNeeds,
  assessment: Fact<HostReading>,
): Promise<Pick<HostFacts, 'vipHolderAnswers' | 'serving' | 'linkHolders'>> {
  if ('unknown' in assessment)
    return { vipHolderAnswers: new Map(), serving: assessment, linkHolders: assessment };
  const reading = assessment.value;
  return await waitForAll({
    vipHolderAnswers: askVipHolders(needs, reading),
    serving: askAllServing(needs.clock, reading),
    linkHolders: toFact(findLinkHolders(needs, reading), needs.clock, limitMs),
  });
}

async function toFact<T>(promise: Promise<T>, clock: Clock, limit: number): Promise<Fact<T>> {
  const late = Promise.withResolvers<Fact<T>>();
  const cancel = clock.schedule(limit, () => {
    late.resolve({ unknown: `no answer within ${limit / 1000} s` });
  });
  const known = promise.then(
    (value): Fact<T> => ({ value }),
    (error: unknown): Fact<T> => {
      if (error instanceof VipnatError || (error as NodeJS.ErrnoException).code !== undefined)
        return { unknown: (error as Error).message };
      throw error;
    },
  );
  return await Promise.race([known, late.promise]).finally(cancel);
}

type Processes = Awaited<ReturnType<typeof observeProcesses>>;

/** A container that does not see the host's processes still sees the host's sockets: then some have no owner. */
async function observeProcesses() {
  const processes = await listProcesses();
  const listeners = await readListeners(processes.map(({ pid }) => pid));
  if (listeners.some(({ pid }) => pid === null) && !(await isInFirstPidNamespace()))
    throw new VipnatError('TOOL_NOT_PERMITTED', "this container does not see the host's processes (hostPID)");
  const { seats, others } = await partKeepalived(processes);
  return { processes: others, seatProcesses: seats, listeners };
}

async function captureAdverts({ captureMs, clock }: GatherNeeds): Promise<Fact<readonly VrrpAdvert[]>> {
  if (captureMs === 0) return { unknown: 'adverts were not captured (--capture 0s)' };
  return await toFact(captureVrrp(captureMs).then(parseCapture), clock, captureMs + limitMs);
}

/**
 * A port that no rule of vipnat is about, so that the answer is the VIP holder's: at the VIP's own port another apiserver
 * may answer, whoever holds the VIP. Nobody listens on discard, but every host's kernel refuses.
 */
const discardPort = 9;

/** The kernel asks by ARP three times, a second apart, before it says that there is no such host. */
const neighbourLimitMs = 3300;

async function askVipHolders({ config, connect }: GatherNeeds, { observation }: HostReading) {
  const local = new Set(observation.addresses.map(({ address }) => address));
  const absent = config.vips.filter(({ address }) => !local.has(address));
  const ask = async (vip: Endpoint) =>
    [vip.address, await connect({ ...vip, port: discardPort }, neighbourLimitMs)] as const;
  return new Map(await Promise.all(absent.map(ask)));
}

/** An apiserver that hangs is not waited for. */
const servingLimitMs = 1500;

async function askAllServing(clock: Clock, { health, decisions }: HostReading) {
  const known = [...health.keys()].map((text) => parseEndpoint(text)).filter((one) => one !== null);
  const endpoints = sortEndpoints([...known, ...decisions.flatMap(({ backends }) => backends)]);
  const ask = async (endpoint: Endpoint) =>
    [formatEndpoint(endpoint), await askServing(endpoint, clock, servingLimitMs)] as const;
  return { value: new Map(await Promise.all(endpoints.map(ask))) };
}

interface Question extends NeighbourQuestion {
  /** An own address is answered for in milliseconds or not at all: nobody waits for its being given up. */
  readonly limitMs: number;
}

/**
 * Who else has each virtual IP, by its address; null when nobody answers. The result lacks addresses that cannot be asked for: those in no
 * network of an interface, and IPv6 addresses of this host, as the kernel ignores answers of another VIP holder.
 */
async function findLinkHolders({ config, clock }: GatherNeeds, { observation }: HostReading) {
  const own = await readOwnLinks();
  const questions = config.vips
    .flatMap((vip) => toQuestion(vip, observation.addresses))
    .map((question) => ({ ...question, device: own.toAsked(question.device) }));
  return new Map((await Promise.all(questions.map((question) => ask(question, own, clock)))).flat());
}

/** Where the address is, or whose network it is in. */
function toQuestion({ family, address }: Endpoint, addresses: readonly LocalAddress[]): Question[] {
  const local = addresses.find((one) => one.address === address);
  if (local !== undefined) {
    if (family === 'ipv6' || local.device === 'kube-ipvs0') return [];
    return [{ family, address, device: local.device, limitMs: ownLimitMs }];
  }
  const around = readInterfaces().find((one) => one.family === family && isInSubnet(address, one));
  return around === undefined ? [] : [{ family, address, device: around.device, limitMs: answerLimitMs }];
}

/** The kernel asks a second time after a second (retrans_time_ms). */
const ownLimitMs = 1300;

/** The kernel gives up after 3 s. */
const answerLimitMs = 4000;
const pollMs = 100;

/** A little less than the kernel takes to give up what it was not asked for before. */
const fullTimeMs = 2700;

async function ask(question: Question, own: OwnLinks, clock: Clock): Promise<[string, LinkHolder | null][]> {
  const { address, device, limitMs: waitMs } = question;
  const nobody: Neighbour = { ...question, mac: null, state: 'silent' };
  const start = clock.now();
  await askNeighbours([question]);
  for (;;) {
    const table = await readNeighbours();
    const entry = table.find((one) => one.address === address && one.device === device) ?? nobody;
    const { state } = entry;
    if (state === 'answered' || state === 'static') return [[address, toVipHolder(entry, table, own)]];
    const elapsedMs = clock.now() - start;
    if (state === 'silent' && elapsedMs > fullTimeMs) return [[address, null]];
    if (elapsedMs >= waitMs) return waitMs === ownLimitMs ? [[address, null]] : [];
    // Another doctor may have had it forgotten meanwhile.
    if (state === 'silent') await askNeighbours([question]);
    await sleep(clock, pollMs);
  }
}

/** An interface of this host may answer for an address of another one. */
function toVipHolder(found: Neighbour, table: readonly Neighbour[], own: OwnLinks): LinkHolder | null {
  const { address, mac } = found;
  if (mac === null || own.macs.has(mac)) return null;
  const others = table.filter((one) => one.mac === mac && one.address !== address);
  return { mac, addresses: others.map((one) => one.address) };
}

/** Reads the files of filePaths. One that this container may only not see is unknown. */
async function readFiles(mayHide: PathView): Promise<HostFacts['files']> {
  const all = Object.values(filePaths).map(async (path) => [path, await readText(path, mayHide)] as const);
  return new Map(await Promise.all(all));
}

async function readText(path: string, mayHide: PathView): Promise<Fact<string | null>> {
  try {
    const text = await readIfThere(path);
    return text === null && mayHide(path) ? { unknown: describeHidden(path) } : { value: text };
  } catch (error) {
    return { unknown: `${path} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})` };
  }
}

function describeHidden(path: string): string {
  return `this container does not see the host's ${dirname(path)}`;
}

/**
 * keepalived's configuration.
 * @throws VipnatError TOOL_NOT_PERMITTED where none is seen and the host may have one; else as readConfiguration does.
 */
async function findConfiguration(processes: readonly HostProcess[], { runDir }: Config, mayHide: PathView) {
  const here = processes.filter(({ isSurelyHere }) => isSurelyHere);
  const hostFile = locateKeepalivedFile(runDir);
  const found = await readConfiguration(here, hostFile);
  const hidden = [keepalivedFile, hostFile].find(mayHide);
  // What a running keepalived names is read among its own files, which are seen whole.
  if (found.text === null && hidden !== undefined && !here.some(({ name }) => name === 'keepalived'))
    throw new VipnatError('TOOL_NOT_PERMITTED', describeHidden(hidden));
  return found;
}

/**
 * The content of the track file, and whether keepalived watches it.
 * @throws VipnatError TOOL_NOT_PERMITTED where the file is not seen and the host may have one; else as node:fs does.
 */
async function findTrackFile(processes: readonly HostProcess[], { runDir }: Config, mayHide: PathView) {
  const file = locateServingFile(runDir);
  const [text, view] = await Promise.all([readIfThere(file), viewWatch(processes, file)]);
  if (text === null && mayHide(file)) throw new VipnatError('TOOL_NOT_PERMITTED', describeHidden(file));
  return { content: text?.trim() ?? null, ...view };
}

async function findMemory({ stateDir }: Config, mayHide: PathView): Promise<Fact<boolean>> {
  const path = join(stateDir, 'endpoints.json');
  try {
    await access(path);
    return { value: true };
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    if (!['ENOENT', 'ENOTDIR'].includes(code)) return { unknown: `${path} cannot be read (${code})` };
    return mayHide(path) ? { unknown: describeHidden(path) } : { value: false };
  }
}

/** A configuration takes 3,000 characters, lists of networks can be long; a host in trouble is slow. */
const configzLimits = { limitMs: 4000, maxLength: 100_000 };

const configz = z.object({
  'kubeproxy.config.k8s.io': z.object({
    ipvs: z.object({ excludeCIDRs: z.nullable(z.array(z.string())) }),
  }),
});

/** Asks kube-proxy how it is and how it is set. Never rejects. Source: cmd/kube-proxy/app/server.go, pkg/proxy/healthcheck. */
async function askProxyHealth() {
  // --healthz-bind-address is by default every address; /configz is on the port of /proxyMode.
  const [health, config] = await Promise.all([askFirst('10256/healthz'), askFirst('10249/configz')]);
  const ipvs = configz.safeParse(readJson(config?.text ?? '')).data?.['kubeproxy.config.k8s.io'].ipvs;
  return {
    status: health?.status ?? null,
    ipvs: ipvs === undefined ? null : { excludeCidrs: ipvs.excludeCIDRs ?? [] },
  };
}

/** Whoever answers first is meant, also with an error: a sick kube-proxy answers 503. */
async function askFirst(place: string): Promise<HttpsAnswer | null> {
  for (const host of ['127.0.0.1', '[::1]']) {
    const answer = await askLoopback(`http://${host}:${place}`, configzLimits);
    if (answer !== null) return answer;
  }
  return null;
}
