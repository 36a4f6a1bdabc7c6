import { plainScreen, formatError } from '../../../../cli/output.ts';
import { attempt, testTarget } from '../engine/run.ts';
import { makeOddHost, lookAtOddHost } from '../generate/hosts.ts';
import { makeHostileText } from '../engine/hostile.ts';
import { VipnatError } from '../../../../lib/errors.ts';
import { toHostStatus, formatStatusJson } from '../../../../agent/report/status.ts';
import { insistOnPrintable, insist, hasControl } from '../engine/properties.ts';
import { formatStatus } from '../../../../cli/commands/status.ts';
import { splitShellWords } from './shell.ts';
import type { Random } from '../../../support/random/random.ts';
import type { HostFacts } from '../../../../cli/doctor/facts.ts';
import {
  keepalived,
  makeProcess,
  keepalivedText,
  kubeconfig,
  advert,
  makeFacts,
} from '../../../support/doctor/well-host.ts';
import { mutateText } from '../engine/mutate.ts';
import { examine } from '../../../../cli/doctor/examine.ts';
import { formatExamination, formatDoctorJson } from '../../../../cli/commands/doctor.ts';
import { PassThrough } from 'node:stream';
import { createLogger } from '../../../../lib/telemetry/log.ts';
import { toolFailed } from '../../../../lib/kernel/tools.ts';
import { toApiEvent, toNodeRegarding } from '../../../../lib/telemetry/events.ts';
import { createMetrics } from '../../../../lib/telemetry/metrics.ts';

/** A terminal of few columns, without Unicode. */
const narrow = { ...plainScreen, width: 60, isUnicode: false };
const coloured = { ...plainScreen, isColoured: true };

