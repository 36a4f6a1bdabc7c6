import type { Transaction, KernelReading } from '../../../../lib/kernel/port.ts';
import { insist, insistOnPrintable } from '../engine/properties.ts';
import { test, expect } from '@jest/globals';
import { attempt, attemptLater, testTarget } from '../engine/run.ts';
import { makeOddHost, lookAtOddHost } from '../generate/hosts.ts';
import { VipnatError } from '../../../../lib/errors.ts';
import { formatCommands, formatNft } from '../../../../cli/screens/plan.ts';
import { splitShellWords } from './shell.ts';
import { formatJson } from '../../../../cli/commands/plan.ts';
import { makeHostileText, edgeNumbers, addressTexts } from '../engine/hostile.ts';
import { listReferred } from '../../../../lib/kernel/nftables.ts';
import { readFlags } from '../../../../cli/command.ts';
import { keepalivedFlags, planVrrp, renderKeepalived } from '../../../../cli/keepalived.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { findInstance, findWire } from '../../../../lib/keepalived/read.ts';
import { findNamedFile } from '../../../../lib/keepalived/configuration.ts';
import { isDeepStrictEqual } from 'node:util';
import { mutateText } from '../engine/mutate.ts';
import { expandConfiguration } from '../../../../lib/keepalived/configuration.ts';
import { parseNotice } from '../../../../lib/keepalived/write.ts';
import { readWords, print } from '../../../support/manifest/printing.ts';
import { parseAllDocuments } from 'yaml';
import { parseNftTable } from '../../../../lib/nft/table.ts';

/** What a line of a script may consist of: nothing that a tool's language has for more than one word or command. */
const address = String.raw`(?:\d{1,3}(?:\.\d{1,3}){3}|[\da-f:.]+)`;
const endpoint = String.raw`(?:\d{1,3}(?:\.\d{1,3}){3}|\[[\da-f:.]+\]):\d{1,5}`;
const vipChain = String.raw`VIPNAT-[\da-f]{10}`;
const ownChain = String.raw`VIPNAT(?:-[!-~]*)?`;
const comment = String.raw`-m comment --comment "vipnat:[\w-]{16}"`;
const recent = String.raw`-m recent (?:--update --seconds \d{1,5} --reap|--set) --name ${vipChain}-[\da-f]{8} --mask [\d.f:]+ --rsource `;
const chance = String.raw`-m statistic --mode random --probability 0\.\d{10} `;

const iptablesLines: readonly RegExp[] = [
  String.raw`\*(?:nat|filter)`,
  'COMMIT',
  String.raw`:${ownChain} - \[0:0\]`,
  `-X ${ownChain}`,
  `-I (?:PREROUTING|INPUT|OUTPUT|POSTROUTING|FORWARD) ${comment} -j VIPNAT(?:-POSTROUTING|-FORWARD|-INPUT)?`,
  String.raw`-A VIPNAT -d ${address}/(?:32|128) -p tcp ${comment} -m tcp --dport \d{1,5} --tcp-flags FIN,SYN,RST,ACK SYN -j ${vipChain}`,
  String.raw`-A VIPNAT-(?:POSTROUTING|FORWARD) -p tcp ${comment} -m conntrack --ctstate DNAT --ctorigdst ${address} --ctorigdstport \d{1,5} -j (?:MASQUERADE --random-fully|ACCEPT)`,
  String.raw`-A VIPNAT-INPUT -s ${address}/(?:32|128) ! -i lo -p tcp ${comment} -m tcp --sport \d{1,5} -m conntrack --ctstate INVALID -j DROP`,
  `-A ${vipChain} ${comment} -j (?:KUBE-SVC-NPX46M4PTMTKRN6Y|KUBE-MARK-MASQ)`,
  `-A ${vipChain} -p tcp ${comment} (?:${chance})?(?:${recent})?-m tcp -j DNAT --to-destination ${endpoint}`,
].map((source) => new RegExp(`^${source}$`));

const table = String.raw`ip6? vipnat`;
const name = String.raw`[A-Za-z_][\w/.-]*`;
const sign = String.raw` comment "vipnat:[\w-]{16}"`;
const nftLines: readonly RegExp[] = [
  `(?:add|delete) table ${table}`,
  `(?:flush|delete) chain ${table} ${name}`,
  `delete set ${table} ${name}`,
  `add chain ${table} ${vipChain}`,
  String.raw`add chain ${table} (?:prerouting|input|output|postrouting|forward) \{ type (?:nat|filter) hook \w+ priority -?\d+; policy accept; \}`,
  String.raw`add set ${table} ${vipChain}-[\da-f]{8} \{ type ipv[46]_addr; size 65535; flags dynamic,timeout; timeout \d{1,5}s; \}`,
  String.raw`add rule ${table} (?:prerouting|output) ip6? daddr ${address} tcp dport \d{1,5} tcp flags & \(fin \| syn \| rst \| ack\) == syn jump ${vipChain}${sign}`,
  String.raw`add rule ${table} (?:postrouting|forward) meta l4proto tcp ct status dnat ct original ip6? daddr ${address} ct original proto-dst \d{1,5} (?:masquerade fully-random|accept)${sign}`,
  String.raw`add rule ${table} input ip6? saddr ${address} iifname != "lo" tcp sport \d{1,5} ct state invalid drop${sign}`,
  String.raw`add rule ${table} ${vipChain} meta l4proto tcp (?:numgen random mod \d{1,3} 0 )?(?:ip6? saddr @${vipChain}-[\da-f]{8} )?(?:update @${vipChain}-[\da-f]{8} \{ ip6? saddr \} )?dnat ip6? to ${endpoint}${sign}`,
].map((source) => new RegExp(`^${source}$`));

