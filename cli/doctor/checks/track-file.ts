import { dirname } from 'node:path';
import { followsFile, keepalivedName } from '../../../lib/keepalived/find.ts';
import { type HostProcess } from '../../../lib/kernel/host/processes.ts';
import { quoteWords } from '../../../lib/text/shell-words.ts';
import { locateServingFile } from '../../../lib/keepalived/serving-file.ts';
import { makeAtBoot } from '../remedies/keepalived-remedies.ts';
import { type Check } from '../facts/check.ts';
import { type Finding, given, lookAtHost, type NotChecked } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';

/** Whether keepalived hears what the agent says, and hears nothing that nobody stands for any more. */
export const trackFileChecks: readonly Check[] = [
  {
    code: 'track-file-dropped',
    levels: ['warn'],
    meaning:
      'keepalived is configured to follow the track file, but ignores it. The folder did not exist when keepalived started.',
    find: findDropped,
  },
  {
    code: 'track-file-stale',
    levels: ['fail'],
    meaning: 'The track file says that this node cannot serve, and no agent runs that could reset it.',
    find: findStale,
  },
];

function findDropped(facts: HostFacts): ReturnType<Check['find']> {
  return given([facts.processes, facts.keepalived, facts.trackFile], (running, { text }, { isWatched }) => {
    const file = locateServingFile(facts.config.runDir);
    if (isWatched === null || !isFollowed(facts, text)) return notFollowed(file);
    return lookAtHost(() => (isWatched ? [] : [describeDropped(facts, running, file)]));
  });
}

/** A reload keeps the VIP, as long as the file does not tell it to go. */
function describeDropped(
  { agent, config }: HostFacts,
  running: readonly HostProcess[],
  file: string,
): Finding {
  return {
    level: 'warn',
    title: `keepalived ignores ${file}, although its configuration names that file`,
    why: 'The folder did not exist when keepalived started, or was created again since. The VIP stays on this node even if the agent reports that this node cannot serve.',
    remedy: [
      quoteWords(['mkdir', '-p', dirname(file)]),
      ...(agent === null ? [reset(file)] : []),
      ...reload(running),
      ...makeAtBoot(config.runDir),
    ],
  };
}

/** systemd knows the process by its unit; where there is none, as in a pod, a signal does the same. */
function reload(running: readonly HostProcess[]): string[] {
  const [first] = running.filter(({ name }) => name === keepalivedName).sort((a, b) => a.pid - b.pid);
  if (first === undefined) return [];
  const [, unit] = /\/system\.slice\/([\w@.-]+\.service)$/.exec(first.group) ?? [];
  return [unit === undefined ? `kill -HUP ${first.pid}` : quoteWords(['systemctl', 'reload', unit])];
}

function reset(file: string): string {
  return `echo 0 > ${quoteWords([file])}`;
}

/** See docs/adr/0018-a-dead-agents-word.md. */
function findStale(facts: HostFacts): ReturnType<Check['find']> {
  return given([facts.keepalived, facts.trackFile], ({ text }, { says, isWatched }) => {
    const file = locateServingFile(facts.config.runDir);
    if (isWatched === null || !isFollowed(facts, text)) return notFollowed(file);
    return lookAtHost(() => {
      if (facts.agent !== null || says === null || Number(says) === 0) return [];
      return [
        {
          level: 'fail',
          title: `${file} says ${says.slice(0, 8)}, and no agent runs that could reset the file`,
          why: 'keepalived does not take the VIP on this node, even if all other masters fail.',
          remedy: [reset(file)],
        },
      ];
    });
  });
}

function isFollowed({ config }: HostFacts, text: string | null): boolean {
  const file = locateServingFile(config.runDir);
  return text !== null && config.vips.some(({ address }) => followsFile(text, address, file) === true);
}

function notFollowed(file: string): NotChecked {
  return { unknown: `no keepalived is configured here to follow ${file}` };
}
