import { execFileSync } from 'node:child_process';

/** Tests outside of the gate that run with it when a change touches what only they prove. */
export interface Addition {
  /** Paths of the checkout that begin so. */
  readonly paths: readonly string[];
  readonly part: string;
  /** Its files, as a pattern of Jest. */
  readonly files: string;
  /** How long they take here, with what they wait for, in seconds. */
  readonly seconds: number;
}

/** In the order of what they find. The first that fit into the time run; the others are named. */
// prettier-ignore
export const additions: readonly Addition[] = [
  { paths: ['balancer/', 'lib/api/'], part: 'netns', files: 'netns/services-(handover|seen|pages)\\.full', seconds: 90 },
  { paths: ['agent/', 'lib/kernel/', 'lib/iptables/', 'lib/nft/'], part: 'netns', files: 'netns/(open-connections|departed)\\.full', seconds: 100 },
  { paths: ['manifests/', 'cli/manifest/', 'controller/', 'lib/kubernetes/'], part: 'control-plane', files: 'control-plane/(chart|services)\\.test', seconds: 240 },
  { paths: ['lib/kube-proxy/', 'tools/lab/build/'], part: 'control-plane', files: 'control-plane/nftables\\.test', seconds: 240 },
  { paths: ['cli/doctor/', 'docs/quickstart.md'], part: 'netns', files: 'netns/(newcomer|unseen-files|quickstart)\\.full', seconds: 120 },
  { paths: ['lib/keepalived/'], part: 'netns', files: 'netns/foreign-keepalived\\.full', seconds: 60 },
  { paths: ['docs/', 'CONTRIBUTING.md', '.github/', 'scripts/', 'package'], part: 'repository', files: 'repository/(contributing|sbom|workflows)', seconds: 90 },
  { paths: ['test/support/chaos/'], part: 'chaos', files: 'chaos/mutations', seconds: 90 },
  { paths: ['tools/release/'], part: 'release', files: 'release/(npm|executable)', seconds: 240 },
  { paths: ['Dockerfile'], part: 'image', files: 'image/image', seconds: 300 },
];

/** All that additions may take together, in seconds. */
export const budgetSeconds = 600;

/** What a change adds to the gate, and what it would have added in more time. */
interface AddedTests {
  readonly chosen: readonly Addition[];
  readonly leftOut: readonly Addition[];
}

/** Chooses additions by the changed paths, until their time is used. */
export function chooseAdditions(changed: readonly string[]): AddedTests {
  const wanted = additions.filter(({ paths }) =>
    changed.some((path) => paths.some((beginning) => path.startsWith(beginning))),
  );
  let left = budgetSeconds;
  const chosen: Addition[] = [];
  for (const addition of wanted) {
    if (addition.seconds > left) continue;
    left -= addition.seconds;
    chosen.push(addition);
  }
  return { chosen, leftOut: wanted.filter((addition) => !chosen.includes(addition)) };
}

/** Paths that changed since a commit, also uncommitted ones. */
export interface Change {
  readonly since: string;
  readonly paths: readonly string[];
}

/** A change lands as the work of a few hours; older commits landed before. */
const workSeconds = 4 * 3600;

/**
 * Finds what changed since the last landed commit: TEST_BASE, else where this branch left origin/main, else the newest commit that is four
 * hours older than this one. Null where git cannot say.
 */
export function findChange(): Change | null {
  try {
    const since = process.env['TEST_BASE'] ?? findForkPoint() ?? findOlderCommit();
    const committed = git('diff', '--name-only', since);
    const added = git('ls-files', '--others', '--exclude-standard');
    return { since, paths: [...committed, ...added] };
  } catch {
    return null;
  }
}

function findForkPoint(): string | null {
  try {
    const [base = ''] = git('merge-base', 'HEAD', 'origin/main');
    const [head = ''] = git('rev-parse', 'HEAD');
    return base === head ? null : base;
  } catch {
    return null;
  }
}

/** The oldest commit there is where the history is younger. */
function findOlderCommit(): string {
  const commits = git('log', '--format=%H %ct').map((line) => line.split(' '));
  const newest = Number(commits[0]?.[1]);
  const [found] =
    commits.find(([, seconds]) => newest - Number(seconds) >= workSeconds) ?? commits.at(-1) ?? [];
  return found ?? 'HEAD';
}

function git(...words: readonly string[]): string[] {
  const text = execFileSync('git', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  return text.split('\n').filter((line) => line !== '');
}
