import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import type { Administrator } from '../install/administrator.ts';
import { findChange } from '../../../support/run/changes.ts';
import { execa } from 'execa';
import { rootFolder } from '../../../../tools/lab/settings/folders.ts';
import { nodes } from '../../../../tools/lab/nodes/hosts.ts';
import { servicesPool, printServices } from '../../../../tools/lab/services/install.ts';
import { prepareBases } from '../../../support/image/build.ts';
import { join } from 'node:path';
import { existsSync, rmSync, mkdirSync } from 'node:fs';
import { runShell } from '../../../../tools/lab/machines/machine.ts';

/** Builds take minutes where no layer is there. */
const buildLimitMs = 20 * 60_000;

/** Ten seconds for a node on an idle machine. */
const importLimitMs = 5 * 60_000;

/** The version of vipnat that landed last, as an image on every node. */
export interface FormerVersion {
  readonly commit: string;
  readonly image: string;
  /** What it prints of itself, as `printServices` does for this version. */
  readonly manifest: string;
}

/** Builds the former version from its sources, once, and imports its image on every node, as an administrator does it. */
export async function importFormerVersion(
  lab: NodeLab,
  administrator: Administrator,
): Promise<FormerVersion> {
  const change = findChange();
  if (change === null) throw new Error('git does not say which version landed last');
  const { stdout: commit } = await execa('git', ['rev-parse', change.since], { cwd: rootFolder });
  const image = `localhost/vipnat-former:${commit.slice(0, 12)}`;
  const archive = await buildArchive(commit, image);
  for (const { name } of nodes) await importImage(lab, name, archive);
  const words = [
    ...['manifest', 'services', '--pool', servicesPool[lab.options.family], '--vip', lab.vip],
    ...['--keepalived-image', await findKeepalivedImage(lab)],
  ];
  const manifest = await administrator.shell(
    `ctr --namespace k8s.io run --rm ${image} former vipnat ${words.join(' ')}`,
  );
  return { commit, image, manifest };
}

/** What this version's manifest has: keepalived is the same in both. */
async function findKeepalivedImage(lab: NodeLab): Promise<string> {
  return / image: (\S*keepalived\S*)/.exec(await printServices(lab))?.[1] ?? '';
}

async function importImage(lab: NodeLab, node: string, archive: string): Promise<void> {
  const script = `snapshotter=$(sed -n 's/^ *snapshotter = "\\(.*\\)"/\\1/p' /etc/containerd/node.toml)
ctr --namespace k8s.io images import --snapshotter "$snapshotter" '${archive}'`;
  const { exitCode, stderr } = await lab.machine(node).run(['sh', '-ec', script], { limitMs: importLimitMs });
  if (exitCode !== 0) throw new Error(`${archive} on ${node}: ${stderr}`);
}

async function buildArchive(commit: string, image: string): Promise<string> {
  const { env, base, builder } = await prepareBases();
  const folder = join(rootFolder, '.cache/image/former');
  const [archive, sources] = [join(folder, `${commit}.tar`), join(folder, 'sources')];
  if (existsSync(archive)) return archive;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(sources, { recursive: true });
  await execa('sh', ['-ec', 'git archive "$0" | tar -x -C "$1"', commit, sources], { cwd: rootFolder });
  const how = ['--tool', 'buildah', '--base', base, '--builder', builder, '--tag', image];
  await execa(join(sources, 'scripts/image'), how, { env, timeout: buildLimitMs });
  await execa('buildah', ['push', image, `docker-archive:${archive}.new:${image}`], { env });
  await execa('mv', [`${archive}.new`, archive]);
  rmSync(sources, { recursive: true });
  return archive;
}

/** Gives an image on every node another name, too. */
export async function tagImage(lab: NodeLab, image: string, name: string): Promise<void> {
  for (const { name: node } of nodes)
    await runShell(lab.machine(node), `ctr --namespace k8s.io images tag --force ${image} ${name}`);
}
