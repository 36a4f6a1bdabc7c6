import { dirname } from 'node:path';
import { followsFile, keepalivedName } from '../../../lib/keepalived/find.ts';
import { type HostProcess } from '../../../lib/kernel/host/processes.ts';
import { quoteWords } from '../../../lib/text/shell-words.ts';
import { locateServingFile } from '../../../agent/keepalived/serving-file.ts';
import { makeAtBoot } from '../remedies/keepalived-remedies.ts';
import { type Check } from '../facts/check.ts';
import { type Finding, given, lookAtHost, type NotChecked } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';

/** Whether keepalived hears what the agent says, and hears nothing that nobody stands for any more. */
export const trackFileChecks: readonly Check[] = [
  { code: 'track-file-dropped', find: findDropped },
  { code: 'track-file-stale', find: findStale },
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
    title: `keepalived does without ${file}, which its configuration names`,
    why: 'Its folder was not there when keepalived started, or was made anew since. The VIP stays on this node when the agent finds that it can serve neither balanced nor by itself.',
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
          title: `${file} says ${says.slice(0, 8)}, and no agent runs that could take it back`,
          why: 'keepalived does not take the VIP here, whatever becomes of the other masters.',
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
  return { unknown: `no keepalived runs here that is to follow ${file}` };
}
