import { spawnSync } from 'node:child_process';
import { accessSync, constants, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { MachineNeed, Part } from './parts.ts';

/** Why a part does not run here. */
interface Obstacle {
  readonly reason: string;
  /** Whether the machine is at fault: then the part is not run, and that fails nothing. Otherwise CI fails. */
  readonly isMachine: boolean;
}

/** Why a part cannot run on this machine; null when it can. To be asked after scripts/setup. */
export function findObstacle(part: Part): Obstacle | null {
  const lack = (part.machine ?? []).map((need) => findLack(need)).find((reason) => reason !== null);
  if (lack !== undefined) return { reason: lack, isMachine: true };
  const reason = findMissingRight(part) ?? findMissingTool(part);
  return reason === null ? null : { reason, isMachine: false };
}

function findLack(need: MachineNeed): string | null {
  switch (need) {
    case 'go':
      return isInPath('go') ? null : 'its components are built with Go, and no go is in PATH';
    case 'control groups 1':
      return hasMemoryGroup() ? null : 'real nodes need control groups of version 1';
    case 'user-mode Linux':
      return process.arch === 'x64' ? null : `Debian has no user-mode Linux for ${process.arch}`;
  }
}

function hasMemoryGroup(): boolean {
  return /^\d+:(?:[^:]*,)?memory[,:]/m.test(readFileSync('/proc/self/cgroup', 'utf8'));
}

function findMissingRight({ name, usesKernel }: Part): string | null {
  if (usesKernel === true && spawnSync('unshare', ['--net', 'true']).status !== 0)
    return 'only root can make network namespaces';
  const needsRoot = ['vm', 'image', 'nodes', 'release'].includes(name);
  return needsRoot && process.getuid?.() !== 0 ? 'it works on files of root' : null;
}

function findMissingTool({ name, tools = [] }: Part): string | null {
  const needed = name === 'vm' ? [...tools, 'linux.uml'] : tools;
  const missing = needed.find((tool) => !isInPath(tool));
  if (missing === undefined) return null;
  const debianPackage = missing === 'linux.uml' ? 'user-mode-linux' : missing;
  return `${missing} is not in PATH (Debian package ${debianPackage})`;
}

function isInPath(program: string): boolean {
  return (process.env['PATH'] ?? '').split(':').some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
