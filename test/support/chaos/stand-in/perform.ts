import type { Cluster } from '../../network/cluster.ts';
import type { Truth, AgentHost, Apiserver, Proxy, Condition, ApiManner } from './truth.ts';
import type { ControlPlane } from './control-plane.ts';
import type { Place } from './place.ts';
import type { Family } from '../../../../lib/net.ts';
import type { StandInFaultName } from '../world/faults.ts';
import { type Damage, pick, findOwnRules, renderDamage } from '../../foreign/damage.ts';
import { vips } from '../../network/layout.ts';
import type { Moment, Breakage } from './tools.ts';
import { harmState, type StateFault } from './state-faults.ts';
import type { Step } from '../engine/walk.ts';
import type { Host } from './host.ts';
import { type IptablesDialect, toolName } from '../../../../lib/kernel/port.ts';

/** What faults happen to. */
export interface Stage {
  readonly cluster: Cluster;
  readonly truth: Truth;
  readonly controlPlane: ControlPlane;
  readonly places: Readonly<Record<AgentHost, Place>>;
  /** Tells of what must not be at any moment. */
  readonly complain: (complaint: string) => void;
}

/** A step as its fault's generator made it. */
interface Said {
  readonly host: AgentHost;
  readonly family: Family;
  readonly list: readonly Apiserver[];
  readonly durationMs: number;
  readonly [argument: string]: unknown;
}

type Act = (stage: Stage, place: Place, said: Said) => unknown;

const faultToAct: Readonly<Record<StandInFaultName, Act>> = {
  'flush table': async ({ truth }, { strangers }, { host, table }) => {
    const proxy = truth.proxies[host];
    if (table === 'nat' && proxy.mode === 'iptables') proxy.list = [];
    await strangers.flush(String(table), proxy);
  },
  'damage a rule': ({ truth }, { host: place }, { host, family, damage, index }) =>
    damageOwnRule(place, { family, dialect: truth.proxies[host].dialect }, damage as Damage, Number(index)),
  'strange hook': ({ truth }, { strangers }, { host, family, hook, chain }) =>
    strangers.toggleHook(Number(hook), String(chain), family, truth.proxies[host]),
  'kube-proxy syncs': async ({ truth }, { strangers }, { host, list }) => {
    const proxy = truth.proxies[host];
    if (proxy.mode === 'none') return;
    proxy.list = list;
    await strangers.sync(proxy);
  },
  'kube-proxy mode': ({ truth }, place, { host, mode }) =>
    restartProxy(place, truth.proxies[host], { mode: mode as Proxy['mode'] }),
  'kube-proxy backend': ({ truth }, place, { host, backend }) =>
    restartProxy(place, truth.proxies[host], { dialect: backend as Proxy['dialect'] }),
  'firewall restored': ({ truth }, { strangers }, { host, family, table }) =>
    strangers.restoreFirewall(String(table), family, truth.proxies[host]),
  'other version': ({ truth }, { host: place }, { host, family }) =>
    plantOtherVersion(place, { family, dialect: truth.proxies[host].dialect }, vips[family]),
  'agent killed': (_stage, { agent }) => agent.end('SIGKILL'),
  'agent killed by a tool': (_stage, { agent }, { moment }) => {
    agent.armTool(moment as Moment);
  },
  'agent stopped': (_stage, { agent }) => agent.end('SIGTERM'),
  'agent started': startAgent,
  'agent paused': (_stage, { agent }, { durationMs }) => {
    agent.pause(durationMs);
  },
  VIP: async ({ cluster, truth }, _place, { to }) => {
    if (to !== 'nobody') truth.holder = to as AgentHost;
    await cluster.moveVips(String(to));
  },
  apiserver: ({ controlPlane }, _place, { name, condition }) =>
    controlPlane.become(name as Apiserver, condition as Condition),
  'API answers': ({ controlPlane }, _place, { manner }) => controlPlane.answer(manner as ApiManner),
  'API lists': ({ controlPlane }, _place, { list }) => controlPlane.list(list),
  'lock held': (_stage, { host: place }, { durationMs }) => {
    place.holdLock(durationMs);
  },
  tool: (_stage, { agent }, { tool, how }) => {
    agent.tools.break(String(tool), how as Breakage);
  },
  'state folder': ({ truth }, { host: place }, { host, how }) => {
    if (host === 'm1') truth.api.isForgotten = true;
    return harmState(place, how as StateFault);
  },
  clock: (_stage, { agent }, { seconds }) => {
    agent.setClock(Number(seconds));
  },
  'no descriptors': (_stage, { agent }) => agent.exhaustDescriptors(),
};

