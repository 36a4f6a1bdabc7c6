import { LabError } from '../../lab/settings/error.ts';
import { etcdModule } from '../../lab/build/module.ts';
import { execaSync } from 'execa';

/**
 * No lab needs HAProxy but those of benches.
 * @throws LabError that says how to install it, or the other way out.
 */
export function requireHaproxy(otherwise = ''): void {
  if (firstLine('haproxy', '-v') !== '') return;
  throw new LabError(`not found: haproxy. Install: apt-get install haproxy${otherwise}`);
}

/** The versions of what takes part, by name. */
export function listVersions(kubernetes: string): [string, string][] {
  const programs = [
    ['keepalived', 'keepalived', '--version'],
    ['HAProxy', 'haproxy', '-v'],
    ['iptables', 'iptables-nft', '--version'],
  ] as const;
  return [
    ['Kubernetes', kubernetes],
    ['etcd', etcdModule.version.slice(1)],
    ...programs.map(([name, program, option]): [string, string] => [
      name,
      /\d+\.\d+(\.\d+)?/.exec(firstLine(program, option))?.[0] ?? 'not installed',
    ]),
    ['Node.js', process.versions.node],
  ];
}

/** Of standard output and error; nothing when the program is not there. */
function firstLine(program: string, option: string): string {
  const { all, exitCode } = execaSync(program, [option], { reject: false, all: true });
  return exitCode === undefined ? '' : (all.split('\n', 1)[0] ?? '');
}