/**
 * That each line of each script is one of a strict grammar. What is deleted by value is, to the letter, a line that was
 * read: its words are the tool's own.
 */
function insistOnScripts(transactions: readonly Transaction[], { iptables }: KernelReading): void {
  for (const { dialect, family, input } of transactions) {
    const seen = iptables
      .filter((one) => one.family === family && one.dialect === dialect)
      .map(({ text }) => `\n${text}`);
    const isSeen = (line: string) => seen.some((text) => text.includes(`-A ${line.slice('-D '.length)}\n`));
    const lines = input.split('\n');
    insist(lines.pop() === '', 'a script ends with a line end');
    const isGood = (line: string) =>
      dialect === 'nftables'
        ? nftLines.some((pattern) => pattern.test(line))
        : iptablesLines.some((pattern) => pattern.test(line)) || (line.startsWith('-D ') && isSeen(line));
    const bad = lines.find((line) => !isGood(line));
    insist(bad === undefined, `a line of no grammar (${dialect}): ${JSON.stringify(bad)}`);
  }
}

testTarget('scripts for iptables and nft, whatever is on the host, consist of lines of a strict grammar', {
  name: 'scripts of odd hosts',
  cases: 8000,
  make: makeOddHost,
  check: (host) => {
    const assessment = attempt(() => lookAtOddHost(host));
    if (assessment instanceof VipnatError) return;
    insistOnScripts(assessment.plan.transactions, host.reading);
    const commands = formatCommands(assessment, 'master-1');
    insistOnPrintable(commands);
    const each = commands.split(/\n| 2>\/dev\/null \|\| /);
    for (const line of each.filter((one) => one !== '' && !one.startsWith('#'))) {
      const [tool = ''] = splitShellWords(line.replaceAll(/ ! /g, " '!' "));
      insist(/^(?:ip6?tables-(?:nft|legacy)|nft|sysctl)$/.test(tool), `no tool of ours: ${line}`);
    }
    insistOnPrintable(formatJson(assessment, 'master-1'));
    const nft = attempt(() => formatNft(assessment.decisions, host.config));
    if (typeof nft === 'string') insistOnPrintable(nft);
  },
});

testTarget('names for nft are words of a strict grammar', {
  name: 'arguments of tools',
  cases: 40_000,
  make: (random) => [
    {
      rule: {
        expr: [
          { goto: { target: `endpoint-${makeHostileText(random)}` } },
          { match: `@affinity-${makeHostileText(random)}` },
        ],
      },
    },
  ],
  check: (rules) => {
    const { chains, sets } = listReferred(rules);
    insist(
      [...chains, ...sets].every((name) => /^[\w/.-]+$/.test(name)),
      'names for nft',
    );
  },
});

const words = ['eth0', '10.77.0.11,10.77.0.12', '51', '110', '300ms', '1s', '/run/vipnat', 'm1'];

