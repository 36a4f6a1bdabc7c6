import { type VipnatError } from '../../text/errors.ts';
import { readAddresses } from '../netlink/addresses.ts';
import { addSourceRoute, readLocalRoutes, removeSourceRoute } from '../netlink/local-routes.ts';
import { abortOwnConnections } from '../netlink/own-connections.ts';
import { listAdvertised } from '../host/advertised-routes.ts';
import { type Clock, systemClock } from '../../control/clock.ts';
import { countFlows, deleteFlows } from './conntrack.ts';
import { listClosedDevices, readForwarding, writeForwarding } from '../host/forwarding.ts';
import { findRestore, isForIptables, restoreIptables } from './iptables.ts';
import { readIpvs } from '../watch/ipvs.ts';
import { KnownForwarding } from '../host/known-forwarding.ts';
import { ForwardChains } from './nft-chains.ts';
import { nftScript, runNft } from './nft-table.ts';
import { type Kernel, type KernelQuery, type KernelReading, type WritePlace } from '../port.ts';
import { RuleReader } from './rule-reader.ts';
import { type RunTool, type ToolCommand } from '../tools/exec.ts';
import { ReadyTools } from '../tools/ready-tools.ts';
import { createToolbox, type Toolbox } from '../tools/toolbox.ts';
import { startWatch } from '../watch/watch.ts';

/** After how many milliseconds a tool that reads is killed, unless something else is said (100,000 rules: 4 s). */
export const usualReadLimitMs = 10_000;

/** What a real kernel needs to know. */
export interface KernelOptions {
  /** Told when a watch goes half blind: once, until it has seen again. */
  readonly onProblem: (problem: VipnatError) => void;
  /** When polls look; the machine's clock by default. */
  readonly clock?: Clock;
  /** After how many milliseconds a tool that reads is killed; `usualReadLimitMs` by default. */
  readonly readLimitMs?: number;
  /** The same for one that writes; 15 s by default, as it may wait 5 s for the xtables lock. */
  readonly writeLimitMs?: number;
}

/** The kernel of this network namespace, through the tools in PATH. Nothing runs before the first call. */
export function createKernel(options: KernelOptions): Kernel {
  const { onProblem, clock = systemClock, readLimitMs = usualReadLimitMs, writeLimitMs = 15_000 } = options;
  const toolbox = createToolbox(readLimitMs);
  const rules = new RuleReader(toolbox, readLimitMs);
  const forwardChains = new ForwardChains(readLimitMs);
  const known = new KnownForwarding();
  const ready = new ReadyTools(clock);
  const run: RunTool = (call) => ready.run(call);
  return {
    read: (query) => readKernel(rules, query),
    apply: (transaction) =>
      isForIptables(transaction)
        ? restoreIptables(toolbox, transaction, { limitMs: writeLimitMs, run })
        : runNft(transaction, writeLimitMs, { run }),
    keepReady: (places) => ready.keep(Promise.all(places.map((place) => findWriter(toolbox, place)))),
    resetFlows: deleteFlows,
    countFlows,
    listForwardChains: () => forwardChains.list(),
    enableForwarding: async (family, device) => {
      await writeForwarding(family, device);
      known.noteOn(family);
    },
    readLocalRoutes,
    addSourceRoute,
    removeSourceRoute,
    abortOwnConnections,
    watch: (onTrigger) => startWatch({ clock, onTrigger, onProblem }, known),
  };
}

async function findWriter(toolbox: Toolbox, { family, dialect }: WritePlace): Promise<ToolCommand | null> {
  return dialect === 'nftables' ? nftScript : await findRestore(toolbox, { family, dialect });
}

async function readKernel(rules: RuleReader, query: KernelQuery): Promise<KernelReading> {
  const reading = rules.read(query);
  const addresses = readAddresses();
  const ipvs = readIpvs();
  const forwarding = readForwarding();
  const advertised = forwarding.then(({ ipv6 }) => (ipv6 === false ? listAdvertised() : []));
  const closedDevices = Promise.all([forwarding, addresses]).then(([{ ipv4 }, found]) =>
    ipv4 === true ? listClosedDevices(found) : [],
  );
  // One that fails must not leave the others' children running when we answer.
  await Promise.allSettled([reading, addresses, ipvs, advertised, closedDevices]);
  return {
    ...(await reading),
    addresses: await addresses,
    ipvs: await ipvs,
    forwarding: await forwarding,
    closedDevices: await closedDevices,
    advertised: await advertised,
  };
}
