import type { Stage } from './stage.ts';

const saves = ['iptables-nft-save', 'ip6tables-nft-save', 'iptables-legacy-save', 'ip6tables-legacy-save'];

/** Every table of every backend and family on each host, as the tools print it, without counters and dates. */
export async function readAllRules(stage: Stage, hosts: readonly string[]): Promise<Map<string, string>> {
  const script = saves.map((save) => `echo "${save}:"; ${save}`).join('\n');
  const texts = await Promise.all(
    hosts.map(async (host) => {
      const { stdout } = await stage.run(host, ['sh', '-ec', script]);
      return [host, normalise(stdout)] as const;
    }),
  );
  return new Map(texts);
}

/** The first host whose rules differ, with the lines that came and went; null when all are the same. */
export function findDifference(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): string | null {
  for (const [host, text] of before) {
    const now = after.get(host) ?? '';
    if (now !== text) return `${host}:\n${listDifferences(text, now).join('\n')}`;
  }
  return null;
}

function normalise(text: string): string {
  return text.replaceAll(/^#.*\n/gm, '').replaceAll(/\[\d+:\d+\]$/gm, '[0:0]');
}

function listDifferences(before: string, after: string): string[] {
  const [left, right] = [before.split('\n'), after.split('\n')];
  const gone = left.filter((line) => !right.includes(line)).map((line) => `- ${line}`);
  const added = right.filter((line) => !left.includes(line)).map((line) => `+ ${line}`);
  return gone.length + added.length === 0 ? ['the same rules in another order'] : [...gone, ...added];
}
