import {
  type ManifestKind,
  manifestFlags,
  findManifestProblems,
  type ManifestOptions,
  ownImages,
} from '../manifest/request.ts';
import { type Words, defineCommand, type CommandContext, manifestKinds } from '../command.ts';
import { type OptionName, optionNames } from '../../config/options.ts';
import { findNearest, exitStatuses, quoteText } from '../../lib/text.ts';

/** The first word is the kind. */
const words: Words<{ readonly kind: ManifestKind }> = {
  choices: manifestKinds,
  read: ([word], { isUnclear, report }) => {
    const kind = manifestKinds.find((candidate) => candidate === word);
    if (kind === undefined && !isUnclear) report(explainKind(word));
    return { kind: kind ?? manifestKinds[0] };
  },
};

const kinds = new Map<ManifestKind, readonly OptionName[]>([
  ['daemonset', optionNames.filter((name) => name !== 'nodeName')],
  ['static-pod', optionNames],
  ['keepalived', ['vip', 'endpoints', 'runDir']],
  ['systemd', optionNames],
  ['services', ['vip', 'runDir', 'listen', 'logLevel', 'logFormat']],
]);

/** `vipnat manifest`. */
export const manifest = defineCommand({
  addition: `KIND is one of ${manifestKinds.join(', ')}`,
  usage: 'KIND [options]',
  help: `
Examples:
  vipnat manifest daemonset --vip 10.0.0.50 | kubectl apply -f -
  vipnat manifest static-pod --vip 10.0.0.50 > vipnat.yaml
  vipnat manifest keepalived --vip 10.0.0.50 --peers 10.0.0.11,10.0.0.12
  vipnat manifest systemd --vip 10.0.0.50 --directory /
  vipnat manifest services --pool 10.0.9.10-10.0.9.99 | kubectl apply -f -

See vipnat help manifest KIND for all options of a kind. Options of the configuration
become arguments of the agent. Paths in them are paths on the nodes. static-pod always
has least privilege. keepalived is a static pod too. systemd prints a unit, a file of
tmpfiles.d and a drop-in for keepalived's unit. vipnat never replaces a file of other
software.
Exit status: 0 printed or written, 1 failed, 78 bad configuration.`,
  flags: manifestFlags,
  words,
  configOptions: ['vip'],
  kinds,
  isForElsewhere: true,
  check: ({ options, config, unread, noVip, unfitVips }) => [
    ...(options.kind === 'services' ? [] : [...noVip(), ...unfitVips()]),
    ...findManifestProblems(options, config, unread),
  ],
  run: printManifests,
});

function explainKind(word: string | undefined): string {
  const example = findNearest(word ?? '', manifestKinds) ?? manifestKinds[0];
  const what = word === undefined ? 'manifest needs a kind:' : `${quoteText(word)} is none of`;
  return `${what} ${manifestKinds.join(', ')}. Example: vipnat manifest ${example} --vip 10.0.0.50`;
}

async function printManifests(context: CommandContext<ManifestOptions>): Promise<number> {
  const { options, stdout, stderr } = context;
  // Help and mistakes load this file, too.
  const { printManifest, toSystemdFiles, writeHostFiles } = await import('../manifest/agent.ts');
  const request = { ...context, ownImages };
  if (options.directory === null) {
    stdout(printManifest(request));
    return exitStatuses.done;
  }
  for (const path of await writeHostFiles(toSystemdFiles(request), options.directory)) stdout(`${path}\n`);
  stderr(`Next, on the host:\n${nextSteps.map((line) => `  ${line}\n`).join('')}`);
  return exitStatuses.done;
}

/** A reload keeps the VIP where it is. */
const nextSteps = [
  'systemctl daemon-reload',
  'systemd-tmpfiles --create vipnat.conf',
  'systemctl enable --now vipnat',
  'systemctl restart vipnat   # if it ran before: this applies the new options',
  'systemctl reload keepalived   # if it runs: it then follows the agent',
];
