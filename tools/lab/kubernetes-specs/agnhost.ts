import { locateSpecComponents } from '../build/build.ts';
import { prepareBases } from '../../../test/support/image/build.ts';
import { build } from '../nodes/images.ts';
import { dirname, join } from 'node:path';
import type { NodeLab } from '../nodes/node-lab.ts';
import { execa } from 'execa';

/** What the specs run in pods of this image beside agnhost itself. Upstream's image is an Alpine. */
const packages = ['bind9-dnsutils', 'curl', 'iproute2', 'netcat-openbsd', 'wget'];

/** The image that the specs' pods have, built under the name by which they ask for it. Answers the name. */
export async function buildAgnhostImage(release: string): Promise<string> {
  const { agnhost } = locateSpecComponents(release);
  const name = await findName(release);
  const { base, env } = await prepareBases();
  await build(name, dirname(agnhost), renderFile(base), env);
  return name;
}

/** Gives running nodes an image that was built here: a kubelet then asks no registry. */
export async function importImage(lab: NodeLab, nodes: readonly string[], image: string): Promise<void> {
  const archive = join(lab.folder, 'agnhost.tar');
  const { env } = await prepareBases();
  await execa('buildah', ['push', image, `docker-archive:${archive}:${image}`], { env });
  const words = ['ctr', '--namespace', 'k8s.io', 'images', 'import', archive];
  for (const node of nodes) {
    const { exitCode, stderr } = await lab.machine(node).run(words, { limitMs: 120_000 });
    if (exitCode !== 0) throw new Error(`${node} did not import ${image}: ${stderr}`);
  }
}

/** The specs list the images that they ask for, with former releases of some. */
async function findName(release: string): Promise<string> {
  const { stdout } = await execa(locateSpecComponents(release).specs, ['--list-images']);
  const names = stdout.split('\n').filter((image) => /\/e2e-test-images\/agnhost:[\d.]+$/.test(image));
  const newest = names.sort((one, other) => one.localeCompare(other, 'en', { numeric: true })).at(-1);
  if (newest === undefined) throw new Error(`the specs ask for no agnhost:\n${stdout}`);
  return newest;
}

function renderFile(base: string): string {
  return `FROM ${base}
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${packages.join(' ')} \\
 && rm -rf /var/lib/apt/lists/* && mkdir /uploads
# As busybox' wget, which asks once.
RUN echo 'tries = 1' >>/etc/wgetrc
COPY agnhost /agnhost
ENTRYPOINT ["/agnhost"]
CMD ["pause"]
`;
}
