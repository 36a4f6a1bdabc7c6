import { ReleaseError } from '../settings/error.ts';
import { execaSync } from 'execa';

/** What steps start that npm does not bring, and how it is got. */
const programToRemedy = {
  buildah: 'apt-get install buildah',
  go: 'https://go.dev/dl, or apt-get install golang',
} as const;

/** One of them. */
export type Program = keyof typeof programToRemedy;

/** As much of a step as says what it needs. */
interface Needy {
  readonly name: string;
  readonly needs?: readonly Program[];
}

/**
 * Checks what all of these steps need, before the first one runs: the one that needs it may come minutes later.
 * @throws ReleaseError that names every program that is missing, the way to it, and the steps that go without.
 */
export function requirePrograms(
  steps: readonly Needy[],
  isInPath: (program: Program) => boolean = findInPath,
): void {
  const missing = [...new Set(steps.flatMap(({ needs = [] }) => needs))].filter(
    (program) => !isInPath(program),
  );
  if (missing.length === 0) return;
  const isPossible = ({ needs = [] }: Needy) => !needs.some((program) => missing.includes(program));
  const possible = steps.filter(isPossible).map(({ name }) => name);
  const lines = missing.map((program) => {
    const names = steps.filter(({ needs = [] }) => needs.includes(program)).map(({ name }) => name);
    return `${program} is not in PATH. These steps need it: ${names.join(' ')}. To install it: ${programToRemedy[program]}`;
  });
  const rest = possible.length === 0 ? '' : `\nThe other steps: scripts/release ${possible.join(' ')}`;
  throw new ReleaseError(`${lines.join('\n')}${rest}`);
}

function findInPath(program: Program): boolean {
  return execaSync('sh', ['-c', 'command -v "$0"', program], { reject: false }).exitCode === 0;
}
