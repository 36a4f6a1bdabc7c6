/**
 * Masters as they are before vipnat comes: a keepalived of the host's, whose author knows no agent, holds the VIP on the first one.
 * containerd has no image of vipnat, and the node no file of it.
 */
import { Administrator } from './administrator.ts';
import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { beforeAll, afterAll } from '@jest/globals';
import { masters } from '../../../support/network/layout.ts';
import { waitUntil, waitForVip, waitForPods, waitForAgents } from '../../../../tools/lab/nodes/ready.ts';
import { waitForQuiet } from '../measure/quiet.ts';
import { takeStaticPod, putStaticPod } from '../pods/static-pod.ts';
import { leaveAgentOut } from '../../../support/doctor/snippets.ts';
import { removeFolders } from './traces.ts';
import { TemporaryFolder } from '../../../support/network/at-end.ts';
import { readRelease } from '../../../../tools/release/settings/release.ts';
import { prepareBases, buildImage, buildKeepalivedImage } from '../../../support/image/build.ts';
import { writeArchive } from '../../../../tools/release/images/images.ts';
import { join } from 'node:path';
import { writeInstallYaml } from '../../../../tools/release/cluster/install-yaml.ts';

export const conf = '/etc/keepalived/keepalived.conf';

const pods = ['vipnat', 'keepalived'];

/** What nodes with keepalived alone have for tests. */
export interface KeepalivedAlone {
  /** On each master, the VIP's holder first. */
  readonly administrators: readonly [Administrator, ...Administrator[]];
  readonly files: NodeFiles;
}

/** Has keepalived alone on the masters for all tests of a block, and static pods of keepalived and vipnat again afterwards. */
export function useKeepalivedAlone(lab: () => NodeLab): () => KeepalivedAlone {
  let made: KeepalivedAlone | undefined;
  beforeAll(async () => {
    const files = await writeNodeFiles();
    const [first, ...others] = await Promise.all(
      masters.map(({ name }) => Administrator.create(lab(), name, files.nameToFile)),
    );
    if (first === undefined) throw new Error('there is no master');
    const administrators = [first, ...others] as const;
    made = { administrators, files };
    await Promise.all(administrators.map((each) => leaveKeepalivedAlone(lab(), each, files.image)));
    for (const { shell } of administrators) {
      await shell(startKeepalived);
      await waitUntil('the first master has the VIP', async () => {
        const holders = await lab().listHolders();
        return holders.join() === first.master ? null : `it is on: ${holders.join(', ')}`;
      });
    }
    await waitForVip(lab());
  });
  afterAll(async () => {
    if (made === undefined) return;
    await Promise.all(made.administrators.map((each) => restore(lab(), each)));
    made.files.remove();
    await waitForVip(lab());
    await waitForPods(
      lab(),
      masters.flatMap(({ name }) => pods.map((pod) => `${pod}-${name}`)),
    );
    await waitForAgents(lab());
    await waitForQuiet(lab());
  });
  return () => {
    if (made === undefined) throw new Error('the nodes are not prepared');
    return made;
  };
}

const startKeepalived = `setsid keepalived --dont-fork --log-console --vrrp --use-file=${conf} \\
  --pid=/run/keepalived.pid --vrrp_pid=/run/vrrp.pid >/run/keepalived.log 2>&1 </dev/null &`;

async function leaveKeepalivedAlone(
  lab: NodeLab,
  administrator: Administrator,
  image: string,
): Promise<void> {
  const { master, shell } = administrator;
  for (const pod of pods) await takeStaticPod(lab, master, pod);
  await waitUntil(`neither an agent nor keepalived runs on ${master}`, async () => {
    const { stdout } = await lab.machine(master).run(['pgrep', '--list-full', '--full', runningPattern]);
    return stdout === '' ? null : stdout;
  });
  const peers = masters.map(({ addresses }) => addresses[lab.options.family]).join(',');
  await shell(`vipnat cleanup
mkdir -p /etc/keepalived
vipnat keepalived --vip ${lab.vip} --peers ${peers} 2>/dev/null | ${leaveAgentOut} >${conf}
ctr --namespace k8s.io images remove --sync ${image}`);
  await removeFolders(administrator);
}

/** The programs of both pods, and not their shims. */
const runningPattern = String.raw`^keepalived |vipnat(\.js)? run( |$)`;

async function restore(lab: NodeLab, { master, shell, leave }: Administrator): Promise<void> {
  await shell(`if [ -e /run/keepalived.pid ]; then
  kill $(cat /run/keepalived.pid)
  while pgrep --exact keepalived >/dev/null; do sleep 0.1; done
fi
rm -rf ${conf} /run/keepalived.log
ctr --namespace k8s.io images import vipnat-image-*.tar`);
  for (const pod of pods) await putStaticPod(lab, master, pod);
  await leave();
}

/** The files of a release for nodes with containerd alone, by their names there. */
interface NodeFiles {
  readonly nameToFile: Readonly<Record<string, string>>;
  /** vipnat's image, as its archive names it. */
  readonly image: string;
  remove(): void;
}

/** Writes the files of a release for nodes: both images, of the tests' own build, as OCI archives, and install.yaml. */
async function writeNodeFiles(): Promise<NodeFiles> {
  const folder = new TemporaryFolder('release');
  const release = readRelease(folder.path, () => undefined);
  const { env } = await prepareBases();
  const { name: image } = await buildImage();
  const archives = {
    [`vipnat-image-${release.version}-linux-amd64.tar`]: image,
    [`vipnat-keepalived-image-${release.version}-linux-amd64.tar`]: await buildKeepalivedImage(),
  };
  for (const [name, whole] of Object.entries(archives))
    await writeArchive(release, whole, join(folder.path, name), env);
  const names = [...Object.keys(archives), ...(await writeInstallYaml(release))];
  return {
    nameToFile: Object.fromEntries(names.map((name) => [name, join(folder.path, name)])),
    image,
    remove: () => {
      folder.remove();
    },
  };
}
