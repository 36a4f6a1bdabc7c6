import type { TypedHost } from '../../../support/doctor/snippets.ts';
import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { join } from 'node:path';
import { runShell, type CommandResult } from '../../../../tools/lab/machines/machine.ts';
import { locateNodeComponents } from '../../../../tools/lab/build/build.ts';
import { vipnatCommand } from '../../../../tools/lab/components/agent.ts';

/** Where an administrator is on a node: in memory, so that nothing is left on a disk. */
const folder = '/run/administrator';

/** For a command, of which kubeadm's take longest. */
const limitMs = 240_000;

/**
 * As root on a master of kubeadm's: vipnat and kubectl are in PATH, and the administrator's kubeconfig is the usual one. A bare
 * node has no vipnat before somebody installs it.
 */
export class Administrator implements TypedHost {
  readonly master: string;
  readonly #lab: NodeLab;

  private constructor(lab: NodeLab, master: string) {
    this.#lab = lab;
    this.master = master;
  }

  /** Goes to a master with files of this machine, by the names that they have there. */
  static async create(
    lab: NodeLab,
    master: string,
    nameToFile: Readonly<Record<string, string>>,
  ): Promise<Administrator> {
    const links = Object.entries(nameToFile).map(
      ([name, file]) => `ln -sfn '${file}' '${join(folder, name)}'`,
    );
    const programs = lab.options.isBare === true ? '' : renderPrograms(lab);
    await runShell(lab.machine(master), [`mkdir -p ${folder}/bin`, ...links, programs].join('\n'));
    return new Administrator(lab, master);
  }

  /** Types a line; nothing is known there of lines before, but the files that they made. Never rejects for a failure. */
  readonly type = async (line: string): Promise<CommandResult> => {
    // ctr of containerd 1.6 takes no snapshotter from containerd's configuration.
    const script = `cd ${folder}
export PATH="${folder}/bin:$PATH" HOME=${folder} KUBECONFIG=/etc/kubernetes/admin.conf
export CONTAINERD_SNAPSHOTTER=$(sed -n 's/^ *snapshotter = "\\(.*\\)"/\\1/p' /etc/containerd/*.toml)
${line}`;
    return await this.#lab.machine(this.master).run(['bash', '-c', script], { limitMs });
  };

  readonly shell = async (script: string): Promise<string> => {
    const { exitCode, stdout, stderr } = await this.type(`set -e\n${script}`);
    if (exitCode !== 0) throw new Error(`on ${this.master}: exit status ${exitCode}: ${stderr}\n${script}`);
    return stdout;
  };

  /** Goes, with all files. */
  readonly leave = async (): Promise<void> => {
    await runShell(this.#lab.machine(this.master), `rm -rf ${folder}`);
  };
}

/** vipnat as this checkout has it, and kubectl. */
function renderPrograms(lab: NodeLab): string {
  const { kubectl } = locateNodeComponents(lab.options.kubernetes);
  return `ln -sfn '${kubectl}' ${folder}/bin/kubectl
printf '#!/bin/sh\\nexec %s "$@"\\n' '${vipnatCommand().join(' ')}' >${folder}/bin/vipnat
chmod 755 ${folder}/bin/vipnat`;
}
