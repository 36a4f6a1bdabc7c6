import { type Script, type Edit, source, foreignScript, leftoverScript, edit, runEdit } from './strangers.ts';
import { type Source, listChains } from './tables.ts';
import { type Endpoint, type Family, families } from '../../../lib/net.ts';
import { type Dialect, iptablesDialects, nameOwnTable } from '../../../lib/kernel/port.ts';
import type { Balance } from '../../../lib/dialect.ts';
import { type NftCapture, setNftCapture, setIpvsCapture } from '../../support/kube-proxy/other-modes.ts';
import { fc } from '../../support/random/fc.ts';
import { apiservers, vips, balances } from './configs.ts';
import type { FakeClock } from '../../support/fakes/clock.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import type { HostPorts } from '../../../agent/read-host.ts';
import { nobodyProbes } from '../../support/fakes/health.ts';
import { noApi } from '../../../agent/api.ts';
import { VipnatError } from '../../../lib/errors.ts';
import { syncKubeProxy, removeKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { parseNftTable } from '../../../lib/nft/table.ts';
import { parseSave } from '../../../lib/iptables/rules.ts';
import { plan } from '../../../agent/decide/plan.ts';

/** One thing that happens to a host's kernel: plain data, so that a counter-example can be committed. */
export type Event =
  | { readonly does: 'script'; readonly script: Script }
  | { readonly does: 'edit'; readonly edit: Edit }
  /** Somebody empties a table: `iptables -t TABLE -F`. */
  | { readonly does: 'flush'; readonly source: Source; readonly table: 'nat' | 'filter' }
  /** An update of kube-proxy in iptables mode. */
  | { readonly does: 'sync'; readonly source: Source; readonly endpoints: readonly Endpoint[] }
  | { readonly does: 'remove-kube-proxy'; readonly source: Source }
  /** An earlier agent wrote these. */
  | { readonly does: 'agent'; readonly dialect: Dialect; readonly balances: readonly Balance[] }
  /** Somebody changes our own table, or makes one of its name. */
  | { readonly does: 'nft'; readonly family: Family; readonly command: NftCommand }
  | { readonly does: 'nft-proxy'; readonly capture: NftCapture | null }
  | { readonly does: 'ipvs'; readonly capture: 'three-endpoints' | 'two-endpoints' | null }
  | { readonly does: 'vip'; readonly isHeld: boolean };

type Of<Does extends Event['does']> = Extract<Event, { readonly does: Does }>;

/** One kind of event, as often as its weight. */
function happens<Does extends Event['does']>(
  weight: number,
  does: Does,
  said: { readonly [Key in Exclude<keyof Of<Does>, 'does'>]: fc.Arbitrary<Of<Does>[Key]> },
) {
  const arbitrary = fc.record({ does: fc.constant(does), ...said }) as unknown as fc.Arbitrary<Event>;
  return { weight, arbitrary };
}

/** What strangers do to our table; TABLE stands for its name. */
const nftCommands = [
  'flush chain TABLE prerouting',
  'delete table TABLE',
  'add table TABLE { flags dormant; }',
  'add table TABLE',
  'add chain TABLE mine',
  'add rule TABLE output counter accept',
  'add rule TABLE output counter accept comment "vipnat:of-another-version"',
  'add set TABLE mine { type ipv4_addr; }',
  'flush chain TABLE forward\ndelete chain TABLE forward\nadd chain TABLE forward { type filter hook forward priority 1; policy drop; }',
] as const;

type NftCommand = (typeof nftCommands)[number];

/** A VIP among the apiservers would be a loop: they may be told to advertise it. */
const endpoints = fc.oneof(
  fc.constant(apiservers),
  fc.subarray(apiservers),
  fc.subarray([...apiservers, ...vips]),
);
const captures = ['three-endpoints', 'two-endpoints', 'no-endpoints', 'client-ip-affinity'] as const;

/** What happens to a host without vipnat. */
export const event: fc.Arbitrary<Event> = fc.oneof(
  happens(4, 'script', { script: foreignScript }),
  happens(2, 'script', { script: leftoverScript }),
  happens(5, 'edit', { edit }),
  happens(4, 'sync', { source, endpoints }),
  happens(1, 'remove-kube-proxy', { source }),
  happens(1, 'flush', { source, table: fc.constantFrom('nat', 'filter') }),
  happens(1, 'nft-proxy', { capture: fc.constantFrom(null, ...captures) }),
  happens(1, 'ipvs', { capture: fc.constantFrom(null, 'three-endpoints', 'two-endpoints') }),
  happens(1, 'vip', { isHeld: fc.boolean() }),
  happens(2, 'nft', { family: fc.constantFrom(...families), command: fc.constantFrom(...nftCommands) }),
);

const agentEvent = happens(2, 'agent', {
  dialect: fc.constantFrom(...iptablesDialects, 'nftables'),
  balances,
});

/** What happened to a host before vipnat came. */
export const history = fc.array(fc.oneof({ weight: 5, arbitrary: event }, agentEvent), { maxLength: 10 });

export const strangers = fc.array(event, { maxLength: 6 });

/** A kernel to which all this has happened. */
export function createKernel(events: readonly Event[], clock?: FakeClock): FakeKernel {
  const kernel = new FakeKernel(clock);
  for (const happening of events) run(kernel, happening);
  return kernel;
}

/** A world in which kube-proxy answers this. */
export const createPorts = (kernel: FakeKernel, answer: string | null): HostPorts => ({
  kernel,
  askProxyMode: () => Promise.resolve(answer),
  health: nobodyProbes,
  api: noApi,
});

/** What kube-proxy says about its mode: mostly nothing. */
export const answer = fc.constantFrom(null, null, null, 'iptables', 'ipvs', 'nftables', 'something new');

/** Lets something happen. What a tool refuses, as a chain that others refer to, has not happened. */
export function run(kernel: FakeKernel, happening: Event): void {
  const act = acts[happening.does] as (kernel: FakeKernel, happening: Event) => void;
  try {
    act(kernel, happening);
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
  }
}

const acts: { readonly [Does in Event['does']]: (kernel: FakeKernel, happening: Of<Does>) => void } = {
  script: (kernel, { script }) => {
    kernel.run(script.family, script.dialect, script.script);
  },
  edit: (kernel, happening) => {
    runEdit(kernel, happening.edit);
  },
  flush: (kernel, { source: where, table }) => {
    const chains = listChains(kernel, where).filter((printed) => printed.table === table);
    if (chains.length > 0) kernel.run(where.family, where.dialect, `*${table}\n-F\nCOMMIT\n`);
  },
  nft: (kernel, { command, family }) => {
    kernel.runNft(command.replaceAll('TABLE', nameOwnTable(family)));
  },
  sync: (kernel, happening) => {
    syncKubeProxy(kernel, happening.source, happening.endpoints);
  },
  'remove-kube-proxy': (kernel, happening) => {
    removeKubeProxy(kernel, happening.source);
  },
  agent: (kernel, happening) => {
    writeBalances(kernel, happening.dialect, happening.balances);
  },
  'nft-proxy': (kernel, { capture }) => {
    setNftCapture(kernel, capture);
  },
  ipvs: (kernel, { capture }) => {
    setIpvsCapture(kernel, capture);
  },
  vip: (kernel, { isHeld }) => {
    if (isHeld) kernel.addAddress({ family: 'ipv4', address: '10.0.0.50', device: 'eth0' });
    else kernel.removeAddress('10.0.0.50');
  },
};

/** As an agent writes them that is told where to, and with no regard to what is in the other backend. */
function writeBalances(kernel: FakeKernel, dialect: Dialect, wanted: readonly Balance[]): void {
  const seen = families.map((family) =>
    dialect === 'nftables'
      ? parseNftTable({ family, text: kernel.showNft(family) })
      : parseSave({ family, dialect, text: kernel.show(family, dialect) }),
  );
  for (const transaction of plan({ dialect, balances: wanted }, seen).transactions) kernel.write(transaction);
}
