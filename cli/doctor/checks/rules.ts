import {
  type Checks,
  noVip,
  type HostFacts,
  checkHost,
  given,
  byReading,
  findValue,
  checkEach,
  type Finding,
  isKeepalivedHere,
} from '../facts.ts';
import {
  restartAgent,
  converge,
  convergeOrRemove,
  isBalancedHere,
  migrateFirst,
  describeElsewhere,
  findUnit,
} from '../remedies.ts';
import { isOutdated, type Drift, type Plan, describeTable } from '../../../lib/dialect.ts';
import type { HostObservation } from '../../../agent/main.ts';
import { isOwnChain, type Ruleset, isOwnRule, splitRule, parseRule } from '../../../lib/iptables/rules.ts';
import { type HostProcess, isReachedBy, type Listener } from '../../../lib/kernel/host.ts';
import { type Endpoint, formatEndpoint } from '../../../lib/net.ts';
import { toolName } from '../../../lib/kernel/port.ts';
import { quoteWords, quoteText } from '../../../lib/text.ts';
import { parseIpvs } from '../../../lib/kube-proxy/ipvs.ts';
import { findLocalClientWarnings } from '../../findings.ts';

/** Whether vipnat's own rules are correct, and nobody else balances the same virtual IPs. */
export const ruleChecks: Checks = {
  'agent-not-running': {
    levels: ['warn'],
    meaning: 'No agent runs on this node. No program repairs the rules.',
    find: ({ agent, assessment, units }) => {
      if (agent !== null) return null;
      const isInstalled = 'value' in assessment && hasOwnRules(assessment.value.observation);
      return {
        title: 'no vipnat agent runs on this node',
        why: isInstalled
          ? 'vipnat’s rules are here and keep working. But no agent repairs them, or stops using an apiserver that dies.'
          : 'If the VIP comes to this node, it is not balanced.',
        remedy: units.has('vipnat')
          ? ['systemctl enable --now vipnat', '# or as a pod: docs/install.md']
          : [
              '# vipnat is not installed as a service here. docs/install.md: as a DaemonSet, a static pod or a service',
            ],
      };
    },
  },
  'agent-other-version': {
    levels: ['warn'],
    meaning: 'The agent has another version than this command.',
    find: ({ agent, version, units }) => {
      if (agent === null) return { notHere: 'no agent runs' };
      if (agent.version === version) return null;
      return {
        title: `the agent has version ${agent.version}, and this command has version ${version}`,
        why: 'This report compares with the rules of this version. The agent’s version may write other rules.',
        remedy: restartAgent({ units }),
      };
    },
  },
  'rules-differ': {
    levels: ['fail'],
    meaning: "vipnat's rules differ from the wanted rules.",
    find: byReading(({ observation, plan }, facts) => {
      if (facts.agent === null && !hasOwnRules(observation))
        return { unknown: 'vipnat is not installed yet: no agent runs, and no rule of vipnat is here' };
      const drift = listDrift(plan, (one) => !isOutdated(one));
      if (drift.length === 0) return null;
      return {
        title: `vipnat's rules differ from the wanted rules: ${describe(drift)}`,
        why:
          facts.agent === null
            ? 'The VIP may not be balanced, and no agent runs here that could repair the rules.'
            : 'The agent has not repaired them yet. Run vipnat doctor again in a second. If they still differ, the agent’s log names what changes them.',
        remedy: converge(facts),
      };
    }),
  },
  'stale-rules': {
    levels: ['warn'],
    meaning: 'Rules of an earlier version or configuration are left.',
    /** I4: whatever any version wrote is recognised, and goes. */
    find: byReading(({ plan }, facts) => {
      const drift = listDrift(plan, isOutdated);
      if (drift.length === 0) return null;
      return {
        title: `rules of an earlier version or configuration are left: ${describe(drift)}`,
        why: 'These rules still match connections: to a VIP that no --vip names, or to apiservers that are gone.',
        remedy: convergeOrRemove(facts),
      };
    }),
  },
  'foreign-dnat': {
    levels: ['fail'],
    meaning: 'A foreign rule in the nat table translates the VIP.',
    /** kube-proxy's own rules name a VIP only for Services that have it as an external address: its chains are not examined. */
    find: byReading(({ observation }, facts) =>
      checkEach(observation.rulesets, { notHere: 'no table of iptables is here' }, (ruleset) =>
        facts.config.vips
          .filter(({ family }) => family === ruleset.family)
          .flatMap((vip) => findTranslations(ruleset, vip, isBalancedHere(vip, facts))),
      ),
    ),
  },
  'foreign-virtual-server': {
    levels: ['warn'],
    meaning: 'IPVS has a virtual server for the VIP.',
    /** kube-vip's load balancer, or a virtual_server of keepalived. vipnat's rules come first: IPVS sees what is for this host. */
    find: (facts) =>
      given([facts.ipvs, facts.assessment], (text, { observation }) => {
        if (text === null) return { notHere: 'this kernel has no IPVS' };
        const servers = parseIpvs(text).map(({ address }) =>
          address === null ? '' : formatEndpoint(address),
        );
        return checkEach(facts.config.vips, noVip, (vip) => {
          const name = formatEndpoint(vip);
          if (!servers.includes(name)) return null;
          const isPruned =
            observation.proxyMode.value === 'ipvs' && facts.kubeProxy.ipvs?.excludeCidrs.length === 0;
          return {
            title: `IPVS has a virtual server for ${name}`,
            why: isPruned
              ? 'Other software (kube-vip, keepalived) balances the same VIP. kube-proxy deletes that virtual server every 30 s, because --ipvs-exclude-cidrs does not contain the VIP.'
              : 'Other software (kube-vip, keepalived) balances the same VIP. It takes over whenever vipnat’s rules are gone.',
            remedy: isBalancedHere(vip, facts)
              ? [
                  `ipvsadm -D -t ${name}`,
                  '# and switch it off in its configuration: lb_enable of kube-vip, virtual_server of keepalived',
                ]
              : migrateFirst,
          };
        });
      }),
  },
  'foreign-listener': {
    levels: ['fail'],
    meaning: "A process other than an apiserver listens where the VIP's connections arrive.",
    find: (facts) =>
      given([facts.listeners, facts.processes], (sockets, running) => {
        const reached = facts.config.vips.flatMap((vip) =>
          sockets.filter((socket) => isReachedBy(vip, socket)).map((socket) => ({ vip, socket })),
        );
        return checkEach(reached, { notHere: 'no process listens there' }, ({ vip, socket }) => {
          const owner = running.find(({ pid }) => pid === socket.pid);
          const name = formatEndpoint(socket);
          if (owner === undefined)
            return { unknown: `this user cannot see which process listens on ${name}` };
          return isApiserver(owner) ? null : describeListener(owner, socket, vip, facts);
        });
      }),
  },
  'kube-vip-running': {
    levels: ['warn'],
    meaning: 'kube-vip runs on this node.',
    find: (facts) =>
      given([facts.processes], (running) =>
        checkEach(running.filter(isKubeVip), { notHere: 'no kube-vip runs' }, (process) => {
          if (!process.isSurelyHere) return describeElsewhere(process);
          const isReplaced =
            isKeepalivedHere(running) && facts.config.vips.every((vip) => isBalancedHere(vip, facts));
          return {
            title: `kube-vip (pid ${process.pid}) runs on this node`,
            why: 'kube-vip assigns virtual IPs by leases of the API. If keepalived runs too, both can hold the VIP. The load balancer of kube-vip competes with vipnat.',
            remedy: isReplaced ? stop(process, facts) : migrateFirst,
          };
        }),
      ),
  },
};