testTarget(
  'keepalived.conf has no word that its options or this host could put a line into, and reads as it was meant',
  {
    name: 'keepalived.conf, rendered',
    cases: 10_000,
    make: (random) => {
      const word = () =>
        random.chance(70)
          ? random.pick(words)
          : random.pick([makeHostileText(random), random.pick(edgeNumbers)]);
      const some = (make: () => string) => (random.chance(40) ? [make()] : undefined);
      return {
        words: {
          interface: random.chance(30) ? random.pick(['eth0', makeHostileText(random)]) : undefined,
          peers: some(() => random.pick(['10.77.0.11,10.77.0.12', '10.77.0.12 10.77.0.13', word()])),
          vrid: some(() => random.pick(['51', word()])),
          priority: random.chance(30) ? random.pick(['110', word()]) : undefined,
          advert: random.chance(30) ? random.pick(['300ms', '1s', word()]) : undefined,
        },
        runDir: random.chance(80) ? '/run/vipnat' : `/run/${makeHostileText(random)}`,
        hostname: random.chance(50) ? 'master-1' : makeHostileText(random),
        device: random.chance(80) ? 'eth0' : makeHostileText(random),
      };
    },
    check: ({ words: given, runDir, hostname, device }) => {
      const { options, problems } = readFlags(keepalivedFlags, given);
      for (const problem of problems) insistOnPrintable(new VipnatError('CONFIG_INVALID', problem).message);
      const config = {
        vips: [toEndpoint('10.77.0.50:6443')],
        endpoints: [toEndpoint('10.77.0.12:6443')],
        runDir,
      };
      const interfaces = [{ family: 'ipv4', address: '10.77.0.11', device, prefixLength: 24 } as const];
      const vrrp = attempt(() => planVrrp({ config, options, hostname, interfaces }));
      if (vrrp instanceof VipnatError) return;
      const text = renderKeepalived(vrrp);
      const bad = text
        .split('\n')
        .find(
          (line) =>
            !/^(?:# [ -~]*|[\w ./:@+{}"-]*)$/.test(line) ||
            /["{}].*[^{}"]["{}]./.test(line.replace(/^ {2}file "[^"]*"$/, '')),
        );
      insist(bad === undefined, `a line of no grammar: ${JSON.stringify(bad)}`);
      const [instance] = vrrp.instances;
      const found = findInstance(text, '10.77.0.50');
      insist(found?.vrid === instance?.vrid && found?.priority === vrrp.priority, 'read otherwise');
      const { masters, advertSeconds } = findWire(text);
      insist(advertSeconds === vrrp.advertMs / 1000, 'another time than rendered');
      const unicast = instance?.unicast ?? null;
      insist(isDeepStrictEqual(masters, unicast === null ? [] : [unicast.source, ...unicast.peers]), 'peers');
    },
  },
);

const configurations = [
  'vrrp_instance vip-10.77.0.50 {\n  virtual_router_id 51\n  priority 110\n  advert_int 0.3\n  unicast_src_ip 10.77.0.11\n  unicast_peer {\n    10.77.0.12\n  }\n  virtual_ipaddress {\n    10.77.0.50/32\n  }\n}\n',
  'include conf.d/*\n@m1 priority 3\n@^m2 $A=b{c\n$A\n${A}}\n$B= \\\n${A} \\\n$B\n$B\n"#" \\#\n',
  'INSTANCE "vip-10.77.0.50" MASTER 110\nINSTANCE "vip-10.77.0.50" FAULT 110\nGROUP "vipnat" STOP 0\n',
];

testTarget('any keepalived.conf, line of its pipe and command line is read without failing', {
  name: 'keepalived.conf and notices',
  cases: 60_000,
  make: (random) =>
    mutateText(random, [...configurations, `x --use-file=/etc/${random.pick(addressTexts)} -f /tmp/a`]),
  check: (text) => {
    expandConfiguration(text, 'm1');
    const found = findInstance(text, '10.77.0.50');
    insist(found === null || (Number.isFinite(found.vrid) && !Number.isNaN(found.priority ?? 0)), 'numbers');
    const { masters, advertSeconds } = findWire(text);
    insist(masters.every((one) => text.includes(one)) && !Number.isNaN(advertSeconds ?? 0), 'peers, time');
    insist(findNamedFile(text.split(/\s/), '/')?.startsWith('/') !== false, 'a whole path');
    for (const line of text.split('\n')) {
      const notice = parseNotice(line);
      insist(notice === null || line.includes(notice.instance), 'an instance that was named');
    }
  },
});

testTarget('manifests are YAML of the same objects, whatever the options say', {
  name: 'manifests',
  cases: 200,
  make: (random) => [
    random.pick(['daemonset', 'static-pod']),
    '--vip=10.0.0.50',
    '--image=vipnat:0.1.0',
    ...random.list(
      3,
      () =>
        `--${random.pick(['state-dir', 'run-dir', 'kubeconfig', 'ca-file', 'node-name', 'image', 'namespace'])}=${random.pick(['', '/a/', '/etc/x'])}${makeHostileText(random)}`,
    ),
  ],
  check: async (given) => {
    const read = await attemptLater(() => readWords(given));
    if (read instanceof VipnatError || read.problems.length > 0) return;
    const text = await print(given);
    insistOnPrintable(text);
    for (const document of parseAllDocuments(text, { version: '1.1' })) {
      insist(document.errors.length === 0, `no YAML: ${String(document.errors[0])}`);
      const { kind, apiVersion } = document.toJS() as { kind?: unknown; apiVersion?: unknown };
      insist(
        /^(?:Pod|DaemonSet|ServiceAccount|ClusterRole|ClusterRoleBinding|Role|RoleBinding|Namespace|Service)$/.test(
          String(kind),
        ),
        `a strange object: ${String(kind)}`,
      );
      insist(/^[a-z0-9./]+$/.test(String(apiVersion)), 'an API');
    }
  },
});

test('the grammar of scripts itself refuses a second command', () => {
  const reading = { iptables: [] } as unknown as Parameters<typeof insistOnScripts>[1];
  const scripts = [
    { dialect: 'nftables', input: 'flush chain ip vipnat a; flush ruleset\n' },
    { dialect: 'nft', input: '*nat\n-A VIPNAT -j ACCEPT\nCOMMIT\n' },
    { dialect: 'nft', input: '*nat\n-D OUTPUT -j ACCEPT\nCOMMIT\n' },
  ] as const;
  for (const script of scripts)
    expect(() => {
      insistOnScripts([{ family: 'ipv4', ...script }], reading);
    }).toThrow('no grammar');
  expect(() => splitShellWords('iptables $(id)')).toThrow('more than words');
  expect(parseNftTable({ family: 'ipv4', text: '' }).table).toBeNull();
});
