import { fileURLToPath } from 'node:url';
import type { NodeLab } from './node-lab.ts';
import { outsider } from '../../../test/support/network/layout.ts';
import { toUrlHost } from '../components/command.ts';
import { join } from 'node:path';
import { registriesFolder } from './disk.ts';
import { runShell } from '../machines/machine.ts';
import { prepareBases } from '../../../test/support/image/build.ts';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { build } from './images.ts';
import { execa } from 'execa';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { LabError } from '../settings/error.ts';

const port = 5000;

const program = fileURLToPath(new URL('registry-program.ts', import.meta.url));

/** An image that Debian's packages make. */
export interface ServedImage {
  /** With registry and tag. */
  readonly name: string;
  readonly packages: readonly string[];
  readonly command: readonly string[];
}

/**
 * Serves an image to workers of a lab as the only one of docker.io. Answers how to end that. The image is built once.
 * @throws LabError if the registry does not start
 */
export async function serveDockerImage(
  lab: NodeLab,
  image: ServedImage,
  workers: readonly string[],
): Promise<() => Promise<void>> {
  const layout = await exportImage(lab, image);
  const server = lab.machine(outsider.name).spawn([process.execPath, program, layout, String(port)]);
  await waitForStart(server);
  const url = `http://${toUrlHost(outsider.addresses[lab.options.family])}:${port}`;
  const hosts = `server = "${url}"\n[host."${url}"]\n  capabilities = ["pull", "resolve"]\n`;
  const folder = join(registriesFolder, 'docker.io');
  for (const worker of workers)
    await runShell(lab.machine(worker), `mkdir -p ${folder}\ncat >${folder}/hosts.toml <<'END'\n${hosts}END`);
  return async () => {
    server.stdin?.end();
    for (const worker of workers) await runShell(lab.machine(worker), `rm -r ${folder}`);
  };
}

/** Its layout, in the lab's folder. */
async function exportImage(lab: NodeLab, image: ServedImage): Promise<string> {
  const { base, env } = await prepareBases();
  const empty = join(lab.folder, 'registry-empty');
  const layout = join(lab.folder, 'registry');
  mkdirSync(empty, { recursive: true });
  rmSync(layout, { recursive: true, force: true });
  writeFileSync(join(empty, '.keep'), '');
  await build(image.name, empty, renderFile(base, image), env);
  await execa('buildah', ['push', image.name, `oci:${layout}:latest`], { env });
  return layout;
}

function renderFile(base: string, { packages, command }: ServedImage): string {
  return `FROM ${base}
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${packages.join(' ')} \\
 && rm -rf /var/lib/apt/lists/*
CMD ${JSON.stringify(command)}
`;
}

async function waitForStart(server: ChildProcess): Promise<void> {
  const ended = once(server, 'exit').then(([code]) => {
    throw new LabError(`the registry ended with ${String(code)}`);
  });
  const started = once(server.stdout as NonNullable<ChildProcess['stdout']>, 'data');
  await Promise.race([started, ended]);
  ended.catch(() => undefined);
}