function listDrift({ tables }: Plan, isMeant: (drift: Drift) => boolean): string[] {
  return tables.flatMap((table) =>
    table.drift.filter(isMeant).map(({ message }) => `${message} (${describeTable(table)})`),
  );
}

function describe([first = '', ...more]: readonly string[]): string {
  return more.length === 0 ? first : `${first}, and ${more.length} more`;
}

/** Whether anything of vipnat is here, of whatever version. */
export function hasOwnRules({ rulesets, nftRulesets }: HostObservation): boolean {
  return (
    rulesets.some(({ tables }) => [...tables.values()].some((table) => [...table.keys()].some(isOwnChain))) ||
    nftRulesets.some(({ table }) => table !== null)
  );
}

/** Whether a process is kube-vip, which holds and balances virtual IPs by itself. */
export function isKubeVip({ name }: HostProcess): boolean {
  return name === 'kube-vip';
}

function findTranslations(ruleset: Ruleset, vip: Endpoint, isBalanced: boolean): Finding[] {
  const { family, dialect, tables, hidesPorts = false } = ruleset;
  const tool = toolName(family, dialect);
  const chains = [...(tables.get('nat') ?? [])].filter(
    ([chain]) => !isOwnChain(chain) && !chain.startsWith('KUBE-'),
  );
  return chains.flatMap(([chain, rules]) =>
    rules
      .filter(
        (text) => text.includes(vip.address) && !isOwnRule(text) && isTranslation(text, vip, hidesPorts),
      )
      .map((text) => ({
        title: `nat ${quoteText(chain)} (${tool}) has a foreign rule for ${formatEndpoint(vip)}`,
        why: 'The first rule gets the connections. A restart of vipnat or of the other software can change the order.',
        remedy: isBalanced
          ? [quoteWords([tool, '-t', 'nat', '-D', chain, ...splitRule(text)])]
          : migrateFirst,
      })),
  );
}