export async function performStep(stage: Stage, step: Step): Promise<void> {
  const act = Object.entries(faultToAct).find(([name]) => name === step.fault)?.[1];
  if (act === undefined) throw new Error(`no such fault on the stand-in: ${step.fault}`);
  await act(stage, stage.places[step['host'] === 'm2' ? 'm2' : 'm1'], step as unknown as Said);
}

/** Another kube-proxy, which first removes what the one before left, and then has all apiservers. */
async function restartProxy(
  { strangers, health }: Place,
  proxy: Proxy,
  change: Partial<Pick<Proxy, 'mode' | 'dialect'>>,
): Promise<void> {
  const { mode = proxy.mode, dialect = proxy.dialect } = change;
  if (mode === proxy.mode && dialect === proxy.dialect) return;
  await strangers.removeTakers();
  await health.say('none');
  proxy.left.add(proxy.dialect);
  await strangers.cleanUp(proxy.dialect);
  Object.assign(proxy, { mode, dialect, list: mode === 'none' ? [] : ['m1', 'm2', 'm3'] });
  await strangers.publishContainer(proxy);
  await health.say(mode);
  await strangers.sync(proxy);
}

/** Where one lives, this is a second one: it has to say that it waits, and to end when it is told to. */
async function startAgent({ complain }: Stage, { agent, host }: Place): Promise<void> {
  if (!agent.isAlive || agent.isHindered) {
    agent.start();
    return;
  }
  const { lives } = agent;
  const { exitCode, stderr } = await agent.runSecond();
  // Whoever was killed meanwhile was in nobody's way.
  const isFirstThere = agent.lives === lives && agent.isAlive;
  if (isFirstThere && (exitCode !== 0 || !stderr.includes('[AGENT_ALREADY_RUNNING] waiting ')))
    complain(`${host.name}: a second agent did not wait, and ended with ${exitCode}: ${stderr}`);
}

/** Does something to one of our rules, the `index`th of those that are there; nothing where there are none. */
async function damageOwnRule(
  host: Host,
  { family, dialect }: { family: Family; dialect: IptablesDialect },
  damage: Damage,
  index: number,
): Promise<void> {
  const rule = pick(findOwnRules(await host.shell(toolName(family, dialect, 'save'))), index);
  if (rule === undefined) return;
  // The agent may be faster: then the rule is not there any more, and nothing happens.
  await host.run([toolName(family, dialect, 'restore'), '--noflush', '-w', '40'], {
    input: renderDamage(rule, damage),
  });
}

/**
 * Rules as other versions of vipnat left them: chains of names that this one does not have, its hooks with ids that it would not
 * give, and its own chains with another content.
 */
async function plantOtherVersion(
  host: Host,
  { family, dialect }: { family: Family; dialect: IptablesDialect },
  vip: string,
): Promise<void> {
  const id = (digit: number) => `-m comment --comment "vipnat:${String(digit).repeat(16)}"`;
  const suffix = family === 'ipv4' ? '/32' : '/128';
  const script = `*nat
:VIPNAT - [0:0]
:VIPNAT-OLD0000000 - [0:0]
:VIPNAT-POSTROUTING - [0:0]
-I PREROUTING ${id(1)} -j VIPNAT
-A OUTPUT ${id(2)} -j VIPNAT
-A POSTROUTING ${id(3)} -j VIPNAT-POSTROUTING
-A VIPNAT -d ${vip}${suffix} -p tcp -m tcp --dport 6443 ${id(4)} -j VIPNAT-OLD0000000
-A VIPNAT-OLD0000000 ${id(5)} -p tcp -j RETURN
-A VIPNAT-POSTROUTING -d ${vip}${suffix} ${id(6)} -j RETURN
COMMIT
*filter
:VIPNAT-INPUT-OLD - [0:0]
-A INPUT ${id(7)} -j VIPNAT-INPUT-OLD
COMMIT
`;
  // The agent may be writing: what is refused then did not happen.
  await host.run([toolName(family, dialect, 'restore'), '--noflush', '-w', '40'], { input: script });
}
