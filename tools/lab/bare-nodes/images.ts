import { type ImageTemplate, buildPause, pauseImage, build, importImages } from '../nodes/images.ts';
import { prepareBases, buildImage } from '../../../test/support/image/build.ts';
import { execa } from 'execa';
import { dirname, basename } from 'node:path';
import { locateKubeadm, locateComponents, locateNodeComponents } from '../build/build.ts';

/**
 * Images under the names by which kubeadm has kubelets ask a registry for them, with the lab's own programs, imported once for
 * all nodes and labs. CoreDNS is none of them. `say` gets a line for what takes long.
 */
export async function prepareKubeadmImages(
  release: string,
  say: (line: string) => void,
): Promise<ImageTemplate> {
  say('building the images of a control plane, where they are not there yet');
  const bases = await prepareBases();
  await buildPause(bases);
  // It has iptables and nft, which kube-proxy calls.
  const { name: tools } = await buildImage();
  const names = await listNames(release);
  for (const name of names) {
    const program = findProgram(release, name);
    const base = name.includes('/kube-proxy:') ? tools : 'scratch';
    if (program === null) await execa('buildah', ['tag', pauseImage, name], { env: bases.env });
    else await build(name, dirname(program), renderFile(base, program), bases.env);
  }
  return await importImages([pauseImage, ...names], bases);
}

/** What kubeadm says that it needs. */
async function listNames(release: string): Promise<string[]> {
  const words = ['config', 'images', 'list', '--kubernetes-version', `v${release}`];
  const { stdout } = await execa(locateKubeadm(release), words);
  return stdout.split('\n').filter((name) => !name.includes('/coredns'));
}

/** The program of an image; null for the one without. */
function findProgram(release: string, image: string): string | null {
  const programs: Readonly<Record<string, string>> = {
    ...locateComponents(release),
    ...locateNodeComponents(release),
  };
  const [name = ''] = basename(image).split(':');
  return programs[name] ?? null;
}

function renderFile(base: string, program: string): string {
  return `FROM ${base}\nUSER 0\nENTRYPOINT []\nCOPY ${basename(program)} /usr/local/bin/\n`;
}
