import { agentRole, findHolder } from '../../../lib/http/singleton.ts';
import {
  type Endpoint,
  formatEndpoint,
  parseEndpoint,
  sortEndpoints,
} from '../../../lib/address/endpoint.ts';
import { type ApiRoute } from '../../../lib/kubernetes/route.ts';
import { VipnatError } from '../../../lib/text/errors.ts';
import { captureVrrp } from '../../../lib/kernel/tools/capture.ts';
import { type Clock } from '../../../lib/control/clock.ts';
import { readInterfaces } from '../../../lib/kernel/host/interfaces.ts';
import { readIpvs } from '../../../lib/kernel/watch/ipvs.ts';
import { type Listener, readListeners } from '../../../lib/kernel/host/listeners.ts';
import { type Kernel } from '../../../lib/kernel/port.ts';
import { readModules } from '../../../lib/kernel/host/modules.ts';
import { viewHostPaths } from '../../../lib/kernel/host/host-paths.ts';
import { listUnits } from '../../../lib/kernel/host/units.ts';
import {
  isInFirstPidNamespace,
  type HostProcess,
  listProcesses,
} from '../../../lib/kernel/host/processes.ts';
import { readRights } from '../../../lib/kernel/host/rights.ts';
import { listSwitchedInterfaces, readSysctls } from '../../../lib/kernel/host/sysctls.ts';
import { usualReadLimitMs } from '../../../lib/kernel/real/kernel.ts';
import { readEarlyRules } from '../../../lib/kernel/real/early-rules.ts';
import { isInPath } from '../../../lib/kernel/tools/toolbox.ts';
import { partKeepalived } from '../../../lib/keepalived/find.ts';
import { parseCapture, type VrrpAdvert } from '../../../lib/keepalived/advert.ts';
import { type Config } from '../../../config/config.ts';
import { askProxyHealth } from './proxy-health.ts';
import { type ConnectOutcome } from '../../../lib/probe/connect.ts';
import { askServing, type Serving } from '../../../lib/probe/serving.ts';
import { createDrainStore } from '../../../lib/files/drain-store.ts';
import { type Fact } from './fact.ts';
import { findLinkHolders } from './holders.ts';
import { readServicesFacts } from './services-facts.ts';
import { findConfiguration, findMemory, findTrackFile, readFiles } from './host-files.ts';
import {
  type HostFacts,
  ipvsModules,
  nameReversePathFilter,
  sysctlNames,
  toolNames,
  unitNames,
} from './host-facts.ts';
import type { HostLook } from '../../../agent/main.ts';

/** What facts are gathered with. */
export interface GatherNeeds {
  readonly config: Config;
  readonly flags: string;
  readonly version: string;
  readonly clock: Clock;
  readonly kernel: Pick<Kernel, 'listForwardChains'>;
  /** Connects once and closes again. Never rejects; answers after the limit at the latest. */
  readonly connect: (endpoint: Endpoint, limitMs: number) => Promise<ConnectOutcome>;
  /** One whole look at this host. */
  readonly look: () => Promise<HostLook>;
  /** For how long adverts are listened to, in milliseconds; 0 does not listen. */
  readonly captureMs: number;
  /** How to get at the Kubernetes API; null without credentials for it. */
  readonly route: ApiRoute | null;
  /** The name of this host's node in Kubernetes. */
  readonly node: string;
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
  const services = readServicesFacts({ ...needs, within });
  const seen = within(needs.look(), rulesLimitMs);
  const people = within(observeProcesses());
  const installed = findInstalled();
  const onDisk = people.then((found) => readDisk(needs, found));
  const earlyRules = within(readEarlyRules());
  const [assessment, rights, forwardChains, sysctls, ipvs, adverts, kubeProxy, agent, asked] =
    await Promise.all([
      seen,
      within(readRights()),
      within(kernel.listForwardChains(), rulesLimitMs),
      readAllSysctls(),
      within(readIpvs()),
      captureAdverts(needs),
      askProxyHealth(),
      findHolder(agentRole),
      seen.then((found) => askOthers(needs, found)),
    ]);
  return {
    ...{ config, flags, version, now: clock.date(), tools: new Set(toolNames.filter(isInPath)) },
    earlyRules: await earlyRules,
    ...{ assessment, rights, forwardChains, sysctls, ipvs, adverts, kubeProxy, agent },
    ...asked,
    ...splitProcesses(await people),
    ...(await installed),
    ...(await onDisk),
    interfaces: readInterfaces(),
    services: await services,
  };
}

/** Files, which in a container are seen in part. */
async function readDisk(
  { config, clock }: GatherNeeds,
  found: Fact<Processes>,
): Promise<Pick<HostFacts, 'files' | 'keepalived' | 'trackFile' | 'hasMemory' | 'drain'>> {
  const processes = 'unknown' in found ? [] : found.value.processes;
  const mayHide = await viewHostPaths();
  const [files, hasMemory, drain, keepalived, trackFile] = await Promise.all([
    readFiles(mayHide),
    findMemory(config, mayHide),
    toFact(createDrainStore(config.stateDir).load(), clock, limitMs),
    toFact(findConfiguration(processes, config, mayHide), clock, limitMs),
    toFact(findTrackFile(processes, config, mayHide), clock, limitMs),
  ]);
  return { files, hasMemory, drain, keepalived, trackFile };
}