/** Without the three colours that vipnat has for states: whatever else is there came from elsewhere. */
const stripColours = (text: string) => text.replaceAll(/\u001b\[(?:3[123]|39)m/g, '');

testTarget('status shows an odd host without a sequence that a terminal would follow', {
  name: 'status',
  cases: 3000,
  make: (random) => ({ host: makeOddHost(random), words: makeHostileText(random) }),
  check: ({ host, words }) => {
    const assessment = attempt(() => lookAtOddHost(host));
    if (assessment instanceof VipnatError) return;
    const status = toHostStatus(assessment, {
      agent: { version: words, pid: 1, since: words },
      activity: { writes: 1, syncedMsAgo: 1, apiservers: {}, keepalived: {} },
      flows: new Map(),
      keepalived: new Map(),
    });
    insistOnPrintable(formatStatus(status));
    insistOnPrintable(formatStatus(status, narrow));
    insistOnPrintable(stripColours(formatStatus(status, coloured)));
    const json = formatStatusJson(status, words, new Date(0));
    insistOnPrintable(json);
    JSON.parse(json);
  },
});

/** A remedy is comments and commands: words, but for what doctor itself writes. */
function insistOnRemedy(line: string): void {
  if (line.startsWith('#')) return;
  const words = line
    .replace(/crictl stop \$\(crictl ps --name [\w'^$-]+ -q\)$/, 'crictl stop')
    .replace(/ && (?:kill -HUP \d+|systemctl reload [\w@.:-]+|crictl stop)$/, '')
    .replace(/^for step in -F -X; do (ip6?tables-\w+) -t \w+ -S \| sed -n "s[^"]*" \| xargs .*; done$/, '$1')
    .replaceAll(/ && (?=mv |sed )/g, ' ')
    .replace(/^ *\{? /, '')
    .replace(/(?:; false; \};)?(?: \})? (?:&&|\|\|)$/, '')
    .replace('"$(hostname)"', 'm1')
    .replace(/^(ip6?tables(?:-nft|-legacy)?-save) (?:\||>)/, '$1')
    .replaceAll(/ \| (?=grep |ip6?tables|head|wc)/g, ' ')
    .replace(/ > (?=\S|\$?'.*')/, ' ')
    .replaceAll(/ ! /g, " '!' ");
  splitShellWords(words);
}

function makeOddFacts(random: Random, facts: HostFacts): HostFacts {
  const text = () => makeHostileText(random);
  const value = <T>(odd: T) => ({ value: odd });
  return {
    ...facts,
    forwardChains: value(random.list(2, () => ({ table: `inet ${text()}`, name: text(), isDropping: true }))),
    earlyRules: value([
      {
        kind: 'iptables',
        family: 'ipv4',
        dialect: 'nft',
        text: `*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING ${text()} -j NOTRACK\nCOMMIT\n`,
      },
    ]),
    ipvs: value(random.chance(80) ? null : ''),
    sysctls: new Map([...facts.sysctls, [text(), '0'], ['net.ipv4.conf.all.rp_filter', text()]]),
    processes: value([
      random.chance(50) ? keepalived : { ...keepalived, arguments: ['keepalived', '-f', `/etc/${text()}`] },
      makeProcess(random.pick(['haproxy', 'kube-vip', text()]), {
        group: random.pick(['', `/a/${text()}.service`, `/kubepods/${text()}`]),
      }),
      makeProcess('kube-apiserver', {
        pid: 8,
        arguments: ['kube-apiserver', `--shutdown-delay-duration=${text()}`],
      }),
    ]),
    listeners: value([{ family: 'ipv4', address: '0.0.0.0', port: 6443, pid: 20 }]),
    trackFile: value({ content: text(), isWatched: random.chance(50) }),
    keepalived: value({
      path: `/etc/${text()}`,
      text: mutateText(random, [keepalivedText]),
      files: [`/etc/${text()}`],
    }),
    files: new Map([
      ['/etc/hosts', value(`10.77.0.50 ${text()}\n`)],
      [
        '/etc/kubernetes/scheduler.conf',
        kubeconfig(random.pick(['https://10.77.0.50:6443', `https://10.77.0.12:6443${text()}`])),
      ],
    ]),
    adverts: value(
      random.list(2, () => ({
        ...advert,
        source: random.pick(['10.77.0.12', '10.9.9.9']),
        addresses: ['10.9.9.9'],
      })),
    ),
    kubeProxy: { status: 503, ipvs: { excludeCidrs: [text()] } },
    agent: random.chance(50) ? null : { version: text(), pid: 9, since: text() },
    hasMemory: value(random.chance(50)),
    drain: value(
      random.pick([
        null,
        { since: new Date(0), vipStaysSince: null },
        { since: new Date(0), vipStaysSince: new Date(1) },
      ]),
    ),
  };
}

const facts = await makeFacts();

testTarget('doctor’s screen can be read and its remedies pasted, whoever named what is on the host', {
  name: 'doctor',
  cases: 5000,
  make: (random) => makeOddFacts(random, facts),
  check: (odd) => {
    const found = examine(odd);
    insistOnPrintable(formatExamination(found, false));
    insistOnPrintable(formatExamination(found, true, narrow));
    insistOnPrintable(stripColours(formatExamination(found, false, coloured)));
    insistOnPrintable(formatDoctorJson(found, 'm1'));
    for (const line of found.next.flatMap(({ commands }) => commands)) insistOnRemedy(line);
    for (const outcome of found.topics.flatMap(({ outcomes }) => outcomes)) {
      if (outcome.level === 'fail' || outcome.level === 'warn')
        for (const line of outcome.remedy) insistOnRemedy(line);
    }
  },
});

const stream = Object.assign(new PassThrough(), { isTTY: false });
const loggers = await Promise.all(
  (['pretty', 'json'] as const).map((logFormat) => createLogger({ logLevel: 'debug', logFormat }, stream)),
);

testTarget('log lines, errors and events of any words are lines', {
  name: 'log, errors and events',
  cases: 20_000,
  make: (random) => [makeHostileText(random), makeHostileText(random), `m${random.below(9)}`] as const,
  check: ([first, second, node]) => {
    const error = toolFailed({ tool: 'nft', exitCode: 1, stderr: first, input: second });
    insistOnPrintable(formatError(error, { isDebug: true, isJson: false }).text);
    insistOnPrintable(formatError(new TypeError(first), { isDebug: true, isJson: false }).text);
    for (const logger of loggers) logger.info(`${first} is ${second}`, { code: first, details: second });
    insistOnPrintable(String(stream.read() ?? ''));
    const date = new Date(0);
    const { note } = toApiEvent(
      {
        reason: 'ApiserverDead',
        note: `${first}${second}`,
        regarding: toNodeRegarding(node),
        stamp: 1,
        firstSeen: date,
        lastSeen: date,
        count: 1,
      },
      node,
    );
    insist(!hasControl(String(note)), 'a note of one line');
  },
});

const metrics = await createMetrics();

testTarget('metrics have one sample in a line, whatever their labels are', {
  name: 'metrics',
  cases: 1500,
  make: makeHostileText,
  check: async (text) => {
    const samples = [
      { name: 'vipnat_build_info', labels: { version: text, node_version: text }, value: 1 } as const,
    ];
    const lines = (await metrics.print(samples)).split('\n');
    const bad = lines.find(
      (line) =>
        !/^(?:|# (?:HELP|TYPE) .*|\w+(?:\{(?:\w+="(?:[^"\\]|\\[\\n"])*",?)*\})? \S+)$/u.test(
          line.replaceAll(/[\r\u2028\u2029]/g, ''),
        ),
    );
    insist(bad === undefined, `no sample: ${JSON.stringify(bad)}`);
  },
});