function isTranslation(text: string, { family, address, port }: Endpoint, hidesPorts: boolean): boolean {
  const { options, target } = parseRule(text);
  const destination = options.get('-d') ?? '';
  const isForVip = destination === `${address}/${family === 'ipv6' ? 128 : 32}`;
  const ports = [options.get('--dport'), options.get('--dports')].filter((value) => value !== undefined);
  const isForPort =
    ports.length === 0 ? !hidesPorts : ports.some((value) => value.split(',').includes(String(port)));
  const isElsewhere = !['RETURN', 'ACCEPT', 'MASQUERADE', 'SNAT', 'MARK', 'LOG', null].includes(target);
  return isForVip && isForPort && isElsewhere && !(target ?? '').startsWith('KUBE-');
}

/** Whether a process is an apiserver, by what it is called, also where it is one program with others: k3s and RKE2, microk8s, hyperkube. */
export function isApiserver({ name }: HostProcess): boolean {
  return /^(?:kube-apiserver|k3s-server|k3s|rke2|kubelite|hyperkube|apiserver)$/.test(name);
}

function describeListener(owner: HostProcess, socket: Listener, vip: Endpoint, facts: HostFacts): Finding {
  const asking = findCheck(facts);
  return {
    title: `${quoteText(owner.name)} (pid ${owner.pid}) listens on ${formatEndpoint(socket)}, where connections to ${formatEndpoint(vip)} arrive`,
    why: 'Whenever vipnat does not balance the VIP, this process gets its connections instead of an apiserver.',
    remedy:
      isBalancedHere(vip, facts) && asking === null
        ? stop(owner, facts)
        : [...migrateFirst, ...(asking ?? [])],
  };
}

/** A check of keepalived's that asks whoever is stopped moves the VIP for nothing. */
function findCheck({ keepalived }: HostFacts): string[] | null {
  const { text, path } = findValue(keepalived) ?? { text: '', path: '' };
  if (!/\b(?:vrrp_script|track_script)\b/.test(text ?? '')) return null;
  return [`# first follow its step 2: a vrrp_script of ${quoteText(path)} may check this process`];
}

/** As whoever started it does: systemd, the kubelet from a static pod, or somebody by hand. What may be an apiserver is not ended. */
function stop(process: HostProcess, { assessment, listeners }: HostFacts): string[] {
  const { pid, name, group } = process;
  const unit = findUnit(process);
  if (unit !== null) return [`systemctl disable --now ${unit}`];
  if (group.includes('kubepods')) {
    return [
      '# it runs in a static pod:',
      quoteWords(['mv', `/etc/kubernetes/manifests/${name}.yaml`, '/etc/kubernetes/']),
    ];
  }
  const ports = (findValue(listeners) ?? []).filter((one) => one.pid === pid);
  const health = [...(findValue(assessment)?.health.keys() ?? [])];
  const mayServe = ports.some(({ port }) => health.some((text) => text.endsWith(`:${port}`)));
  return [
    mayServe ? `# if pid ${pid} is not an apiserver, stop it by the program that started it` : `kill ${pid}`,
  ];
}

/** The routes by which this host's own connections to a VIP outlive its move. */
export const localRouteChecks: Checks = {
  'vip-route-left-over': {
    levels: ['warn'],
    meaning: 'A killed agent left its local route of a VIP behind, and the VIP is on another host.',
    /** Reported also while an agent runs: it removes such routes within a moment, so one that is seen stays. */
    find: byReading((seen) => {
      if (seen.localRoutes === null) return { unknown: 'the routes of table local cannot be read' };
      return checkHost(findLocalClientWarnings(seen, false), ({ text, command }) => ({
        title: text,
        why: 'Linux answers ARP for every address with a local route. Other hosts may treat this host as the VIP holder.',
        remedy: command === null ? [] : [command],
      }));
    }),
  },
};