/** Other hosts, by what this one shows of them. */
async function askOthers(
  needs: GatherNeeds,
  assessment: Fact<HostLook>,
): Promise<Pick<HostFacts, 'holderAnswers' | 'serving' | 'linkHolders'>> {
  const [holderAnswers, serving, linkHolders] = await Promise.all([
    askHolders(needs, assessment),
    askAllServing(needs.clock, assessment),
    askLinks(needs, assessment),
  ]);
  return { holderAnswers, serving, linkHolders };
}

async function askLinks(
  { config: { vips }, clock }: GatherNeeds,
  assessment: Fact<HostLook>,
): Promise<HostFacts['linkHolders']> {
  if ('unknown' in assessment) return assessment;
  const { addresses } = assessment.value.observation;
  const found = findLinkHolders({ vips, addresses, clock, interfaces: readInterfaces() });
  return await toFact(found, clock, limitMs);
}

async function toFact<T>(promise: Promise<T>, clock: Clock, limit: number): Promise<Fact<T>> {
  let cancel = () => {};
  const late = new Promise<Fact<T>>((resolve) => {
    cancel = clock.schedule(limit, () => {
      resolve({ unknown: `no answer within ${limit / 1000} s` });
    });
  });
  const known = promise.then(
    (value): Fact<T> => ({ value }),
    (error: unknown): Fact<T> => {
      if (error instanceof VipnatError || (error as NodeJS.ErrnoException).code !== undefined) {
        return { unknown: (error as Error).message };
      }
      throw error;
    },
  );
  return await Promise.race([known, late]).finally(() => {
    cancel();
  });
}

interface Processes {
  /** But for those of the keepalived that holds Services' addresses. */
  readonly processes: readonly HostProcess[];
  readonly seatProcesses: readonly HostProcess[];
  readonly listeners: readonly Listener[];
}

/** A container that does not see the host's processes still sees the host's sockets: then some have no owner. */
async function observeProcesses(): Promise<Processes> {
  const processes = await listProcesses();
  const listeners = await readListeners(processes.map(({ pid }) => pid));
  if (listeners.some(({ pid }) => pid === null) && !(await isInFirstPidNamespace())) {
    throw new VipnatError('TOOL_NOT_PERMITTED', "this container does not see the host's processes (hostPID)");
  }
  const { seats, others } = await partKeepalived(processes);
  return { processes: others, seatProcesses: seats, listeners };
}

function splitProcesses(
  found: Fact<Processes>,
): Pick<HostFacts, 'processes' | 'seatProcesses' | 'listeners'> {
  if ('unknown' in found) return { processes: found, seatProcesses: found, listeners: found };
  const { processes, seatProcesses, listeners } = found.value;
  return {
    processes: { value: processes },
    seatProcesses: { value: seatProcesses },
    listeners: { value: listeners },
  };
}

async function findInstalled(): Promise<Pick<HostFacts, 'units' | 'modules'>> {
  const [units, modules] = await Promise.all([listUnits(unitNames), readModules(ipvsModules)]);
  return { units, modules };
}

async function readAllSysctls(): Promise<ReadonlyMap<string, string>> {
  const devices = await listSwitchedInterfaces();
  return await readSysctls([...Object.values(sysctlNames), ...devices.map(nameReversePathFilter)]);
}

async function captureAdverts({ captureMs, clock }: GatherNeeds): Promise<Fact<readonly VrrpAdvert[]>> {
  if (captureMs === 0) return { unknown: 'adverts were not captured (--capture 0s)' };
  return await toFact(captureVrrp(captureMs).then(parseCapture), clock, captureMs + limitMs);
}

/**
 * A port that no rule of ours is about, so that the answer is the holder's: to the VIP's own port another apiserver
 * may answer, whoever holds the VIP. Nobody listens on discard, but every host's kernel refuses.
 */
const discardPort = 9;

/** The kernel asks by ARP three times, a second apart, before it says that there is no such host. */
const neighbourLimitMs = 3300;

async function askHolders(
  { config, connect }: GatherNeeds,
  assessment: Fact<HostLook>,
): Promise<ReadonlyMap<string, ConnectOutcome>> {
  if ('unknown' in assessment) return new Map();
  const local = new Set(assessment.value.observation.addresses.map(({ address }) => address));
  const absent = config.vips.filter(({ address }) => !local.has(address));
  const ask = async (vip: Endpoint) =>
    [vip.address, await connect({ ...vip, port: discardPort }, neighbourLimitMs)] as const;
  return new Map(await Promise.all(absent.map(ask)));
}

/** An apiserver that hangs is not waited for. */
const servingLimitMs = 1500;

async function askAllServing(
  clock: Clock,
  assessment: Fact<HostLook>,
): Promise<Fact<ReadonlyMap<string, Serving | null>>> {
  if ('unknown' in assessment) return assessment;
  const { health, decisions } = assessment.value;
  const known = [...health.keys()].map((text) => parseEndpoint(text)).filter((one) => one !== null);
  const endpoints = sortEndpoints([...known, ...decisions.flatMap(({ backends }) => backends)]);
  const ask = async (endpoint: Endpoint) =>
    [formatEndpoint(endpoint), await askServing(endpoint, clock, servingLimitMs)] as const;
  return { value: new Map(await Promise.all(endpoints.map(ask))) };
}
